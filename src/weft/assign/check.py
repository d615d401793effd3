"""What code cannot mean: refused before it is lowered, when its shapes and types are known.

A gradient starts from one number. What is differentiated holds fractions. A gradient that was cleared is not read
before it is computed: it would be zero everywhere.
"""

from __future__ import annotations

from weft.assign.nodes import Assignment, Cells, Code, Fetch, Node, Operand, node_of, operands_of, statements, target
from weft.assign.show import show_statement
from weft.errors import WeftError, said_at
from weft.ops import Num
from weft.ops.dtypes import is_float
from weft.shape.close import close


def check(code: Code) -> None:
    """Refuse completed code that cannot be meant."""
    cleared: set[Operand] = set()
    early: dict[Node, Assignment] = {}
    for statement in statements(code):
        written = target(statement)
        for operand in operands_of(statement):
            if (gradient := node_of(operand)).gradient_of is not None:
                _check_fractions(gradient.gradient_of)
            if operand in cleared and operand is not written:
                early.setdefault(gradient, statement)
        if written.gradient_of is None:
            continue
        _check_fractions(written.gradient_of)
        if _sets(statement, 0):
            cleared.add(written)
            early.pop(written, None)
        elif written in cleared:
            if written in early:
                raise _read_early(written, early[written])
            cleared.remove(written)
        if _sets(statement, 1):
            _check_one(written.gradient_of, statement)


def _sets(statement: Assignment, number: int) -> bool:
    """Is it how gradients are cleared, or started?"""
    return isinstance(statement, Fetch) and statement.source == Cells(Num(float(number)))


def _check_one(loss: Node, start: Assignment) -> None:
    shape = close(loss.shape)
    if shape.count != 1:
        raise WeftError(
            f"the loss `{loss.label}` is {shape}, {shape.count} numbers, and a gradient starts from one",
            origin=start.origin,
            notes=made_at(loss),
            fix='reduce it: wf.mean(loss, "...|...->... => 0"), or wf.sum; or ask '
            "for the gradient of the sum: wf.grad_update(loss, sum=True), wf.grad(loss, x, d=1)",
        )


def _check_fractions(node: Node) -> None:
    if node.definition is None and not is_float(node.dtype):
        raise WeftError(
            f"`{node.label}` holds whole numbers ({node.dtype}), and nothing is differentiated by those",
            origin=node.origin,
            fix='give it dtype="float32", or keep it out of the loss with wf.stop_gradient',
        )


def _read_early(gradient: Node, reader: Assignment) -> WeftError:
    return WeftError(
        f"`{gradient.label}` is cleared, and read before it is computed: it would be zero",
        origin=reader.origin,
        notes=[f"it is read by {show_statement(reader)}"],
        fix="read it after the code that computes it, or keep it: code without zero_grads adds to what is there",
    )


def made_at(node: Node) -> list[str]:
    """A note of the line that made a node."""
    return said_at("it was made", node.origin)
