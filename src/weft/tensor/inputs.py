"""Inputs: tensors whose values come with each call of a function."""

from __future__ import annotations

from weft.assign import Awaited, Node, NodeName, Precision
from weft.assign.dtype_inference import DEFAULTS
from weft.errors import WeftError, user_origin
from weft.ops.dtypes import element_type
from weft.shape.infer import infer
from weft.shape.logic import Input
from weft.shape.nodes import Dim
from weft.shape.text import OpenRowSizes, open_dims
from weft.tensor.tensor import Tensor


def input(
    name: str,
    *,
    b: OpenRowSizes | None = None,
    i: OpenRowSizes | None = None,
    o: OpenRowSizes | None = None,
    dtype: str | None = None,
) -> Tensor:
    """A tensor whose values come with each call of a function, `step = ctx.function(x, …)`.

    `b`, `i` and `o` are the sizes of its batch, input and output axes: a number, a name, or several of them. A name is
    a size that each call decides, `b="batch"`: any length, and the same one wherever the name stands. Without `o` it
    is one number for each batch; without `dtype` it has the default precision.

    >>> x = wf.input("x", b="batch", o=2)
    >>> total = ctx.function(x, returns=wf.sum(x))
    >>> print(total(np.ones((1, 2))).ravel(), total(np.ones((3, 2))).ravel())
    [2.] [2. 2. 2.]
    """
    origin = user_origin()
    if not isinstance(name, str) or not name.isidentifier():
        raise WeftError(f"an input needs a name that is an identifier, not {name!r}", origin=origin)
    if name == "wait":
        what = "an input cannot be called `wait`: a call says by it whether to wait for its end"
        raise WeftError(what, origin=origin, fix="give it another name")
    output = open_dims(o, "o")
    logic = Input(open_dims(b, "b") or (), open_dims(i, "i") or (), output or (Dim(1),))
    shape = infer(logic, name=name, title="input", origin=origin).result
    precision, awaited = Precision.given(element_type(dtype or DEFAULTS.value)), Awaited(logic, plain=not output)
    return Tensor(Node(NodeName(name), shape, precision, init=awaited, origin=origin))
