"""Which passes random programs put to work: a pass that changes no program that is drawn is tried by none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from weft.loops import Grid
from weft.loops.walk import Body
from weft.schedule import driver
from weft.schedule.stage import Pass, Stage, Task


@contextmanager
def exercised() -> Iterator[Counter[tuple[str, str]]]:
    """Count how often each pass of a processor or a GPU changes a program that is compiled, and verified, in it."""
    found = Counter[tuple[str, str]]()
    verify, last = driver._verify, list[Stage]()

    def compare(before: Stage, after: Stage) -> bool:
        last[:] = [before]
        return False  # what only changes what is known of a program is looked at too

    def count(done: Pass, stage: Stage, task: Task, checked: dict[int, Body]) -> None:
        found["gpu" if Grid in task.places else "cpu", done.name] += stage != last[0]
        verify(done, stage, task, checked)

    with patch.object(driver, "_is_same", compare), patch.object(driver, "_verify", count):
        yield found
