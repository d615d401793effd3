"""State by name: the values of variables as arrays by label, and back. What fits is told before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.assign import Node
from weft.backends import Array
from weft.errors import WeftError
from weft.ops.dtypes import name_of
from weft.runtime.values import read_all, write_all
from weft.runtime.variables import Variables
from weft.shape.close import close
from weft.tensor.leaves import numbers
from weft.tensor.slices import StaticIndex

if TYPE_CHECKING:
    from weft.runtime.device_state import DeviceState

#: More pairs of names than these are not compared.
_MOST_PAIRS = 10_000


def read_state(device: DeviceState, variables: Variables) -> dict[str, Array]:
    """The values of variables between two runs, and the numbers of counters.

    What has no value yet gets the one it begins with; if it begins with none, it is left out.
    """
    with device.lock:
        stored = {node for node in variables.nodes.values() if device.residency.stores(node.id)}
    nodes = {label: one for label, one in variables.nodes.items() if one in stored or variables.begins(one)}
    arrays = read_all(device, list(nodes.values()), variables.from_zero)
    counted = device.engine.counters.now(variables.counters.values())
    return dict(zip(nodes, arrays, strict=True)) | {name: np.array(at, np.int64) for name, at in counted.items()}


@dataclass(frozen=True, slots=True)
class Restored:
    """What `ctx.restore` did: the labels it `restored`, and those it did not.

    `missing`: the state has none; `unknown`: the step has none; `misfits`: of another shape or type, or no such number.
    """

    restored: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    misfits: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Was everything restored, and nothing left over?"""
        return not (self.missing or self.unknown or self.misfits)

    def __str__(self) -> str:
        return "\n".join([f"{len(self.restored)} restored", *self._rest()])

    def _rest(self) -> Iterator[str]:
        for what, labels in (("missing", self.missing), ("unknown", self.unknown)):
            if labels:
                yield f"{what}: {', '.join(labels)}"
        yield from self.misfits.values()


def restore_state(device: DeviceState, variables: Variables, given: object, strict: bool) -> Restored:
    """Let variables have the values of a state; with `strict`, all of them or none."""
    state = {label: _array(label, value) for label, value in _checked(given).items()}
    known: dict[str, Node | StaticIndex] = {**variables.nodes, **variables.counters}
    optional = {label for label, one in variables.nodes.items() if not variables.begins(one)}
    misfits = {label: why for label, one in known.items() if label in state and (why := _misfit(one, state[label]))}
    found = Restored(
        tuple(label for label in known if label in state and label not in misfits),
        tuple(label for label in known if label not in state and label not in optional),
        tuple(label for label in state if label not in known),
        misfits,
    )
    if strict and not found.complete:
        raise _does_not_fit(found, known, state)
    write_all(device, {variables.nodes[one]: state[one] for one in found.restored if one in variables.nodes})
    for one in found.restored:
        if one in variables.counters:
            device.engine.counters.set(variables.counters[one], state[one].item())
    return found


def _checked(given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    what = f"a state is arrays by label, as ctx.state gives them, not {type(given).__name__}"
    raise WeftError(what, fix="ctx.restore(step, wf.load(path))")


def _array(label: object, value: Any) -> Array:
    try:
        return numbers(value)
    except WeftError as error:
        raise WeftError(f"what the state calls {label!r} is no array: {error.what}", fix=error.fix) from None


def _misfit(one: Node | StaticIndex, array: Array) -> str:
    """Why an array cannot be the value of something; empty if it can."""
    wanted, given = _kind(one), _described(name_of(array.dtype), array.shape)
    if wanted != given:
        return f"`{_label(one)}` is {wanted}, and the state has {given}"
    if isinstance(one, StaticIndex) and not 0 <= array.item() < one.size:
        return f"counter `{one.name}` counts from 0 to {one.size - 1}, and the state has {array.item()}"
    return ""


def _does_not_fit(found: Restored, known: Mapping[str, Node | StaticIndex], state: Mapping[str, Array]) -> WeftError:
    missing = _near(found.missing, found.unknown)
    unknown = _near(found.unknown, found.missing)
    notes = [f"missing: `{one}`, {_kind(known[one])}{_made(known[one])}{missing[one]}" for one in found.missing]
    for one in found.unknown:
        notes.append(f"unknown: `{one}`, {_described(name_of(state[one].dtype), state[one].shape)}{unknown[one]}")
    counts = ((len(found.missing), "missing"), (len(found.unknown), "unknown"), (len(found.misfits), "of another kind"))
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    return WeftError(
        f"the state does not fit: {told}; nothing was restored",
        notes=[*notes, *found.misfits.values()],
        fix="rename and convert what is in the state; or restore what fits: ctx.restore(step, state, strict=False)",
    )


def _near(labels: tuple[str, ...], others: tuple[str, ...]) -> dict[str, str]:
    """For each label a word on one like it among others, if there is one."""
    if len(labels) * len(others) > _MOST_PAIRS:
        return dict.fromkeys(labels, "")
    near = {label: get_close_matches(str(label), map(str, others), 1) for label in labels}
    return {label: f"; is it `{found[0]}`?" if found else "" for label, found in near.items()}


def _kind(one: Node | StaticIndex) -> str:
    if isinstance(one, StaticIndex):
        return _described("int64", ())
    return _described(one.dtype, close(one.shape).array_shape)


def _described(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape {shape}" if shape else f"one {dtype}"


def _label(one: Node | StaticIndex) -> str:
    return one.name if isinstance(one, StaticIndex) else one.label


def _made(one: Node | StaticIndex) -> str:
    line = None if isinstance(one, StaticIndex) else one.origin
    return f", made at {line}" if line else ""
