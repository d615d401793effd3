"""What `weft tune` prints and writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.columns import table
from weft.errors import WeftError
from weft.machine import Machine
from weft.schedule.compile_options import CompileOptions
from weft.schedule.tuning.tuned import Found, best_of, machine_key, read_lines, slowest_of, tuned_file

_SHOWN = 12  # letters of a kernel's digest


def show(files: Sequence[Path]) -> str:
    """What files say: the best for each kernel on this machine, and how much else there is."""
    found, damaged = _read(files or [_usual()])
    here = [one for one in found if one.machine == machine_key(Machine.here())]
    best = best_of(here)
    used = [one for one in slowest_of(here) if best.get(one.kernel) == one.decisions]
    used.sort(key=lambda one: (one.what, one.kernel))
    rows = [
        (one.kernel[:_SHOWN], f"{1e6 * one.untuned:.1f}", f"{1e6 * one.seconds:.1f}", f"{1 / one.ratio:.2f}", one.what)
        for one in used
    ]
    lines = [table(("kernel", "µs", "tuned", "times as fast", "assignments"), rows)] if rows else []
    lines += [f"{one.kernel[:_SHOWN]}: {one.decisions}" for one in used]
    return "\n".join([*lines, _counted(found, here, used, damaged)])


def _counted(found: Sequence[Found], here: Sequence[Found], used: Sequence[Found], damaged: int) -> str:
    kinds = {"of other machines": len(found) - len(here), "not the best": len(here) - len(used), "damaged": damaged}
    others = "".join(f", {count} {kind}" for kind, count in kinds.items() if count)
    return f"{len(used)} schedule{'s' * (len(used) != 1)} in use{others}"


def merge(files: Sequence[Path], into: Path | None) -> str:
    """Files as one, without what is damaged or said twice: printed, or put in the place of a file."""
    found, damaged = _read(files or [_usual()])
    lines = [one.line for one in slowest_of(found)]
    if into is None:
        return "\n".join(lines)
    _replace(into, "".join(f"{line}\n" for line in lines))
    dropped = len(found) - len(lines)
    return f"{into}: {len(lines)} lines; {damaged} damaged and {dropped} that said nothing new are left out"


def _usual() -> Path:
    return tuned_file(CompileOptions().tuned)


def _read(files: Sequence[Path]) -> tuple[list[Found], int]:
    lines: list[str] = []
    for one in files:
        try:
            lines += one.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            if one != _usual():
                fix = "give files that tuning has written, such as tuned.jsonl"
                raise WeftError(f"{one} cannot be read: {error.strerror}", fix=fix) from None
    return read_lines(lines)


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole: whoever reads it meanwhile reads the old one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(unfinished, path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WeftError(f"{path} cannot be written: {error.strerror}", fix="give another path") from None
