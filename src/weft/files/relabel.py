"""States under other names: a table of labels, such as that of weights somebody published.

    {"h.{n}.attn.c_attn.weight": ("gpt.block{n}.qkv.w", "T"),     transposed: those weights lie input first
     "h.{n}.ln_1.weight": "gpt.block{n}.norm.scale",              as they are
     "h.{n}.attn.bias": None}                                     left out

What stands between braces is the same text on both sides, without a dot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError

#: What a label becomes: another, another whose axes are reversed, nothing.
NewLabel: TypeAlias = "str | tuple[str, str] | None"

_HOLE = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table: labels like `old` become labels like `new`, None for none; `turned`: the axes are reversed."""

    old: str
    new: str | None
    turned: bool = False

    def found(self, label: str) -> Mapping[str, str] | None:
        """What stands in the braces of `old`, if the label is like it."""
        pattern = "".join(
            f"(?P<{part}>[^.]+)" if at % 2 else re.escape(part) for at, part in enumerate(_HOLE.split(self.old))
        )
        match = re.fullmatch(pattern, label)
        return match.groupdict() if match else None

    def filled(self, found: Mapping[str, str]) -> str | None:
        """`new`, with these texts in its braces."""
        return None if self.new is None else _HOLE.sub(lambda hole: found[hole[1]], self.new)


def relabel(
    state: Mapping[str, npt.ArrayLike], table: Mapping[str, NewLabel], *, back: bool = False
) -> dict[str, npt.NDArray[Any]]:
    """A state under the names that a table gives, for instance weights of another library under the labels of a model.

    A row of the table is a label and what it becomes: another label; that and "T" for an array whose axes are
    reversed, as a transposed matrix has them; or None, to leave it out. `{n}` stands for any text without a dot, the
    same on both sides. What no row speaks of keeps its name. `back=True` reads the table from right to left.

        table = {"fc{n}.weight": "mlp.w{n}", "fc{n}.bias": "mlp.b{n}"}
        ctx.restore(model, wf.relabel(wf.load("published.safetensors"), table))
        wf.save("ours.safetensors", wf.relabel(ctx.state(model), table, back=True))
    """
    if not isinstance(state, Mapping):
        raise WeftError(
            f"a state is arrays by label, not {type(state).__name__}", fix="wf.relabel(wf.load(path), table)"
        )
    rows = _rows(table, back)
    made: dict[str, npt.NDArray[Any]] = {}
    sources: dict[str, str] = {}
    for label, value in state.items():
        name, turned = _renamed(label, rows)
        if name is None:
            continue
        if name in made:
            what = f"`{sources[name]}` and `{label}` would both be called `{name}`"
            raise WeftError(what, fix="leave one of them out: give it None in the table")
        made[name], sources[name] = np.asarray(value).T if turned else np.asarray(value), label
    return made


def _renamed(label: str, rows: list[_Row]) -> tuple[str | None, bool]:
    """What a label becomes, and whether axes are reversed; the first row that speaks of it decides."""
    for row in rows:
        found = row.found(label)
        if found is not None:
            return row.filled(found), row.turned
    return label, False


def _rows(table: object, back: bool) -> list[_Row]:
    if not isinstance(table, Mapping):
        raise WeftError(f"a table is labels by label, not {type(table).__name__}", fix='write {"fc.weight": "mlp.w"}')
    rows = [_row(old, becomes) for old, becomes in table.items()]
    return [_Row(row.new, row.old, row.turned) for row in rows if row.new is not None] if back else rows


def _row(old: object, becomes: object) -> _Row:
    """A row of the table, checked."""
    match old, becomes:
        case str(), None:
            row = _Row(old, None)
        case str(), str():
            row = _Row(old, becomes)
        case str(), (str() as new, "T"):
            row = _Row(old, new, turned=True)
        case _:
            what = f"{old!r} becomes {becomes!r} in the table, which is no label"
            raise WeftError(what, fix='write "old": "new", "old": ("new", "T") to reverse its axes, or "old": None')
    before, after = (sorted(_HOLE.findall(label)) for label in (row.old, row.old if row.new is None else row.new))
    if before != after or len(set(before)) != len(before):
        what = f"{old!r} and {becomes!r} of the table do not have the same names in braces, each once"
        raise WeftError(what, fix='what stands between braces is taken over: "h.{n}.weight": "block{n}.w"')
    return row
