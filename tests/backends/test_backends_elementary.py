"""weft's own elementary functions: no further off than they say, at some numbers (`bench/ulps.py` tries all)."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import ulps

from weft.backends.cc.compiler import find_compiler


def test_functions_are_on_vectors_and_no_further_off_than_stated(tmp_path: Path) -> None:
    compiler, told = find_compiler(None), tmp_path / "vectors"
    assert compiler is not None
    is_gcc = "gcc" in os.path.realpath(shutil.which(compiler.command[0]) or "")
    made = ulps.library(tmp_path, [f"-fopt-info-vec={told}"] if is_gcc else [])
    for case in ulps.cases():
        found = ulps.together(ulps.tried(made, case, *ulps.numbers(case, 16411, part)) for part in (0, 1))
        assert not found.wrong, f"{case} is something else at {[*found.wrong_at]}"
        assert 0.25 < found.worst <= case.limit, f"{case} is off by {found.worst} at {[*found.at]}"
    if is_gcc:
        text = (tmp_path / "ulps.c").read_text().splitlines()
        tried = [re.match(r"TRY\((\w+), .*(float\d\d), \(", text[int(at) - 1]) for at in _vectorised(told.read_text())]
        assert {(one[1], one[2]) for one in tried if one} == {(case.name, case.dtype) for case in ulps.cases()}


def _vectorised(told: str) -> set[str]:
    return set(re.findall(r"ulps\.c:(\d+):\d+: optimized: loop vectorized", told))
