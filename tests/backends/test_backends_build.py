"""From C text to a library: which compiler runs, what is kept, and what happens when either goes wrong."""

from __future__ import annotations

import ctypes
import importlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft as wf
from backends import race
from backends.compilers import TO_THE_LIBRARY, WITH_THE_SOURCE, fake, real, script, text
from weft.backends.cc import cache, compiler
from weft.errors import WeftWarning

build = importlib.import_module("weft.backends.cc.build")  # the package has a function of this name

DAY = 24 * 3600
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test has temporary files and loaded libraries of its own."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "_warned", set())
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "cc"


def answer(folder: Path, number: int = 42, using: compiler.Compiler | None = None) -> int:
    """What the library of a text answers, in a process that has not loaded it yet."""
    build._loaded.clear()
    library: ctypes.CDLL = build.build(using or real(), text(number), folder)
    return int(library.answer())


def refused(folder: Path, using: compiler.Compiler) -> wf.WeftError:
    with pytest.raises(wf.WeftError) as caught:
        answer(folder, using=using)
    return caught.value


def entry(folder: Path) -> Path:
    (found,) = folder.glob("*.so")
    return found


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_start", lambda *_: pytest.fail("the compiler ran"))


# Compilers


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


@pytest.mark.parametrize("what", ["FLAGS", "machine"])
def test_other_flags_or_another_machine_compile_again(what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    monkeypatch.setattr(build, what, (lambda: "another") if what == "machine" else (*build.FLAGS, "-g"))
    assert answer(folder) == 42
    assert len(list(folder.glob("*.so"))) == 2


def test_the_machine_is_told_by_processor_and_abi() -> None:
    lines = compiler.machine().splitlines()
    assert lines[0] == os.uname().sysname
    assert str(sys.maxsize) in lines
    assert any(line.startswith(("flags", "Features")) for line in lines)


# The cache


def test_a_second_build_finds_what_the_first_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    forbid_compiling(monkeypatch)
    assert answer(folder) == 42


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    renew(path, bytes(content))


def renew(path: Path, content: bytes) -> None:
    path.unlink()  # a loaded library must not be written over
    path.write_bytes(content)


def link(path: Path) -> None:
    shutil.copy(path, path.with_name("elsewhere"))
    path.unlink()
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES = {
    "empty": lambda path: renew(path, b""),
    "text": lambda path: renew(path, b"not a library"),
    "cut short": lambda path: renew(path, path.read_bytes()[:-100]),
    "without its digest": lambda path: renew(path, path.read_bytes()[:-32]),
    "one bit": flip,
    "a link": link,
    "a pipe": pipe,
    "open to others": lambda path: path.chmod(0o666),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(damage: str, folder: Path) -> None:
    assert answer(folder) == 42
    DAMAGES[damage](entry(folder))
    assert not cache.is_whole(entry(folder)) if damage != "gone" else True
    assert answer(folder) == 42
    assert cache.is_whole(entry(folder))


def test_an_entry_under_another_name_is_not_taken(folder: Path) -> None:
    assert answer(folder, 1) == 1
    first = entry(folder)
    content = first.read_bytes()
    first.unlink()
    assert answer(folder, 2) == 2
    renew(entry(folder), content)
    assert not cache.is_whole(entry(folder))


def test_an_entry_half_written_is_no_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42

    def interrupted(handle: int, mode: str) -> object:
        os.write(handle, b"half")
        os.close(handle)
        raise KeyboardInterrupt

    with cache.opened(folder) as open_cache, monkeypatch.context() as patch:
        patch.setattr(cache, "open", interrupted, raising=False)
        for key in (entry(folder).stem, "another"):
            with pytest.raises(KeyboardInterrupt):
                open_cache.keep(key, b"library")
    assert cache.is_whole(entry(folder))
    assert list(folder.iterdir()) == [entry(folder)]


def test_folders_are_made_for_the_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert answer(folder) == 42
    finally:
        os.umask(before)
    assert [oct(one.stat().st_mode & 0o777) for one in (folder, folder.parent, entry(folder))] == [
        "0o700",
        "0o700",
        "0o600",
    ]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_others_can_write_in_is_not_used(mode: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    folder.chmod(mode)
    monkeypatch.setattr(cache, "is_whole", lambda _: pytest.fail("an entry was read"))
    with pytest.warns(WeftWarning, match=f"not kept in {folder}: other users can write in it; set WEFT_CACHE"):
        assert answer(folder) == 42


def test_a_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    monkeypatch.setattr(cache, "_trusted", lambda: (os.geteuid() + 1,))
    with pytest.warns(WeftWarning, match="it belongs to another user"):
        assert answer(folder) == 42


def test_an_entry_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    assert cache.is_whole(entry(folder))
    monkeypatch.setattr(cache, "_trusted", lambda: (os.geteuid() + 1,))
    assert not cache.is_whole(entry(folder))


def test_a_folder_put_in_its_place_is_not_seen(folder: Path) -> None:
    """What was found to be the user's own stays so until it is loaded, though others move folders about meanwhile."""
    assert answer(folder, 1) == 1
    name = entry(folder).name
    folder.parent.chmod(0o777)
    with cache.opened(folder) as open_cache:
        folder.rename(folder.with_name("moved"))
        folder.mkdir()
        (folder / name).write_bytes(b"planted")
        library = open_cache.load(Path(name).stem)
        assert library is not None
        assert library.answer() == 1


@pytest.mark.parametrize(("mode", "by_path"), [(0o700, True), (0o755, True), (0o1777, True), (0o777, False)])
def test_a_library_goes_by_its_path_where_that_is_safe(mode: int, by_path: bool, folder: Path) -> None:
    answer(folder)
    folder.parent.chmod(mode)
    with cache.opened(folder) as open_cache:
        assert (open_cache.place == folder.resolve()) == by_path


@pytest.mark.parametrize("stage", ["file", "under"])
def test_no_place_for_a_cache(stage: str, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.warns(WeftWarning, match="compiled code is not kept in"):
        assert answer(blocked if stage == "file" else blocked / "under" / "cc") == 42


def test_a_folder_nobody_can_make() -> None:
    with pytest.warns(WeftWarning, match="compiled code is not kept in /proc/self/weft/cc"):
        assert answer(Path("/proc/self/weft/cc")) == 42


def test_a_full_disk(folder: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**wanted: str) -> tuple[int, str]:
        handle, name = tempfile.mkstemp(**wanted)
        os.close(handle)
        return os.open("/dev/full", os.O_WRONLY), name

    class Full:
        mkstemp = staticmethod(full)

    monkeypatch.setattr(cache, "tempfile", Full)
    with pytest.warns(WeftWarning, match="No space left on device"):
        assert answer(folder) == 42
    assert list(folder.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_a_folder_that_runs_no_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is mounted noexec."""
    load = ctypes.CDLL

    def noexec(path: str) -> ctypes.CDLL:
        if path.startswith(str(folder)):
            raise OSError("failed to map segment from shared object")
        return load(path)

    monkeypatch.setattr(cache.ctypes, "CDLL", noexec)
    with pytest.warns(WeftWarning, match="failed to map segment"):
        assert answer(folder) == 42


def test_a_warning_comes_once(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(WeftWarning) as caught:
        assert [answer(folder, number) for number in range(3)] == [0, 1, 2]
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_without_a_cache_a_process_compiles_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(WeftWarning):
        first = build.build(real(), text(42), folder)
    forbid_compiling(monkeypatch)
    assert build.build(real(), text(42), folder) is first


def test_nowhere_to_compile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    error = refused(folder, real())
    assert error.what.startswith("there is no place to compile: [Errno 2]")
    assert "TMPDIR" in error.fix


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.setenv("HOME", "/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("WEFT_CACHE", "~/mine")
    assert cache.cache_folder() == Path("/someone/mine/cc")
    monkeypatch.delenv("WEFT_CACHE")
    assert cache.cache_folder() == Path("/someone/.cache/weft/cc")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which its specification says to ignore
    assert cache.cache_folder() == Path("/someone/.cache/weft/cc")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.cache_folder() == Path("/caches/weft/cc")


def test_nobody_at_home(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "WEFT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}[0])
    assert cache.cache_folder().is_relative_to(temporary)
    assert answer(cache.cache_folder()) == 42
    assert cache.is_whole(entry(cache.cache_folder()))


def test_what_killed_processes_left_is_removed_once_old(folder: Path, temporary: Path) -> None:
    folder.mkdir(parents=True)
    for name, age in [("making-old", DAY), ("making-new", 0), ("other-old", DAY)]:
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age,) * 2)
    for name, age in [("weft-making-old", DAY), ("weft-making-new", 0), ("weft-failed-old", DAY), ("other", DAY)]:
        (temporary / name).mkdir()
        (temporary / name / "weft.c").write_text("")
        os.utime(temporary / name, (time.time() - age,) * 2)
    assert answer(folder) == 42
    assert {one.name for one in folder.iterdir()} == {"making-new", "other-old", entry(folder).name}
    assert {one.name for one in temporary.iterdir()} == {"weft-making-new", "weft-failed-old", "other"}


# Other processes


def fresh(code: str, **environment: object) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    chosen = {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run([sys.executable, "-c", code], env=chosen, capture_output=True, text=True, check=False)


#: Prints the programs that were started, then what was computed.
WATCHED = """
import sys
started = []
programs = ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system")
sys.addaudithook(lambda event, given: started.append(str(given[0])) if event in programs else None)
import weft as wf
found = wf.Context("cc")[wf.tensor([1.0, 2.0]) * 3.0]
print(started, list(map(float, found)))
"""


def test_a_warm_start_runs_no_program(tmp_path: Path) -> None:
    cold, warm = (fresh(WATCHED, WEFT_CACHE=tmp_path, WEFT_CC="") for _ in range(2))
    assert cold.stdout == "['cc'] [3.0, 6.0]\n", cold.stderr
    assert warm.stdout == "[] [3.0, 6.0]\n", warm.stderr


#: Runs the code it is given without the right to do what permissions forbid, which root has.
PLAIN = """
import ctypes, os, sys
for right in (1, 2):
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-W", "always", "-c", os.environ["CODE"]])
"""


@pytest.mark.parametrize("closed", ["folder", "parent"])
def test_a_folder_that_cannot_be_written(closed: str, tmp_path: Path) -> None:
    parent = tmp_path / "kept"
    parent.mkdir()
    if closed == "folder":
        assert fresh(WATCHED, WEFT_CACHE=parent).returncode == 0
    place = parent / "cc" if closed == "folder" else parent
    place.chmod(0o500)
    try:
        same = fresh(PLAIN, WEFT_CACHE=parent, CODE=WATCHED)
        other = fresh(PLAIN, WEFT_CACHE=parent, CODE=WATCHED.replace("3.0", "4.0"))
    finally:
        place.chmod(0o700)
    assert other.stdout.endswith("[4.0, 8.0]\n"), other.stderr
    assert f"compiled code is not kept in {parent / 'cc'}: Permission denied" in other.stderr
    assert same.stdout.endswith("[3.0, 6.0]\n"), same.stderr
    assert same.stdout.startswith("[]") == (closed == "folder"), "what was kept before can still be read"


def test_a_race_with_killed_processes(folder: Path, temporary: Path) -> None:
    seed = random.randrange(1000)
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    done = subprocess.run(
        [sys.executable, str(TESTS / "backends" / "race.py"), str(folder), str(seed)],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    right, wrong, killed = map(int, done.stdout.split())
    assert (right, wrong, killed) == (race.PROCESSES - race.KILLED, 0, race.KILLED), f"seed {seed}: {done.stderr}"
    assert len(list(folder.glob("*.so"))) == race.PROGRAMS
    assert all(map(cache.is_whole, folder.glob("*.so")))
    with pytest.MonkeyPatch.context() as patch:
        forbid_compiling(patch)
        assert [answer(folder, program) for program in range(race.PROGRAMS)] == list(range(race.PROGRAMS))
    assert [*folder.glob("making-*"), *temporary.iterdir()], "no process was killed at work"
    assert any(swept(folder, temporary, 1000 + attempt) for attempt in range(20))


def swept(folder: Path, temporary: Path, number: int) -> bool:
    """Does a later start remove everything, once it is old? A compiler whose caller was killed may still be writing."""
    for one in [*folder.glob("making-*"), *temporary.iterdir()]:
        os.utime(one, (time.time() - DAY,) * 2)
    assert answer(folder, number) == number
    time.sleep(0.1)
    return not [*folder.glob("making-*"), *temporary.iterdir()]


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
        build.build(real(), "int answer(void) { return nothing; }\n", folder)
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


def test_a_compiler_that_hangs(
    hanging: compiler.Compiler, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "TIME_LIMIT_S", 0.5)
    assert refused(folder, hanging).what == "the C compiler did not finish within 0.5 s"
    assert ends(int((tmp_path / "child").read_text()))


def test_an_interrupt_ends_the_compiler(
    hanging: compiler.Compiler, folder: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = build.subprocess.Popen.wait

    def interrupted(process: object, timeout: float | None = None) -> int:
        if timeout is None:
            return int(wait(process))
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(build.subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        answer(folder, using=hanging)
    assert ends(int((tmp_path / "child").read_text()))
    assert list(temporary.iterdir()) == []


def test_a_compiler_whose_child_lives_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that keeps the compiler's output open, such as a server it started, is not waited for."""
    monkeypatch.setattr(build, "TIME_LIMIT_S", 20)
    using = fake(tmp_path, f'sleep 60 & echo $! > {tmp_path}/child; exec cc "$@"')
    try:
        assert answer(folder, using=using) == 42
    finally:
        os.kill(int((tmp_path / "child").read_text()), 9)
