"""What a tuning says: while it runs, a bar or a line for each gain; afterwards, what it tried, refused and gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.columns import table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


#: So many cores that other programs use make measurements doubtful.
_BUSY = 0.7


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """A kernel: how often it runs, its time before and after, the least it could take, and what became of it."""

    what: str
    runs: int
    before: float
    after: float
    bound: float
    tried: int
    refused: Mapping[str, int]
    decisions: str

    @property
    def gain(self) -> float:
        return self.before / self.after


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What tuning a routine came to. Printed, it is a table and a line.

    `before` and `after` are the seconds that the whole routine took; where it did not gain, nothing has changed. `busy`
    is how many cores other programs used before it began.
    """

    kernels: tuple[TunedKernel, ...]
    before: float
    after: float
    seconds: float
    ended: str
    kept: str = ""
    busy: float = 0.0

    @property
    def gain(self) -> float:
        """How many times as fast the routine has become."""
        return self.before / self.after if self.after else 1.0

    @property
    def tried(self) -> int:
        return sum(one.tried for one in self.kernels)

    @property
    def refused(self) -> Mapping[str, int]:
        """Why candidates were refused, and how many."""
        return sum((Counter(one.refused) for one in self.kernels), Counter[str]())

    @property
    def summary(self) -> str:
        refused = "".join(f"; {count} refused: {why}" for why, count in self.refused.items())
        took = f"{1e6 * self.before:.1f} µs, now {1e6 * self.after:.1f} µs: {self.gain:.2f} times as fast"
        return f"{self.tried} schedules tried in {self.seconds:.1f} s, {self.ended}{refused}; {took}"

    @property
    def doubts(self) -> list[str]:
        """What to think of besides: what is best on a busy machine need not be on one that is not."""
        if self.busy < _BUSY:
            return []
        return [f"other programs kept about {self.busy:.0f} cores busy: tune once more when they are done"]

    def __str__(self) -> str:
        rows = [_row(number, one) for number, one in enumerate(self.kernels)]
        header = ("kernel", "runs", "µs", "now", "bound", "tried", "refused", "assignments")
        chosen = [f"{number}: {one.decisions}" for number, one in enumerate(self.kernels) if one.decisions]
        return "\n".join([table(header, rows), *chosen, self.summary, *self.doubts])


def _row(number: int, one: TunedKernel) -> tuple[str, ...]:
    times = (f"{1e6 * time:.1f}" for time in (one.before, one.after, one.bound))
    return (str(number), str(one.runs), *times, str(one.tried), str(sum(one.refused.values())), one.what)


@dataclass(slots=True)
class Display:
    """Where people look on: a bar in a terminal, plain lines elsewhere, nothing where nobody wants to know."""

    seconds: float
    show: bool
    _console: Console | None = None
    _bar: Progress | None = None

    def __enter__(self) -> Display:
        if self.show:
            from rich.console import Console  # here: importing weft should not wait for it

            self._console = Console(stderr=True, soft_wrap=True, highlight=False)
            if self._console.is_terminal:
                self._begin_bar(self._console)
        return self

    def _begin_bar(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("tuning"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True)
        self._bar.start()
        self._bar.add_task("", total=self.seconds)

    def update(self, spent: float, tried: int, gain: float) -> None:
        if self._bar is not None:
            said = f"{tried} schedules tried, {gain:.2f} times as fast"
            self._bar.update(self._bar.task_ids[0], completed=min(spent, self.seconds), description=said)

    def gained(self, spent: float, what: str, gain: float) -> None:
        """A better schedule was found for a kernel."""
        if self._console is not None and self._bar is None:
            self._console.print(f"tuning: {spent:.1f} s: {gain:.2f} times as fast: {what}", markup=False)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        if self._console is not None:
            self._console.print(text, markup=False)
