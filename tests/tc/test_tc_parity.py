"""The table of parity with Tensor Comprehensions: every test it names is there, and it names every builtin."""

from __future__ import annotations

import re
from pathlib import Path

from tc.test_tc_builtins import TC_BUILTINS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "parity_tc.md").read_text(encoding="utf-8")
SHORT = {
    "c/": "tests/comprehension/test_comprehension_",
    "t/": "tests/tc/test_tc_",
    "b/": "bench/_torch/test_",
}
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("|---")]
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_test_it_names_is_there() -> None:
    named = TEST.findall(PAGE)
    assert len(named) > 60
    for path, name in named:
        short = next((one for one in SHORT if path.startswith(one)), "")
        file = ROOT / (SHORT[short] + path.removeprefix(short) if short else path)
        assert file.is_file(), path
        assert re.search(rf"^def {name}\(", file.read_text(encoding="utf-8"), re.MULTILINE), f"{path}::{name}"


def test_every_row_names_a_test_or_says_that_it_is_not_here() -> None:
    headings = ("what", "program", "there")
    for row in ROWS:
        first = row.split("|")[1].strip()
        if not first.startswith(headings) or TEST.search(row):
            assert TEST.search(row) or "| not here |" in row, row


def test_it_names_every_builtin() -> None:
    assert set(TC_BUILTINS) <= set(re.findall(r"`(\w+)`", PAGE))
