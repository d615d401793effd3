"""What was measured: a table, a file of JSON, a plot."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from math import prod
from pathlib import Path

from rich.table import Table

from _peers.peak import Peak
from _peers.table import Row


@dataclass(slots=True)
class Figure:
    """A row: the best seconds of everybody, what the machine would take at least, and who could not take part."""

    row: Row
    flops: float
    moved: float
    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

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
    def passed(self) -> bool:
        return "weft" in self.seconds and (self.ratio is None or self.ratio >= self.row.wanted)

    def fraction(self, peak: Peak) -> float | None:
        """How near weft is to the machine's peak."""
        return peak.seconds(self.flops, self.moved) / self.seconds["weft"] if "weft" in self.seconds else None


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
        ratio, fraction = one.ratio, one.fraction(peak)
        shown = (f"{ratio:.2f}" if ratio else "", f"{one.row.wanted:g}", f"{fraction:.0%}" if fraction else "")
        grid.add_row(one.row.text, *times, *shown, style="" if one.passed else "red")
    return grid


def summary(figures: Sequence[Figure]) -> list[str]:
    """The geometric mean of each group and of all, and what failed."""
    groups: dict[str, list[Figure]] = {}
    for one in figures:
        groups.setdefault(one.row.group, []).append(one)
    lines = [f"{name}: {_mean(of)}" for name, of in groups.items()]
    lines.append(f"all: {_mean(figures)}; {sum(one.passed for one in figures)} of {len(figures)} as wanted")
    return lines + [f"{one.row.text}: {who} {why}" for one in figures for who, why in one.failures.items()]


def _mean(figures: Sequence[Figure]) -> str:
    ratios = [one.ratio for one in figures if one.ratio is not None]
    return f"{prod(ratios) ** (1 / len(ratios)):.2f}, least {min(ratios):.2f}" if ratios else "no peers"


def write(path: Path, figures: Sequence[Figure], peak: Peak, threads: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": _processor(), "system": platform.platform(), "load": os.getloadavg()},
        "threads": threads,
        "peak": asdict(peak),
        "rows": [{**asdict(one), "ratio": one.ratio, "of_peak": one.fraction(peak)} for one in figures],
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
    axes.scatter([one.row.wanted for one in shown], at, marker="|", color="black", label="wanted")
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set(xscale="log", yticks=at, xlabel=f"best peer's time / weft's, {threads} thread{'s' * (threads > 1)}")
    axes.set_yticklabels([one.row.text for one in shown], fontsize=7)
    axes.legend()
    canvas.savefig(path)
    return True
