"""The table of parity with Tensor Comprehensions names every builtin."""

from __future__ import annotations

import re
from pathlib import Path

from tc.test_tc_builtins import TC_BUILTINS

PAGE = (Path(__file__).parents[2] / "docs" / "parity" / "tc.md").read_text(encoding="utf-8")


def test_it_names_every_builtin() -> None:
    assert set(TC_BUILTINS) <= set(re.findall(r"`(\w+)`", PAGE))
