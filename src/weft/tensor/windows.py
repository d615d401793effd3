"""Slices that begin where data says: `x[t : t + 4]`, of a tensor `t` that holds one position."""

from __future__ import annotations

from numbers import Integral

from weft.assign import Accum, Arg, Operand
from weft.errors import ShapeError, WeftError
from weft.ops import Call, Num
from weft.shape.logic import Pointwise
from weft.tensor.concat import ROWS
from weft.tensor.einsum import contract
from weft.tensor.subscripts import first_row
from weft.tensor.tensor import Tensor


def window_at(tensor: Tensor, key: slice) -> Tensor:
    """`tensor[start : start + count]` along its first axis, the start a tensor: an einsum with positions."""
    moving, count = window_of(tensor, key)
    row = ROWS[first_row(tensor)]
    spec = f"{row.format(axis=moving.format(start='start', k='k'))}; 0 @start => {row.format(axis='k')}"
    return contract(spec, (tensor, key.start), sizes={"k": count}, left=True)


def window_of(tensor: Tensor, key: slice) -> tuple[str, int]:
    """The axis of a spec that is read from where a tensor says, by names for `start` and `k`; how many it reads."""
    start, count, step = key.start, _count(tensor, key), _step(key)
    if start.dims.count != 1:
        raise ShapeError(
            f"a slice of `{tensor.label}` begins at one position, and `{start.label}` holds {start.dims.count}",
            notes=[f"{start.label} is {start.shape}"],
            fix='rows that begin at many positions are wf.einsum("v<+k, ...; ...|@v => ...|k, ...", x, starts, k=4)',
        )
    return f"{{start}}<+{step}*{{k}}" if step > 1 else "{start}<+{k}", len(range(0, count, step))


def _count(tensor: Tensor, key: slice) -> int:
    """How many positions lie between the ends."""
    first, last = (_moved(end) if isinstance(end, Tensor) else None for end in (key.start, key.stop))
    if first is None or last is None or first[0] != last[0]:
        ends = f"from {_shown(key.start)} to {_shown(key.stop)}"
        raise WeftError(
            f"how many elements a slice of `{tensor.label}` {ends} has is not known",
            fix="end the slice a number of positions after its start, of which there is one tensor: x[t : t + 4]",
        )
    if last[1] <= first[1]:
        raise WeftError(f"the slice of `{tensor.label}` ends before it begins", fix="write x[t : t + 4]")
    return last[1] - first[1]


def _step(key: slice) -> int:
    if key.step is None:
        return 1
    if isinstance(key.step, bool) or not isinstance(key.step, Integral) or key.step < 1:
        fix = "take the slice first, and turn that round: x[t : t + 4][::-1]"
        raise WeftError(
            f"the step of a slice that begins at a tensor is a whole number from 1 on, not {key.step!r}", fix=fix
        )
    return int(key.step)


def _moved(end: Tensor) -> tuple[Operand, int]:
    """A tensor as another one and a whole number that is added to it."""
    operand, offset = end.operand, 0
    while isinstance(code := getattr(operand, "definition", None), Accum):
        match code.value, code.record.operation.logic:
            case [Call(op="add", args=(Arg(), Num(value=int(by))) | (Num(value=int(by)), Arg())), Pointwise()]:
                offset += by
            case [Call(op="sub", args=(Arg(), Num(value=int(by)))), Pointwise()]:
                offset -= by
            case _:
                break
        operand = code.operands[0]
    return operand, offset


def _shown(end: object) -> str:
    return f"`{end.label}`" if isinstance(end, Tensor) else "its end" if end is None else f"{end}"
