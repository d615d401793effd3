"""The file of what tuning found: whoever writes, whatever was damaged, wherever it came from."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

import weft as wf
from weft.schedule.decisions import read_decisions
from weft.schedule.tuning.tuned import Found, Tuned, best_of, keep, machine_key, read_lines, tuned

HERE = machine_key(wf.Machine())
ONE, OTHER = read_decisions({"i0": "on vectors of 8"}), read_decisions({"i0": "unrolled by 4", "i1": "on vectors"})
FILE = "tuned.jsonl"


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path / "tuned" / FILE


def known(name: str = FILE) -> Tuned:
    return tuned(name, wf.Machine())


def test_what_is_kept_is_read_again(path: Path, tmp_path: Path) -> None:
    assert known() == Tuned()
    keep(FILE, [Found("k", HERE, ONE, 0.5, 1.0, "y =: x")])
    assert known().best == {"k": ONE}
    keep(FILE, [Found("k", HERE, OTHER, 0.4, 1.0), Found("l", HERE, ONE, 0.9, 1.0)])
    assert known().best == {"k": OTHER, "l": ONE}
    assert known("") == Tuned()
    mine = str(tmp_path / "mine.jsonl")
    keep(mine, [Found("m", HERE, ONE, 0.5, 1.0)])
    assert known(mine).best == {"m": ONE}


def test_what_differs_has_another_identity() -> None:
    tables = [Tuned(), Tuned({"k": ONE}), Tuned({"k": OTHER}), Tuned({"l": ONE}), Tuned({"k": ONE, "l": ONE})]
    assert len({one.identity for one in tables}) == len(tables)
    assert Tuned({"k": ONE, "l": OTHER}).identity == Tuned({"l": OTHER, "k": ONE}).identity
    assert Tuned({"k": ONE}).but({"k": None, "l": ONE}) == Tuned({"l": ONE})


def test_lines_count_in_any_order() -> None:
    """The slowest measurement of the same decisions, and of different ones the best; none that is not better."""
    lines = [
        Found("k", HERE, ONE, 0.2, 1.0),
        Found("k", HERE, ONE, 0.9, 1.0),
        Found("k", HERE, OTHER, 0.5, 1.0),
        Found("l", HERE, ONE, 1.5, 1.0),
    ]
    assert all(best_of(some) == {"k": OTHER} for some in permutations(lines))


def test_another_kind_of_machine_is_another_matter() -> None:
    keep(FILE, [Found("k", HERE, ONE, 0.5, 1.0)])
    for other in ({"identity": "another"}, {"cores": 64}, {"vector_bytes": 16}):
        assert tuned(FILE, replace(wf.Machine(), **other)) == Tuned()  # type: ignore[arg-type]


LINE = json.loads(Found("k", HERE, OTHER, 0.1, 1.0).line)
DAMAGED = [
    "not json",
    "{}",
    "[1]",
    "null",
    "\x00\xff",
    "[" * 100_000,
    Found("k", HERE, OTHER, 0.1, 1.0).line[:-9],
    *(
        json.dumps({**LINE, **wrong})
        for wrong in (
            {"format": 2},
            {"seconds": 0},
            {"seconds": "quick"},
            {"untuned": float("inf")},
            {"decisions": ["i0"]},
            {"decisions": {"i0": "unrolled by 99999"}},
        )
    ),
]


def test_lines_that_cannot_be_read_are_passed_over(path: Path) -> None:
    keep(FILE, [Found("k", HERE, ONE, 0.5, 1.0)])
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n\n" + "\n".join(DAMAGED))  # the last without an end, as of a writer that was killed
    keep(FILE, [Found("l", HERE, ONE, 0.5, 1.0)])
    with pytest.warns(wf.WeftWarning, match=rf"{len(DAMAGED)} lines of what tuning found cannot be read") as told:
        found = [known().best for _ in range(2)]
    assert found == [{"k": ONE, "l": ONE}] * 2
    assert len(told) == 1
    assert f"weft tune merge --into {path} leaves them out" in str(told[0].message)


def test_writers_at_once_write_whole_lines(path: Path) -> None:
    lines = [Found(f"kernel {number}", HERE, OTHER, 0.5, 1.0, "w" * 3000) for number in range(100)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: keep(FILE, [one]), lines))
    found, damaged = read_lines(path.read_text().splitlines())
    assert (len(found), damaged) == (100, 0)
    assert set(found) == set(lines)


def test_a_folder_that_others_can_write_in_is_not_used(path: Path) -> None:
    keep(FILE, [Found("k", HERE, ONE, 0.5, 1.0)])
    os.chmod(path.parent, 0o777)
    assert known() == Tuned()
    with pytest.warns(wf.WeftWarning, match="what tuning found is not kept in .*: other users can write in it"):
        keep(FILE, [Found("k", HERE, ONE, 0.5, 1.0)])


def test_the_file_is_a_setting() -> None:
    with pytest.raises(wf.WeftError, match=r"config\.tuned is the path of a file, or empty, not None"):
        wf.CompileOptions(tuned=None)  # type: ignore[arg-type]
