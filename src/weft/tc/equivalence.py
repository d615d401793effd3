"""Is what a text says to be the same the same? `C(i) = e <=> f(A(i))` is tried on random numbers.

The right side is a builtin, applied in the place of the value, or a definition of the text, given the whole tensors.
Where it is neither, or one of the two cannot run, nothing is said of it: then it is a note for people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from weft.backends import Array, find_backend
from weft.comprehension.builtins import BUILTINS
from weft.comprehension.check import CheckedProgram, check
from weft.comprehension.mistakes import Mistake, fail
from weft.comprehension.nodes import (
    Apply,
    Comprehension,
    Definition,
    Expr,
    Ident,
    Index,
    Invoke,
    Param,
    Program,
    Read,
    Result,
    Statement,
    TensorType,
)
from weft.comprehension.scope import Checked
from weft.comprehension.show import show_expr
from weft.comprehension.signature import Template
from weft.errors import WeftError
from weft.ops.dtypes import is_float, numpy_type
from weft.runtime.engine import Engine
from weft.tc.arrays import is_close
from weft.tc.call import CompiledCall

#: How often it is tried, and with what sizes.
_TRIES, _LARGEST = 4, 5


def check_equivalents(program: CheckedProgram) -> None:
    """Raise the mistakes in what a text says to be the same."""
    engine: Engine | None = None
    mistakes: list[Mistake] = []
    for checked in program.definitions.values():
        for statement in checked.definition.body:
            if isinstance(statement, Comprehension) and statement.equivalent:
                engine = engine or Engine(find_backend("interp"), 1)
                mistakes += _compared(statement, statement.equivalent, checked, program, engine)
    fail(program.program.text, mistakes)


def _compared(
    statement: Comprehension, same: Apply, checked: Checked, program: CheckedProgram, engine: Engine
) -> Iterator[Mistake]:
    other = _other(statement, same, program)
    if other is None:
        return
    left = _alone(replace(statement, equivalent=None), "left", checked)
    right = _alone(other, "right", checked)
    rng = np.random.default_rng(0)
    for _ in range(_TRIES):
        try:
            both = check(Program((*program.program.definitions, left, right)))
            inputs = _inputs(left, rng)
            one, another = (_run(both, which.name.name, inputs, engine) for which in (left, right))
        except WeftError:
            continue
        if mistake := _difference(one, another, same):
            yield mistake
            return


def _other(statement: Comprehension, same: Apply, program: CheckedProgram) -> Statement | None:
    """The statement that the other side stands for."""
    if same.function in program.definitions:
        results = program[same.function].definition.results
        if (statement.reduction is None or statement.resets) and len(results) == 1:
            args = tuple(map(_whole, same.args))
            return Invoke((statement.target,), Ident(same.function), args)
        return None
    known = BUILTINS.get(same.function)
    return replace(statement, value=same, equivalent=None) if known and known.arity == len(same.args) else None


def _whole(arg: Expr) -> Expr:
    """The tensor that an argument reads at every index."""
    plain = isinstance(arg, Read) and all(isinstance(one, Index) for one in arg.subscripts)
    return Read(arg.tensor) if plain and isinstance(arg, Read) else arg


def _alone(statement: Statement, name: str, checked: Checked) -> Definition:
    """A definition of one statement, which is given the parameters and every tensor that is computed before."""
    params = list(checked.definition.params)
    known = {one.name.name for one in params}
    target = statement.target if isinstance(statement, Comprehension) else statement.targets[0]
    for tensor, axes in checked.axes.items():
        if tensor not in known and tensor != target.name:
            sizes = tuple(Ident(size or f"{tensor}_{axis}_") for axis, size in enumerate(axes))
            params.append(Param(TensorType(checked.types[tensor], sizes), Ident(tensor)))
    return Definition(Ident(f"{checked.definition.name}_{name}_"), tuple(params), (Result(target),), (statement,))


def _inputs(definition: Definition, rng: np.random.Generator) -> list[Array]:
    sizes: dict[str, int] = {}
    found = []
    for kind in (one.type for one in definition.params):
        for size in kind.sizes:
            sizes[size] = sizes.get(size) or int(rng.integers(2, _LARGEST + 1))
        shape = kind.shape(sizes)
        values = rng.standard_normal(shape) if is_float(kind.dtype) else rng.integers(0, 2, shape)
        found.append(np.asarray(values).astype(numpy_type(kind.dtype)))
    return found


def _run(program: CheckedProgram, name: str, inputs: Sequence[Array], engine: Engine) -> Array:
    template = Template(program, name)
    if len(template.flat.params) > len(inputs):
        raise WeftError("what it starts from is not known")
    (found,) = CompiledCall(template, [one.shape for one in inputs], engine)(inputs, [None])
    return found


def _difference(one: Array, other: Array, same: Apply) -> Mistake | None:
    """Where two results differ, said of the right side."""
    what = f"`{show_expr(same)}` is not the same"
    fix = "mend one of the two, or leave out what follows `<=>`"
    if one.shape != other.shape:
        return Mistake(f"{what}: it has the shape {list(other.shape)}, not {list(one.shape)}", same.span, fix)
    apart = ~is_close(other, one)
    if not apart.any():
        return None
    at = int(np.argmax(apart))
    values = f"{float(other.flat[at]):.6g} where the statement gives {float(one.flat[at]):.6g}"
    return Mistake(f"{what}: on random numbers it gives {values}", same.span, fix)
