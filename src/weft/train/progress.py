"""A line that tells how a run goes, where somebody looks: in a terminal or a notebook, never in a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

#: Seconds between two looks of the line.
_PAUSE = 0.1


@dataclass(slots=True)
class Line:
    """The line of a run: which epoch, the loss, the speed, the time left."""

    shown: Progress | None
    task: TaskID | None
    epochs: int
    since: float = field(default_factory=monotonic)
    examples: int = 0
    next: float = 0.0

    def step(self, epoch: int, done: int, loss: float, examples: int) -> None:
        """Tell of a step: so many are done."""
        if self.shown is None or self.task is None:
            return
        now = monotonic()
        if not self.next:  # the first step was compiled as well, which says nothing of the speed
            self.since = now
        else:
            self.examples += examples
        if now < self.next:
            return
        self.next = now + _PAUSE
        speed = self.examples / max(now - self.since, 1e-9)
        told = f"epoch {epoch + 1}/{self.epochs}"
        self.shown.update(self.task, description=told, completed=done, loss=f"{loss:.4f}", speed=speed)
        self.shown.refresh()


@contextmanager
def line(wanted: bool, epochs: int, total: int | None, console: Console | None = None) -> Iterator[Line]:
    """The line of a run of so many steps, if that is known; nothing is shown where nobody looks."""
    if not wanted:
        yield Line(None, None, epochs)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = console or Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield Line(None, None, epochs)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]:,.0f} examples/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as shown:
        task = shown.add_task("epoch 1", total=total, loss="…", speed=0.0)
        yield Line(shown, task, epochs)
