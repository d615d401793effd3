"""Making many objects at once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def gc_paused(work: Callable[[], R]) -> R:
    """Leave garbage lying meanwhile: for work whose objects live long, so that looking for dead ones finds none.

    Not a context manager: a signal could come between the work and its end, and garbage would lie for ever.
    """
    collecting = gc.isenabled()
    try:
        gc.disable()
        return work()
    finally:
        if collecting:
            gc.enable()
