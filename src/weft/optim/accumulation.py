"""Gradients of several runs, added up before an optimiser takes its step.

n = wf.counter("n")
code = wf.seq(wf.grad_update(loss), wf.optim.accumulate(loss, wf.optim.adamw(loss), every=4, step=n))
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeGuard

from weft.arguments import whole_number
from weft.assign import Accum, Arg, Assignment, Code, Node, comment, complete, record, statements, target
from weft.assign.definitions import inputs_of
from weft.assign.nodes import rebuilt
from weft.errors import WeftError
from weft.ops import Scalar, call
from weft.optim.own_nodes import own_node
from weft.optim.selection import chosen_params
from weft.shape.logic import Pointwise
from weft.tensor.assignments import cd, node
from weft.tensor.functions import equal, where
from weft.tensor.tensor import Tensor


def accumulate(loss: Tensor, update: Code, *, every: int, step: Scalar) -> Code:
    """Add gradients up, and run `update` on their mean in the last of every so many runs.

    >>> n = wf.counter("n")
    >>> update = wf.seq(wf.optim.clip_by_norm(loss, 1.0), wf.optim.adamw(loss))
    >>> code = wf.seq(wf.grad_update(loss), wf.optim.accumulate(loss, update, every=4, step=n))

    It is one routine, and the counter says which run it is. In the other runs whatever `update` keeps, parameters and
    state, stays as it is. A schedule of the update counts updates where it is one of `n // every`.
    """
    if not isinstance(update, Code):
        what = f"accumulate takes the code of an update, not {type(update).__name__}"
        raise WeftError(what, fix="write wf.optim.accumulate(loss, wf.optim.adamw(loss), every=4, step=n)")
    if (runs := whole_number(every, 1)) is None:
        raise WeftError(f"every= takes a whole number of runs from 1 on, not {every!r}", fix="write every=4")
    if not isinstance(step, Scalar):
        what = f"step= takes a counter, not {step!r}"
        raise WeftError(what, fix='write n = wf.counter("n"); wf.optim.accumulate(…, step=n)')
    return _accumulated(chosen_params(loss), update, runs, step)


@cd
def _accumulated(params: Sequence[Tensor], update: Code, every: int, step: Scalar) -> None:
    with comment("mean of", every, "gradients"):
        for p in params:
            total = own_node(p, "accumulate.mean")
            total[:] = where(equal(step % every, 0), 0.0, total) + p.grad / every
            p.grad[:] = total
    with comment("in every run", every):
        run_where(equal(step % every, every - 1), update)


def run_where(condition: Scalar, code: Code) -> None:
    """Record code that changes what it keeps only where a condition holds of the run.

    The code computes in every run. A write that can keep the old value does so:

        m =: 0.9 *. m + g      becomes      m =: where(condition, 0.9 *. m + g, m)

    What is written otherwise is put back after the code.
    """
    kept = _kept(code)
    restored = [(Tensor(one), node("kept")) for one in kept if not all(map(_can_keep, _writes(code, one)))]
    for tensor, before in restored:
        before[:] = tensor
    guarded = set(kept).difference(tensor.node for tensor, _ in restored)
    record(rebuilt(code, lambda one: _keeping(one, condition) if _writes_to(one, guarded) else one))
    for tensor, before in restored:
        tensor[:] = where(condition, tensor, before)


def _kept(code: Code) -> list[Node]:
    """The nodes that code changes and that outlive a run: it reads them before it writes them, or writes only parts."""
    whole = complete(code)
    read = set(inputs_of(whole))
    parts = {target(one) for one in statements(whole) if isinstance(one, Accum) and one.record.lhs}
    written = dict.fromkeys(target(one) for one in statements(whole))
    return [one for one in written if _outlives(one) and (one in read or one in parts or one.init is not None)]


def _outlives(node: Node) -> bool:
    return node.definition is None and node.gradient_of is None


def _writes(code: Code, node: Node) -> list[Assignment]:
    return [one for one in statements(code) if target(one) is node]


def _writes_to(one: Code, nodes: Collection[Node]) -> TypeGuard[Accum]:
    return isinstance(one, Accum) and one.lhs in nodes


def _can_keep(one: Assignment) -> bool:
    """Can a write be told to leave what is there: does it work point by point, and overwrite or add?"""
    if not isinstance(one, Accum) or one.record.lhs or not isinstance(one.record.operation.logic, Pointwise):
        return False
    return one.accum == "arg2" or (one.accum in ("add", "sub") and not one.reset)


def _keeping(one: Accum, condition: Scalar) -> Accum:
    """The write where a condition holds; elsewhere it adds nothing, or writes what is there."""
    if one.accum != "arg2":
        return replace(one, value=call("where", condition, one.value, 0.0))
    slots = replace(one.record, operands=(*one.record.operands, one.record.lhs))
    value = call("where", condition, one.value, Arg(len(one.operands)))
    return replace(one, value=value, operands=(*one.operands, one.lhs), record=slots)
