"""Making many objects at once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from operator import call
from typing import TypeVar

R = TypeVar("R")


def gc_paused(work: Callable[[], R], *, lasting: bool = False) -> R:
    """Leave garbage lying meanwhile: for work whose objects live long, so that looking for dead ones finds none.

    What is `lasting`, such as modules, counts as old from then on: nobody looks through it once it is there, as young
    objects are looked through twice. So does all else that there is, unless the program has frozen some for itself.
    Not a context manager: a signal could come between the work and its end, and garbage would lie for ever.
    """
    collecting = gc.isenabled()
    try:
        gc.disable()
        return work()
    finally:
        if collecting:
            try:
                if lasting and not gc.get_freeze_count():
                    [*map(call, (gc.freeze, gc.unfreeze))]  # in one go: no signal comes between them
            finally:
                gc.enable()
