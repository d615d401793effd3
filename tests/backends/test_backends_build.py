"""From C text to a library: which compiler runs, and what happens when it goes wrong."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import weft as wf
from backends.compilers import TO_THE_LIBRARY, WITH_THE_SOURCE, answer, fake, real, refused, script, text
from weft import machine
from weft.backends.cc import build, compiler

pytestmark = pytest.mark.usefixtures("temporary")


# Which compiler


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (("cc", "gcc", "clang"), ("cc",)),
        (("clang", "gcc"), ("gcc",)),
        (("clang",), ("clang",)),
        ((), (sys.executable, "-m", "ziglang", "cc")),
    ],
)
def test_the_first_compiler_there_is(
    there: tuple[str, ...], expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in there:
        script(tmp_path / name, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler, "find_spec", lambda _: importlib.util.find_spec("weft"))
    found = compiler.find_compiler(None)
    assert found is not None
    assert found.command == expected


def test_no_compiler_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(compiler, "find_spec", lambda _: None)
    assert compiler.find_compiler(None) is None
    monkeypatch.delenv("WEFT_CC", raising=False)
    with pytest.raises(wf.WeftError, match="no C compiler was found"):
        wf.Context("cc")


def test_a_command_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", "no-such-compiler")
    with pytest.raises(wf.WeftError, match="WEFT_CC names no compiler: 'no-such-compiler'"):
        wf.Context("cc")


def test_a_command_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", "gcc '-O2")
    with pytest.raises(wf.WeftError, match=r"WEFT_CC is not a command: .* No closing quotation"):
        wf.Context("cc")


def test_a_command_with_options_and_a_path_with_spaces(tmp_path: Path) -> None:
    path = script(tmp_path / "my compilers" / "cc", "exit 1")
    for wanted, expected in [(str(path), (str(path),)), (f"'{path}' -m64", (str(path), "-m64"))]:
        found = compiler.find_compiler(wanted)
        assert found is not None
        assert found.command == expected


def test_a_compiler_leaves_its_temporary_files_with_ours(folder: Path, tmp_path: Path, temporary: Path) -> None:
    using = fake(tmp_path, f'echo "$TMPDIR" "$LC_ALL" > {tmp_path}/seen; exec cc "$@"')
    assert answer(folder, using=using) == 42
    place, language = (tmp_path / "seen").read_text().split()
    assert Path(place).parent == temporary
    assert not Path(place).exists()
    assert language == "C"


def test_zig_keeps_its_cache_in_ours(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs one to work at all; a user's own choice stands."""
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    path = script(tmp_path / "zig", f'echo "$ZIG_GLOBAL_CACHE_DIR" > {tmp_path}/seen; shift; exec cc "$@"')
    for number, expected in enumerate([str(folder / "zig"), "chosen"]):
        answer(folder, number, compiler.find_compiler(f"{path} cc"))
        assert (tmp_path / "seen").read_text().strip() == expected
        monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "chosen")


@pytest.mark.parametrize("name", ["gcc", "clang", "ziglang"])
def test_every_compiler_takes_our_flags(name: str, folder: Path) -> None:
    wanted = f"{sys.executable} -m ziglang cc" if name == "ziglang" else name
    if not (importlib.util.find_spec(name) if name == "ziglang" else shutil.which(name)):
        pytest.skip(f"{name} is not installed")
    assert answer(folder, using=compiler.find_compiler(wanted)) == 42


def test_a_change_of_the_compiler_compiles_again(tmp_path: Path, folder: Path) -> None:
    path = script(tmp_path / "mycc", 'exec cc "$@"')
    for time_of_change in (1_000_000_000, 2_000_000_000):
        os.utime(path, (time_of_change, time_of_change))
        assert answer(folder, using=compiler.find_compiler(str(path))) == 42
    assert len(list(folder.glob("*.so"))) == 2


def test_a_compiler_behind_another_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where ccache calls itself cc and runs the cc further down PATH."""
    script(tmp_path / "front" / "cc", "exit 1")
    behind = script(tmp_path / "behind" / "cc", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'front'}{os.pathsep}{tmp_path / 'behind'}")
    before = compiler.find_compiler(None)
    os.utime(behind, (1, 1))
    assert compiler.find_compiler(None) != before


@pytest.mark.parametrize("what", ["flags", "machine"])
def test_other_flags_or_another_machine_compile_again(what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    another = replace(machine.Machine.here(), identity="another")
    if what == "machine":
        monkeypatch.setattr(machine, "_here", lambda: another)
    else:
        monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    assert answer(folder) == 42
    assert len(list(folder.glob("*.so"))) == 2


def test_the_machine_is_told_by_processor_and_abi() -> None:
    lines = machine.described()
    assert lines[0] == os.uname().sysname
    assert str(sys.maxsize) in lines
    assert any(line.startswith(("flags", "Features")) for line in lines)


# Compilers that go wrong


def test_a_compiler_that_fails(folder: Path, tmp_path: Path, temporary: Path) -> None:
    using = fake(tmp_path, 'echo "weft.c: note: hm" >&2; echo "weft.c:1: error: no" >&2; exit 1')
    error = refused(folder, using)
    assert error.what == "the C compiler failed: weft.c:1: error: no"
    assert error.notes[0].startswith(f"command: {using.command[0]} -std=c11")
    source = Path(error.notes[1].removeprefix("the source is kept at "))
    assert source.read_text() == text(42)
    assert str(source) in error.notes[0]
    assert [one.name for one in temporary.iterdir()] == [source.parent.name]
    assert list(folder.iterdir()) == []


def test_the_user_sees_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", fake(tmp_path, "echo 'an error'; exit 1").command[0])
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("cc")[wf.tensor([1.0]) + 1.0]
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_real_errors_are_shown(folder: Path, temporary: Path) -> None:
    with pytest.raises(wf.WeftError) as caught:
        build.build_all(real(), ["int answer(void) { return nothing; }\n"], folder)
    assert "error: " in caught.value.what
    assert "nothing" in caught.value.what
    shown = caught.value.what.removeprefix("the C compiler failed: ").split(":")[0]
    assert Path(shown).exists()


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("echo something; exit 3", "the C compiler failed: something"),
        ("exit 3", "the C compiler failed: exit status 3"),
        ("kill -SEGV $$", "the C compiler was killed by signal 11 (SIGSEGV)"),
        ("exit 0", "the C compiler reports success but wrote no library"),
        (TO_THE_LIBRARY + 'echo garbage > "$2"', "what the C compiler made cannot be loaded: "),
        (TO_THE_LIBRARY + ': > "$2"', "what the C compiler made cannot be loaded: "),
    ],
)
def test_a_compiler_that_goes_wrong(lines: str, what: str, folder: Path, tmp_path: Path, temporary: Path) -> None:
    error = refused(folder, fake(tmp_path, lines))
    assert error.what.startswith(what)
    assert Path(error.notes[1].removeprefix("the source is kept at ")).exists()
    assert error.fix
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -SEGV $$"])
def test_the_folder_to_compile_in_vanishes(end: str, folder: Path, tmp_path: Path, temporary: Path) -> None:
    using = fake(tmp_path, WITH_THE_SOURCE + f'rm -rf "$(dirname "$source")"; {end}')
    error = refused(folder, using)
    assert error.what.startswith("the C compiler ")
    assert error.notes[0].startswith(f"the folder it worked in is gone: {temporary}")
    assert "set another TMPDIR" in error.fix


def test_a_source_that_cannot_be_written_leaves_nothing(
    folder: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    error = refused(folder, real())
    assert error.what == "there is no place to compile: [Errno 28] No space left on device"
    assert list(temporary.iterdir()) == []


def test_a_compiler_that_cannot_run(folder: Path, tmp_path: Path) -> None:
    using = fake(tmp_path, "exit 0")
    Path(using.command[0]).write_bytes(b"\x7fELF, or not")
    assert refused(folder, using).what == "the C compiler could not be started: Exec format error"


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def ends(process: int) -> bool:
    deadline = time.monotonic() + 10
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(process)


@pytest.fixture
def hanging(tmp_path: Path) -> compiler.Compiler:
    """A compiler that waits for a program of its own, as gcc does for cc1."""
    return fake(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; wait")


def test_a_compiler_that_hangs(hanging: compiler.Compiler, folder: Path, tmp_path: Path) -> None:
    assert refused(folder, replace(hanging, limit_s=0.5)).what == "the C compiler did not finish within 0.5 s"
    assert ends(int((tmp_path / "child").read_text()))


def test_an_interrupt_ends_the_compiler(
    hanging: compiler.Compiler, folder: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(process: object, limit_s: float) -> int:
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        answer(folder, using=hanging)
    assert ends(int((tmp_path / "child").read_text()))
    assert list(temporary.iterdir()) == []


def test_a_compiler_is_ended_however_the_wait_for_it_was_interrupted() -> None:
    over = subprocess.Popen(["true"], start_new_session=True)
    os.waitpid(over.pid, 0)  # and then an interrupt: nobody has noted it
    build._end(over)
    waited_for = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with waited_for._waitpid_lock:  # type: ignore[attr-defined]  # as an interrupt left it
        build._end(waited_for, limit_s=0.1)
    assert waited_for.wait(10) == -9


def test_a_compiler_whose_child_lives_on(folder: Path, tmp_path: Path) -> None:
    """Something that keeps the compiler's output open, such as a server it started, is not waited for."""
    using = fake(tmp_path, f'sleep 60 & echo $! > {tmp_path}/child; exec cc "$@"')
    try:
        assert answer(folder, using=replace(using, limit_s=20)) == 42
    finally:
        os.kill(int((tmp_path / "child").read_text()), 9)


# Several at once


def test_compilers_run_side_by_side(folder: Path, tmp_path: Path) -> None:
    """Each begins its work only when the other has started too."""
    started = f'echo > "{tmp_path}/started.$$"'
    both = f"[ $(ls {tmp_path}/started.* | wc -l) = 2 ]"
    using = fake(tmp_path, f'{started}\nfor try in $(seq 100); do {both} && exec cc "$@"; sleep 0.1; done\nexit 1')
    libraries = build.build_all(using, [text(1), text(2), text(1)], folder)
    assert [library.answer() for library in libraries] == [1, 2, 1]
    assert len(list(folder.glob("*.so"))) == 2


def test_one_that_fails_ends_the_others(folder: Path, tmp_path: Path, temporary: Path) -> None:
    fails = f'if grep -q 1111 "$source"; then while ! [ -s {tmp_path}/child ]; do sleep 0.01; done; exit 1; fi'
    using = fake(tmp_path, f"{WITH_THE_SOURCE}{fails}\necho $$ > {tmp_path}/child; exec sleep 300")
    with pytest.raises(wf.WeftError, match="the C compiler failed: exit status 1"):
        build.build_all(using, [text(1111), text(2)], folder)
    assert ends(int((tmp_path / "child").read_text()))
    assert [one.name.startswith("weft-failed-") for one in temporary.iterdir()] == [True]
