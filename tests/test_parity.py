"""The tables of parity: every row names a test that is there, or says why there is none."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "parity").glob("*.md"))
#: A test as the tables write it: a file, a function, and the id of one of its cases.
NAMED = re.compile(r"`(?P<path>[\w/]+\.py)::(?P<name>\w+)(?:\[(?P<case>[^`]*)\])?`")
#: What stands in the place of a test: how weft differs or what it does not have, and why.
EXCUSED = re.compile(r"(?:^|; )(?:differs|not here): \S+(?: \S+){2,}")
CELLS = re.compile(r"(?<!\\)\|")


def rows(page: Path) -> list[list[str]]:
    """The cells of each row of each table, without headings."""
    lines = page.read_text(encoding="utf-8").splitlines()
    below = [line for before, line in pairwise(lines) if before.startswith("|")]
    cells = [[cell.strip() for cell in CELLS.split(line)[1:-1]] for line in below if line.startswith("|")]
    return [row for row in cells if not set("".join(row)) <= set("-")]


def file_of(path: str) -> Path:
    """`tensor/assignments.py` is short for `tests/tensor/test_tensor_assignments.py`."""
    if path.startswith(("tests/", "bench/")):
        return ROOT / path
    room, _, name = path.partition("/")
    return ROOT / "tests" / room / f"test_{room}_{name}"


@cache
def module(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def functions(file: Path) -> frozenset[str]:
    return frozenset(node.name for node in module(file).body if isinstance(node, ast.FunctionDef))


@cache
def texts(file: Path) -> frozenset[str]:
    """What the file writes between quotes, as pytest shows it in the id of a case."""
    nodes = (node.value for node in ast.walk(module(file)) if isinstance(node, ast.Constant))
    return frozenset(str(value).encode("unicode_escape").decode() for value in nodes)


def is_case(file: Path, case: str) -> bool:
    """Is the id of a case made of what the file writes? Several parameters are joined by dashes."""
    dashes = [at for at, sign in enumerate(case) if sign == "-"]
    return case in texts(file) or any(case[:at] in texts(file) and is_case(file, case[at + 1 :]) for at in dashes)


def fault(row: list[str]) -> str | None:
    """What is wrong with a row."""
    named = list(NAMED.finditer(row[-1]))
    if not named:
        return None if any(map(EXCUSED.search, row[1:])) else "neither a test nor a reason why there is none"
    for found in named:
        file = file_of(found["path"])
        if not file.is_file():
            return f"there is no {file.relative_to(ROOT)}"
        if found["name"] not in functions(file):
            return f"{file.relative_to(ROOT)} has no {found['name']}"
        case = found["case"]
        if case is not None and not is_case(file, case.replace("\\|", "|")):
            return f"{found['name']} has no case {case}"
    return None


def test_there_are_three_tables() -> None:
    assert {page.stem for page in PAGES} >= {"ocannl", "seeds", "tc"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_has_a_test_or_a_reason(page: Path) -> None:
    found = rows(page)
    assert len(found) > 60
    faults = [f"{row[0]}: {wrong}" for row in found if (wrong := fault(row))]
    assert not faults, "\n".join(faults)


FAULTS = {
    "| a | the same | `tensor/assignments.py::test_every_assignment` |": None,
    "| a | the same | `tensor/assignments.py::test_every_assignment[power]` |": None,
    "| a | the same | `tests/test_plan.py::test_diagonals` |": None,
    "| a | not here: there is no such backend | |": None,
    "| a | the same; differs: scalars have an axis | |": None,
    "| a | the same | |": "neither a test nor a reason why there is none",
    "| a | differs: yes | |": "neither a test nor a reason why there is none",
    "| a | the same | `tensor/kode.py::test_every_assignment` |": "there is no tests/tensor/test_tensor_kode.py",
    "| a | the same | `tensor/random.py::test_nothing` |": "tests/tensor/test_tensor_random.py has no test_nothing",
    "| a | the same | `tensor/assignments.py::test_every_assignment[pour]` |": "test_every_assignment has no case pour",
}


@pytest.mark.parametrize(("line", "expected"), FAULTS.items())
def test_faults_are_found(line: str, expected: str | None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"| what | here | test |\n|---|---|---|\n{line}\n", encoding="utf-8")
    assert [fault(row) for row in rows(page)] == [expected]
