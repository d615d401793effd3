"""What was measured: a table, a file of JSON, a plot."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from math import prod
from pathlib import Path

from rich.table import Table

from _peers.peak import Peak
from _peers.table import MEANS, Row


@dataclass(slots=True)
class Figure:
    """A row: the best seconds of everybody, what the machine would take at least, and who could not take part."""

    row: Row
    flops: float
    moved: float
    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    #: The peak of the machine in the same run, if it is known.
    peak: Peak | None = None

    @property
    def best_peer(self) -> str | None:
        peers = [name for name in self.seconds if not name.startswith("weft")]
        return min(peers, key=self.seconds.__getitem__, default=None)

    @property
    def ratio(self) -> float | None:
        """The best peer's time over weft's: above 1, weft is faster."""
        if self.best_peer is None or "weft" not in self.seconds:
            return None
        return self.seconds[self.best_peer] / self.seconds["weft"]

    @property
    def wanted(self) -> float:
        """The ratio that is wanted: of a row that is bounded, where the machine could not do that, so much of what it
        could. Data that stays in nearer caches than those of its peak knows no such bound."""
        if not self.row.bounded or self.peak is None or self.best_peer is None or (self.fraction or 0) > 1:
            return self.row.wanted
        most = self.seconds[self.best_peer] / self.peak.seconds(self.flops, self.moved)
        return self.row.wanted if most >= self.row.wanted else self.row.bounded * most

    @property
    def passed(self) -> bool:
        return "weft" in self.seconds and (self.ratio is None or self.ratio >= self.wanted)

    @property
    def fraction(self) -> float | None:
        """How near weft is to the machine's peak."""
        if "weft" not in self.seconds or self.peak is None:
            return None
        return self.peak.seconds(self.flops, self.moved) / self.seconds["weft"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A group: the geometric mean and the least of its ratios, and what is wanted of the mean, if anything is."""

    name: str
    ratios: tuple[float, ...]
    wanted: float | None

    @property
    def mean(self) -> float:
        return prod(self.ratios) ** (1 / len(self.ratios))

    @property
    def passed(self) -> bool:
        return self.wanted is None or not self.ratios or self.mean >= self.wanted

    def __str__(self) -> str:
        if not self.ratios:
            return f"{self.name}: no peers"
        said = f"{self.name}: {self.mean:.2f}, least {min(self.ratios):.2f}"
        if self.wanted is None:
            return said
        return f"{said}; {'' if self.passed else 'NOT '}{self.wanted:g} in the mean, as wanted"


def verdicts(figures: Sequence[Figure]) -> list[Verdict]:
    """The groups, in order."""
    groups: dict[str, list[float]] = {}
    for one in figures:
        found = groups.setdefault(one.row.group, [])
        found += [one.ratio] if one.ratio is not None else []
    return [Verdict(name, tuple(ratios), MEANS.get(name)) for name, ratios in groups.items()]


def passed(figures: Sequence[Figure]) -> bool:
    """Is weft as fast as wanted, in every row and in the mean of every group?"""
    return all(one.passed for one in (*figures, *verdicts(figures)))


def table(figures: Sequence[Figure], names: Sequence[str], peak: Peak, threads: int) -> Table:
    grid = Table(
        title=f"µs, {threads} thread{'s' * (threads > 1)}; the machine's peak: {peak.flops * 1e-9:.0f} GF/s, "
        f"{peak.bandwidth * 1e-9:.0f} GB/s"
    )
    grid.add_column("", no_wrap=True)
    for heading in (*names, "best peer / weft", "wanted", "of peak"):
        grid.add_column(heading, justify="right", no_wrap=True)
    group = None
    for one in figures:
        if group not in (None, one.row.group):
            grid.add_section()
        group = one.row.group
        times = [f"{1e6 * one.seconds[name]:,.1f}" if name in one.seconds else "" for name in names]
        ratio, fraction = one.ratio, one.fraction
        shown = (f"{ratio:.2f}" if ratio else "", f"{one.wanted:.3g}", f"{fraction:.0%}" if fraction else "")
        grid.add_row(one.row.title, *times, *shown, style="" if one.passed else "red")
    return grid


def summary(figures: Sequence[Figure]) -> list[str]:
    """The geometric mean of each group and of all, what is wanted less because of the machine, and what failed."""
    groups = verdicts(figures)
    all_of = Verdict("all", tuple(ratio for one in groups for ratio in one.ratios), None)
    lines = [*map(str, groups), f"{all_of}; {sum(one.passed for one in figures)} of {len(figures)} as wanted"]
    for one in figures:
        if one.wanted < one.row.wanted:
            lines.append(
                f"{one.row.title}: {one.row.wanted:g} cannot be, at the machine's peak it would be "
                f"{one.wanted / one.row.bounded:.3g}; {one.row.bounded:.0%} of that is wanted"
            )
    return lines + [f"{one.row.title}: {who} {why}" for one in figures for who, why in one.failures.items()]


def write(path: Path, figures: Sequence[Figure], peak: Peak, threads: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": _processor(), "system": platform.platform(), "load": os.getloadavg()},
        "threads": threads,
        "peak": asdict(peak),
        "rows": [
            asdict(replace(one, peak=None)) | {"ratio": one.ratio, "wanted": one.wanted, "of_peak": one.fraction}
            for one in figures
        ],
        "groups": [asdict(one) | {"mean": one.mean} for one in verdicts(figures) if one.ratios],
    }
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def plot(path: Path, figures: Sequence[Figure], threads: int) -> bool:
    """Ratios as bars, with what is wanted of each. False if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure as Canvas

    shown = [one for one in figures if one.ratio is not None][::-1]
    canvas = Canvas(figsize=(8, 1.5 + 0.2 * len(shown)), layout="constrained")
    axes = canvas.subplots()
    at = range(len(shown))
    axes.barh(at, [one.ratio for one in shown], color=["tab:green" if one.passed else "tab:red" for one in shown])
    axes.scatter([one.wanted for one in shown], at, marker="|", color="black", label="wanted")
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set(xscale="log", yticks=at, xlabel=f"best peer's time / weft's, {threads} thread{'s' * (threads > 1)}")
    axes.set_yticklabels([one.row.title for one in shown], fontsize=7)
    axes.legend()
    canvas.savefig(path)
    return True
