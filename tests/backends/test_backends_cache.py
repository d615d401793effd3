"""The cache of compiled libraries: what is kept, what is trusted, and other processes that use it or are killed."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from backends import race
from backends.compilers import answer, entry, forbid_compiling, real, refused, text
from weft import cache
from weft.backends.cc import build, loader
from weft.cache import limit
from weft.errors import WeftWarning

DAY = 24 * 3600
TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("temporary")


# The cache


def test_a_second_build_finds_what_the_first_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    forbid_compiling(monkeypatch)
    assert answer(folder) == 42


def whole(path: Path) -> bool:
    return cache.content(path) is not None


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
    assert not whole(entry(folder)) if damage != "gone" else True
    assert answer(folder) == 42
    assert whole(entry(folder))


def test_an_entry_under_another_name_is_not_taken(folder: Path) -> None:
    assert answer(folder, 1) == 1
    first = entry(folder)
    content = first.read_bytes()
    first.unlink()
    assert answer(folder, 2) == 2
    renew(entry(folder), content)
    assert not whole(entry(folder))


def test_an_entry_half_written_is_no_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42

    def interrupted(handle: int, mode: str) -> object:
        os.write(handle, b"half")
        os.close(handle)
        raise KeyboardInterrupt

    with cache.opened(folder) as open_cache, monkeypatch.context() as patch:
        patch.setattr(cache, "open", interrupted, raising=False)
        for key in (entry(folder).name, "another"):
            with pytest.raises(KeyboardInterrupt):
                open_cache.keep(key, b"library")
    assert whole(entry(folder))
    assert list(folder.iterdir()) == [entry(folder)]


@pytest.mark.parametrize("damage", ["gone", "empty", "text", "no entry", "another entry"])
def test_a_damaged_note_does_no_harm(damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note says which entry holds a kernel."""
    monkeypatch.setenv("WEFT_CACHE", str(folder.parent))
    tensors = [wf.tensor([1.0, 2.0]) * 3.0, wf.sqrt(wf.tensor([0.5]))]
    expected = [wf.Context("interp")[one] for one in tensors]
    content = {"empty": b"", "text": b"!" * 40, "no entry": b"0" * 40}
    for _ in range(3):
        for one, value in zip(tensors, expected, strict=True):
            np.testing.assert_allclose(wf.Context("cc")[one], value)
        notes = sorted(folder.glob("*.in"))
        assert notes
        kept = [note.read_bytes() for note in notes]
        for note, other in zip(notes, reversed(kept), strict=True):
            note.unlink() if damage == "gone" else note.write_bytes(content.get(damage, other))
        build._loaded.clear()
        loader._known.clear()


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
    monkeypatch.setattr(cache, "content", lambda _: pytest.fail("an entry was read"))
    with pytest.warns(WeftWarning, match=f"not kept in {folder}: other users can write in it; set WEFT_CACHE"):
        assert answer(folder) == 42


def test_a_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    monkeypatch.setattr(cache, "_trusted", lambda: (os.geteuid() + 1,))
    with pytest.warns(WeftWarning, match="it belongs to another user"):
        assert answer(folder) == 42


def test_an_entry_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(folder) == 42
    assert whole(entry(folder))
    monkeypatch.setattr(cache, "_trusted", lambda: (os.geteuid() + 1,))
    assert not whole(entry(folder))


def test_a_folder_put_in_its_place_is_not_seen(folder: Path) -> None:
    """What was found to be the user's own stays so until it is loaded, though others move folders about meanwhile."""
    assert answer(folder, 1) == 1
    name = entry(folder).name
    folder.parent.chmod(0o777)
    with cache.opened(folder) as open_cache:
        folder.rename(folder.with_name("moved"))
        folder.mkdir()
        (folder / name).write_bytes(b"planted")
        library = build.loaded(open_cache, Path(name).stem)
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


def test_a_folder_that_is_removed_while_it_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = cache._shared

    def removing(status: os.stat_result) -> str:
        if status.st_nlink and folder.exists() and os.path.samestat(status, folder.stat()):
            folder.rmdir()
        return shared(status)

    monkeypatch.setattr(cache, "_shared", removing)
    with pytest.warns(WeftWarning, match="it can be moved or removed"):
        assert answer(folder) == 42


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

    monkeypatch.setattr(build.ctypes, "CDLL", noexec)
    with pytest.warns(WeftWarning, match="failed to map segment"):
        assert answer(folder) == 42


def test_a_warning_comes_once(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(WeftWarning) as caught:
        assert [answer(folder, number) for number in range(3)] == [0, 1, 2]
    assert len(caught) == 1


def test_a_warning_points_at_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    monkeypatch.setenv("WEFT_CACHE", str(folder.parent))
    with pytest.warns(WeftWarning, match="compiled code is not kept in") as caught:
        wf.Context("cc")[wf.tensor([1.0, 2.0]) * 77.0]
    assert caught[0].filename == __file__


def test_without_a_cache_a_process_compiles_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(WeftWarning):
        first = build.build_all(real(), [text(42)], folder)[0]
    forbid_compiling(monkeypatch)
    assert build.build_all(real(), [text(42)], folder)[0] is first


def test_nowhere_to_compile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    error = refused(folder, real())
    assert error.what.startswith("there is no place to compile: [Errno 2]")
    assert "TMPDIR" in error.fix


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.setenv("HOME", "/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("WEFT_CACHE", "~/mine")
    assert cache.cache_folder("cc") == Path("/someone/mine/cc")
    monkeypatch.delenv("WEFT_CACHE")
    assert cache.cache_folder("cc") == Path("/someone/.cache/weft/cc")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which its specification says to ignore
    assert cache.cache_folder("cc") == Path("/someone/.cache/weft/cc")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.cache_folder("cc") == Path("/caches/weft/cc")


def test_nobody_at_home(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "WEFT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}[0])
    assert cache.cache_folder("cc").is_relative_to(temporary)
    assert answer(cache.cache_folder("cc")) == 42
    assert whole(entry(cache.cache_folder("cc")))


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
    assert all(map(whole, folder.glob("*.so")))
    with pytest.MonkeyPatch.context() as patch:
        forbid_compiling(patch)
        assert [answer(folder, program) for program in range(race.PROGRAMS)] == list(range(race.PROGRAMS))
    assert [*folder.glob("making-*"), *temporary.iterdir()], "no process was killed at work"
    assert any(swept(folder, temporary, 1000 + attempt) for attempt in range(20))


def swept(folder: Path, temporary: Path, number: int) -> bool:
    """Does a later start remove everything, once it is old? A compiler whose caller was killed may still be writing."""
    cache._made.clear()  # as in a process that has made no entry yet
    for one in [*folder.glob("making-*"), *temporary.iterdir()]:
        os.utime(one, (time.time() - DAY,) * 2)
    assert answer(folder, number) == number
    time.sleep(0.1)
    return not [*folder.glob("making-*"), *temporary.iterdir()]


# How much is kept


def kept_entry(folder: Path, number: int, size: int, days: float) -> Path:
    """An entry last used so many days ago."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:040x}"
    path.write_bytes(b"x" * size)
    used = time.time() - days * limit.DAY_S
    os.utime(path, (used, used))
    return path


def test_what_was_used_longest_ago_goes_first(folder: Path) -> None:
    paths = [kept_entry(folder, number, 100, days=number + 1) for number in range(10)]
    aside = folder / "notes.txt"
    aside.write_bytes(b"y" * 5000)
    limit.trim(folder, 1000)
    assert all(path.exists() for path in paths)
    limit.trim(folder, 800)
    assert [path.exists() for path in paths] == [True] * 6 + [False] * 4
    limit.trim(folder, None)
    assert sum(path.exists() for path in paths) == 6
    assert aside.exists()


def test_what_nobody_used_for_long_goes(folder: Path) -> None:
    old, young = kept_entry(folder, 1, 10, days=91), kept_entry(folder, 2, 10, days=89)
    link = folder / f"{3:040x}"
    link.symlink_to(young)
    limit.trim(folder, None)
    assert not old.exists()
    assert young.exists()
    assert link.is_symlink()


def test_reading_an_entry_notes_the_day(folder: Path) -> None:
    with cache.opened(folder) as kept:
        kept.keep("0" * 40, b"content")
        path = folder / ("0" * 40)
        long_ago = time.time() - 30 * limit.DAY_S
        os.utime(path, (long_ago, long_ago))
        assert kept.read("0" * 40) == b"content"
        assert time.time() - path.stat().st_mtime < limit.DAY_S


def test_a_cache_is_trimmed_while_it_grows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_LIMIT", "2K")
    with cache.opened(folder) as kept:
        for number in range(129):
            kept.keep(f"{number:040x}", b"x" * 100)
    assert sum(one.size for one in limit.entries(folder)) <= 2048


@pytest.mark.parametrize(
    ("text", "wanted"), [("", 1 << 30), ("none", None), ("500M", 500 << 20), ("2 GiB", 2 << 30), ("7", 7), ("0", 0)]
)
def test_limits(text: str, wanted: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_LIMIT", text)
    assert limit.cache_limit() == wanted


@pytest.mark.parametrize("text", ["much", "-1", "2X", "1.5G", "٣"])
def test_limits_that_are_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_LIMIT", text)
    with pytest.raises(wf.WeftError, match="WEFT_CACHE_LIMIT is no number of bytes") as caught:
        limit.cache_limit()
    assert caught.value.fix == "write 500M, 2G or none"


def test_a_cache_with_an_unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", "~nobody_here/x")
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("cc")
    assert caught.value.what == "WEFT_CACHE names a home that is not there: '~nobody_here/x'"
    assert caught.value.origin is not None


def test_compilers_get_about_as_much_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    few, many = {"a": "for (" * 4, "b": "x"}, {f"k{n}": "for (" * n for n in range(1, 31)}
    assert loader._units(few) == [["a", "b"]]
    found = loader._units(many)
    assert sorted(name for unit in found for name in unit) == sorted(many)
    loops = [sum(many[name].count("for (") for name in unit) for unit in found]
    assert len(loops) == 3
    assert max(loops) - min(loops) <= 1
