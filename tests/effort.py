"""How often properties are tried: on so many examples at every run, on twenty times as many in the thorough profile."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
MORE = {"thorough": 20}.get(PROFILE, 1)


def tries(count: int) -> int:
    """So many examples at every run."""
    return count * MORE
