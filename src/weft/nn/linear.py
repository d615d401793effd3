"""Layers of vectors: maps, perceptrons, lookups, and what is dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from weft.nn.checks import below_one, one_rank, several, whole
from weft.nn.mode import dropped
from weft.shape.text import RowSizes
from weft.tensor.functions import relu
from weft.tensor.layers import op
from weft.tensor.lookups import taken
from weft.tensor.params import normal, param
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor

#: A function of one number at a time, such as `wf.relu`.
Activation: TypeAlias = Callable[..., Tensor]


@op
def linear(x: Tensor, *, o: RowSizes | None = None, i: RowSizes | None = None, bias: bool = True) -> Tensor:
    """A linear map of the whole output row, plus a bias. Without `o` the outputs are those its use asks for.

    >>> x = wf.data(np.ones((5, 3)), batch=1)
    >>> print(wf.nn.linear(x, o=8, label="head").dims)
    5|8
    """
    w = param("w", o=o, i=i)
    one_rank("linear", w, x)
    y = w @ x
    return y + param("b", o=o, init=0.0) if bias else y


@op
def mlp_layer(x: Tensor, *, hid_dim: RowSizes, activation: Activation = relu) -> Tensor:
    """A linear map plus a bias, and an activation.

    >>> print(wf.nn.mlp_layer(wf.data(np.ones((5, 3)), batch=1), hid_dim=8).dims)
    5|8
    """
    w = param("w", o=hid_dim)
    one_rank("mlp_layer", w, x)
    return activation(w @ x + param("b", o=hid_dim, init=0.0))


@op
def mlp(
    x: Tensor,
    *,
    hid_dims: Sequence[int],
    o: RowSizes | None = None,
    i: RowSizes | None = None,
    activation: Activation = relu,
    bias: bool = True,
) -> Tensor:
    """Layers of the given widths with an activation each, and a linear one. Without `o` its outputs are inferred.

    >>> model = wf.nn.mlp(hid_dims=[16, 8], o=2, label="mlp")
    >>> print(model(wf.data(np.ones((5, 3)), batch=1)).dims, *(p.label for p in model.params))
    5|2 mlp.w1 mlp.b1 mlp.w2 mlp.b2 mlp.w_out mlp.b_out
    """
    several("mlp", hid_dims=hid_dims)
    for at, width in enumerate(hid_dims, 1):
        w = param(f"w{at}", o=width, i=i)
        one_rank("mlp", w, x)
        x = activation(w @ x + param(f"b{at}", o=width, init=0.0))
        i = width
    y = param("w_out", o=o, i=i) @ x
    return y + param("b_out", o=o, init=0.0) if bias else y


@op
def embedding(ids: Tensor, *, vocab_size: int, o: RowSizes) -> Tensor:
    """A row of a table for each id: ids in batch axes stay there, ids in output axes come before those of the rows.

    >>> ids = wf.data(np.array([[3, 1], [0, 3]]), batch=2, label="ids")
    >>> print(wf.nn.embedding(ids, vocab_size=10, o=4).dims)
    2,2|4
    """
    whole("embedding", vocab_size=vocab_size)
    table = param("table", o=(vocab_size, *(o if isinstance(o, list | tuple) else (o,))), init=normal())
    return taken(table, as_tensor(ids, "embedding"), along="vocab_size")


@op
def dropout(x: Tensor, *, rate: float) -> Tensor:
    """Each element is 0 with probability `rate`, and the others are scaled up; outside of `wf.nn.training`, `x` itself.

    >>> x = wf.data(np.ones(4), label="x")
    >>> print(ctx[wf.nn.dropout(x, rate=0.5)])
    [1. 1. 1. 1.]
    """
    below_one("dropout", rate=rate)
    return dropped(x, rate)
