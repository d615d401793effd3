"""Arrays by name in files: bit for bit, whole or not at all, and what is wrong said in words."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import weft as wf
from test_house import SRC, run_python
from weft.files import whole_file
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

KILLED = Path(__file__).with_name("killed.py")
both = pytest.mark.parametrize("suffix", [".safetensors", ".npz"])


def bits(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Every pattern of bits that a type has, or random ones: infinities, NaN and subnormal numbers too."""
    kind = numpy_type(dtype)
    count = int(np.prod(shape))
    raw = np.random.default_rng(3).integers(0, 256, count * kind.itemsize, np.uint8)
    return (raw % 2).astype(bool).reshape(shape) if dtype == "bool" else raw.view(kind).reshape(shape)


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        assert array.shape == other[name].shape, name
        assert array.tobytes() == other[name].tobytes(), name


@both
def test_every_type_comes_back_bit_for_bit(suffix: str, tmp_path: Path) -> None:
    state = {f"{dtype}.{len(shape)}": bits(dtype, shape) for dtype in ELEMENT_TYPES for shape in ((), (5,), (2, 3, 4))}
    state |= {f"{dtype}.none": bits(dtype, (0, 3)) for dtype in ELEMENT_TYPES}
    path = tmp_path / f"state{suffix}"
    wf.save(path, state)
    found = wf.load(str(path))
    same(found, state)
    assert all(array.flags.writeable for array in found.values())
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@both
def test_names_and_metadata_are_any_text(suffix: str, tmp_path: Path) -> None:
    names = ["file", "a", "a.npy", "über/é", "__weft__", "with space", "..", "mlp.w1"]
    path, metadata = tmp_path / f"state{suffix}", {"epoch": "12", "é": "{}\n", "": ""}
    wf.save(path, {name: np.full(2, at) for at, name in enumerate(names)}, metadata)
    assert {name: array[0] for name, array in wf.load(path).items()} == {name: at for at, name in enumerate(names)}
    assert wf.load_metadata(path) == metadata
    wf.save(path, {})
    assert (wf.load(path), wf.load_metadata(path)) == ({}, {})


@both
def test_what_is_saved_need_not_lie_in_order(suffix: str, tmp_path: Path) -> None:
    path, values = tmp_path / f"state{suffix}", np.arange(6.0).reshape(2, 3)
    wf.save(path, {"t": values.T, "big": values.astype(">f8"), "list": [1, 2], "number": 2.5})
    want = {"t": values.T, "big": values, "list": np.array([1, 2]), "number": np.array(2.5)}
    same(wf.load(path), {name: np.array(array, order="C") for name, array in want.items()})


def test_other_libraries_read_the_files_and_write_them(tmp_path: Path) -> None:
    state = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(3)}
    wf.save(tmp_path / "ours.safetensors", state)
    same(safetensors.numpy.load_file(tmp_path / "ours.safetensors"), state)
    wf.save(tmp_path / "ours.npz", state)
    with np.load(tmp_path / "ours.npz", allow_pickle=False) as archive:
        same({name: archive[name] for name in state}, state)
    safetensors.numpy.save_file(state, tmp_path / "theirs.safetensors", metadata={"format": "np"})
    np.savez_compressed(tmp_path / "theirs.npz", **state)
    for name, metadata in (("theirs.safetensors", {"format": "np"}), ("theirs.npz", {})):
        same(wf.load(tmp_path / name), state)
        assert wf.load_metadata(tmp_path / name) == metadata


# Whole or not at all


@both
def test_a_process_killed_at_any_moment_leaves_a_file_that_was_saved(suffix: str, tmp_path: Path) -> None:
    path, kills = tmp_path / f"state{suffix}", 25
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
    done = subprocess.run(
        [sys.executable, KILLED, path, str(kills)], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "no state was saved between two kills: the test sees nothing"


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@both
def test_a_full_disk_leaves_the_file_that_was_there(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"state{suffix}"
    for before, left in ((False, "there is no such file, as before"), (True, "the file that was there is as it was")):
        if before:
            wf.save(path, {"w": np.ones(3)})
        with monkeypatch.context() as patch:
            patch.setattr(whole_file.os, "fsync", full)
            with pytest.raises(wf.WeftError) as caught:
                wf.save(path, {"w": np.zeros(3)})
        assert caught.value.what == f"{str(path)!r} could not be written: No space left on device; {left}"
        assert list(tmp_path.iterdir()) == [path] * before
    same(wf.load(path), {"w": np.ones(3)})


def test_a_file_that_may_not_grow_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    code = f"""
import resource, numpy as np, weft as wf
wf.save({str(tmp_path / "a.npz")!r}, {{"w": np.ones(3)}})
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    wf.save({str(tmp_path / "a.npz")!r}, {{"w": np.zeros(10_000)}})
except wf.WeftError as error:
    print(error.what)
"""
    done = run_python(code)
    assert "could not be written: File too large; the file that was there is as it was" in done.stdout, done.stderr
    same(wf.load(tmp_path / "a.npz"), {"w": np.ones(3)})
    assert [one.name for one in tmp_path.iterdir()] == ["a.npz"]


def test_an_interrupt_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wf.save(tmp_path / "a.npz", {"w": np.ones(3)})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(whole_file.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            wf.save(tmp_path / "a.npz", {"w": np.zeros(3)})
    same(wf.load(tmp_path / "a.npz"), {"w": np.ones(3)})
    assert [one.name for one in tmp_path.iterdir()] == ["a.npz"]


def test_what_killed_processes_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    old, new = (tmp_path / f".a.npz.writing-{name}" for name in ("old", "new"))
    for one in (old, new):
        one.touch()
    os.utime(old, (0, 0))
    wf.save(tmp_path / "a.npz", {})
    assert (old.exists(), new.exists()) == (False, True)


def test_a_link_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "latest.npz").symlink_to(Path("real") / "a.npz")
    wf.save(tmp_path / "latest.npz", {"w": np.ones(3)})
    assert (tmp_path / "latest.npz").is_symlink()
    same(wf.load(tmp_path / "real" / "a.npz"), {"w": np.ones(3)})


def test_a_file_has_the_rights_that_files_have(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        wf.save(tmp_path / "a.npz", {})
    finally:
        os.umask(before)
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o640


# What is wrong


def test_folders_that_cannot_be_written_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    cases = {
        tmp_path / "none" / "a.npz": (
            "No such file or directory",
            "make the folder first: os.makedirs(…, exist_ok=True)",
        ),
        tmp_path / "file" / "a.npz": ("Not a directory", "make room or choose another folder, and save again"),
    }
    for path, (what, fix) in cases.items():
        with pytest.raises(wf.WeftError) as caught:
            wf.save(path, {})
        assert caught.value.what == f"{str(path)!r} could not be written: {what}; there is no such file, as before"
        assert caught.value.fix == fix

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(whole_file, "open", refused, raising=False)  # a folder of mode 0500 stops all but root
    with pytest.raises(wf.WeftError, match="Permission denied; there is no such file, as before"):
        wf.save(tmp_path / "a.npz", {})


@both
def test_a_damaged_file_is_told(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"state{suffix}"
    wf.save(path, {"w": np.arange(100.0), "b": np.arange(3).astype(ml_dtypes.bfloat16)}, {"epoch": "1"})
    content = path.read_bytes()
    for kept in (*range(0, 40, 7), *range(40, len(content), 97), len(content) - 1):
        path.write_bytes(content[:kept])
        for read in (wf.load, wf.load_metadata):
            with pytest.raises(wf.WeftError) as caught:
                read(path)
            assert caught.value.what.startswith(f"{str(path)!r} is damaged, or not a {suffix} file: ")
            assert caught.value.fix == "load another: a file that wf.save wrote is always whole"
    with pytest.raises(wf.WeftError, match=r"cannot be read: No such file or directory\n.*\n.*wf.save\(path, ctx"):
        wf.load(tmp_path / f"none{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(wf.WeftError, match="cannot be read: Is a directory"):
        wf.load(tmp_path / f"folder{suffix}")


def test_flipped_bits_of_an_archive_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    wf.save(path, {"w": np.zeros(100)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(wf.WeftError, match="is damaged"):
        wf.load(path)


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, w=np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(wf.WeftError, match=r"is damaged, or not a .npz file: Object arrays cannot be loaded"):
        wf.load(path)
    path.write_bytes(pickle.dumps({"w": np.ones(3)}))
    with pytest.raises(wf.WeftError, match="is damaged"):
        wf.load(path)


def test_types_that_tensors_do_not_have_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, name=np.array(["mlp"]))
    with pytest.raises(wf.WeftError, match="`name` holds <U3 in the file, which tensors do not"):
        wf.load(path)
    safetensors.numpy.save_file({"z": np.zeros(2, np.complex64)}, tmp_path / "a.safetensors")
    with pytest.raises(wf.WeftError, match="`z` is of type C64 in the file"):
        wf.load(tmp_path / "a.safetensors")


WRONG: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "no path": ((3, {}), "a file is named by a path, not int", "ctx.state(step)"),
    "no suffix": (("model", {}), "'model' does not say its format: its suffix is ''", "….safetensors"),
    "another suffix": (("model.pt", {}), "its suffix is '.pt'", "….npz"),
    "no state": (("a.npz", [1.0]), "wf.save takes arrays by name, not list", "wf.save(path, ctx.state(step))"),
    "no name": (("a.npz", {3: 1.0}), "arrays are saved by name, and 3 is none", "labels"),
    "no array": (("a.npz", {"w": "x"}), "`w` holds <U1, not numbers of a type that tensors have", "float32"),
    "ragged": (("a.npz", {"w": [[1], [1, 2]]}), "what is called `w` is no array of numbers", ""),
    "metadata": (("a.npz", {}, "x"), "metadata= takes texts by name, not str", '{"epoch": "12"}'),
    "a number": (("a.npz", {}, {"epoch": 3}), "metadata are texts by name, and 'epoch' is 3", "{'epoch': '3'}"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, what, fix = WRONG[case]
    with pytest.raises(wf.WeftError) as caught:
        wf.save(*arguments)
    assert what in caught.value.what
    assert fix in caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(wf.WeftError) as caught:
        wf.save(tmp_path / "a.safetensors", {})
    assert caught.value.what == "the format .safetensors needs the package `safetensors`, which is not installed"
    assert caught.value.fix == "pip install 'weft[io]', or save as .npz"


def test_an_archive_holds_nothing_twice(tmp_path: Path) -> None:
    wf.save(tmp_path / "a.npz", {"w": np.ones(2), "b": np.ones(2)})
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert archive.namelist() == ["__weft__.json", "w.npy", "b.npy"]
