"""Recurrent layers: a cell applied along the time of a sequence, by `wf.scan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError
from weft.nn.checks import along_time, whole
from weft.nn.decoding import Decoding, current_decoding, refuse_decoding
from weft.nn.linear import Activation
from weft.nn.shared_configuration import configured_as
from weft.tensor.assignments import node
from weft.tensor.einsum import einsum
from weft.tensor.functions import sigmoid, tanh, where
from weft.tensor.layers import op
from weft.tensor.leaves import constant, offsets
from weft.tensor.nested_results import Path, parts, structured_as
from weft.tensor.params import param
from weft.tensor.scan import scan
from weft.tensor.tensor import Tensor

#: Along the last batch axis: the time of a sequence.
_TIME = "..., t|... => ...|..."


def recurrence(
    cell: Callable[[Any, Tensor], Any],
    x: Tensor,
    init: Any = 0.0,
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Apply a cell along the time of a sequence `...,t|d`: what it gives at each step, and the last carry.

    A cell is that of `wf.scan`. Sequences end after their `lengths`, `...|1`: from there on the carry stays as it is.
    Where a model is applied token by token, the carry is kept from one to the next.

    >>> x = wf.data(np.array([[[1.0], [2.0], [3.0]]]), batch=2)
    >>> hs, last = wf.nn.recurrence(lambda h, x: 0.5 * h + x, x)
    >>> print(ctx[hs].ravel(), ctx[last].ravel())
    [1.   2.5  4.25] [4.25]
    """
    along_time("a recurrence", x)
    decoding = current_decoding()
    if decoding is not None:
        if reverse or lengths is not None:
            refuse_decoding("runs along whole sequences", "leave out reverse=, bidirectional= and lengths=")
        return _decoded(cell, x, init, decoding)
    if lengths is None:
        return scan(cell, x, init, spec=_TIME, reverse=reverse)
    seen = einsum("t; ...|0 => ..., t|0", offsets(dtype="int32"), lengths, op="lt")
    return scan(_held(cell), (x, seen), init, spec=_TIME, reverse=reverse)


def _held(cell: Callable[[Any, Tensor], Any]) -> Callable[[Any, tuple[Tensor, Tensor]], Any]:
    """A cell that leaves its carry as it is where there is no token."""

    def held(carry: Any, step: tuple[Tensor, Tensor]) -> Any:
        x, seen = step
        result, before = cell(carry, x), _tensors(carry)
        alone = [*_tensors(result)] == [*before]
        if not alone and not (isinstance(result, tuple) and len(result) == 2):
            return result  # which the scan refuses
        after, given = (result, None) if alone else result
        kept = structured_as(after, (where(seen, one, before[path]) for path, one in _tensors(after).items()))
        return kept if alone else (kept, given)

    return held


def _decoded(cell: Callable[[Any, Tensor], Any], x: Tensor, init: Any, decoding: Decoding) -> tuple[Any, Any]:
    """The steps of new tokens, from the carry that was kept; what they give is in nodes before that is written."""
    kept = {path: decoding.kept(".".join(["carry", *map(str, path)])) for path in _tensors(init)}
    begun = constant(decoding.at) > 0
    starts = structured_as(init, (where(begun, kept[path], one) for path, one in _tensors(init).items()))
    hs, last = (_stored(one) for one in scan(_held(cell), (x, decoding.seen), starts, spec=_TIME))
    for path, one in _tensors(last).items():
        kept[path][:] = one
    return hs, last


def _stored(value: Any) -> Any:
    """Tensors in nodes of their own."""

    def stored(one: Tensor) -> Tensor:
        found = node(one.label)
        found[:] = one
        return found

    return structured_as(value, iter([stored(one) for one in _tensors(value).values()]))


def _tensors(value: Any) -> dict[Path, Any]:
    return dict(parts(value))


@op
def rnn_cell(h: Tensor, x: Tensor, *, hid_dim: int, activation: Activation = tanh) -> Tensor:
    """The next state of a plain recurrent network, of `hid_dim` numbers, from the state before and an input.

    >>> h, x = wf.data(np.zeros((2, 4)), batch=1), wf.data(np.ones((2, 3)), batch=1)
    >>> print(wf.nn.rnn_cell(h, x, hid_dim=4).dims)
    2|4
    """
    whole("rnn_cell", hid_dim=hid_dim)
    return activation(_gates(h, x, hid_dim))


@op
def lstm_cell(state: tuple[Tensor, Tensor], x: Tensor, *, hid_dim: int) -> Any:
    """The next state `h, c` of an LSTM, from the state before and an input.

    >>> zero, x = wf.data(np.zeros((2, 4)), batch=1), wf.data(np.ones((2, 3)), batch=1)
    >>> h, c = wf.nn.lstm_cell((zero, zero), x, hid_dim=4)
    >>> print(h.dims, c.dims)
    2|4 2|4
    """
    whole("lstm_cell", hid_dim=hid_dim)
    h, c = state
    gates = _gates(h, x, (4, hid_dim))
    i, f, g, o = (einsum(f"...|{at}, d => ...|d", gates) for at in range(4))
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return h, c


@op
def gru_cell(h: Tensor, x: Tensor, *, hid_dim: int) -> Tensor:
    """The next state of a GRU, from the state before and an input.

    >>> h, x = wf.data(np.zeros((2, 4)), batch=1), wf.data(np.ones((2, 3)), batch=1)
    >>> print(wf.nn.gru_cell(h, x, hid_dim=4).dims)
    2|4
    """
    whole("gru_cell", hid_dim=hid_dim)
    given = param("w", o=(3, hid_dim)) @ x + param("b", o=(3, hid_dim), init=0.0)
    before = param("u", o=(3, hid_dim), i=hid_dim) @ h
    (r, z, n), (u_r, u_z, u_n) = ([einsum(f"...|{at}, d => ...|d", one) for at in range(3)] for one in (given, before))
    z = sigmoid(z + u_z)
    n = tanh(n + sigmoid(r + u_r) * (u_n + param("b_n", o=hid_dim, init=0.0)))
    found: Tensor = (1 - z) * n + z * h
    return found


def _gates(h: Tensor, x: Tensor, sizes: int | tuple[int, ...]) -> Tensor:
    size = sizes if isinstance(sizes, int) else sizes[-1]
    return param("w", o=sizes) @ x + param("u", o=sizes, i=size) @ h + param("b", o=sizes, init=0.0)


@dataclass(frozen=True, slots=True)
class _RecurrentCells:
    """Cells of one configuration, and what they start from."""

    kind: Callable[..., Any]
    config: Mapping[str, Any]
    start: Any

    def along(self, x: Tensor, init: Any, label: str, lengths: Tensor | None, reverse: bool) -> tuple[Tensor, Any]:
        """What a cell gives along a sequence: its state, of an LSTM the first part of it."""
        cell = self.kind(**self.config, label=label)

        def step(state: Any, x: Tensor) -> Any:
            after = cell(state, x)
            return after, after[0] if isinstance(after, tuple) else after

        return recurrence(step, x, self.start if init is None else init, lengths=lengths, reverse=reverse)


def _stacked(
    cells: _RecurrentCells,
    x: Tensor,
    init: Any,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Any]:
    """Layers, each along what the one before it gives."""
    whole("a recurrent layer", num_layers=num_layers)
    runs = num_layers * (1 + bidirectional)
    starts = iter(_starts(init, runs))
    last = []
    for at in range(num_layers):
        number = "" if num_layers == 1 else str(at)
        hs, end = cells.along(x, next(starts), f"cell{number}", lengths, reverse=False)
        last.append(end)
        if bidirectional:
            back, end = cells.along(x, next(starts), f"back{number}", lengths, reverse=True)
            hs = einsum("...|a; ...|b => ...|a^b", hs, back)
            last.append(end)
        x = hs
    return x, last[0] if runs == 1 else last


@op
@configured_as(_stacked)
def rnn(x: Tensor, init: Any = None, *, hid_dim: int, activation: Activation = tanh, **config: Any) -> Any:
    """A plain recurrent network along a sequence `...,t|d`: its states `...,t|size`, and the last one.

    Of several layers, and of both directions, the last states come as a list, a layer's backward one after its forward
    one; `init` has the same form, and is 0 where it is not given.

    >>> x = wf.data(np.ones((2, 5, 3)), batch=2)
    >>> hs, last = wf.nn.rnn(x, hid_dim=4)
    >>> print(hs.dims, last.dims)
    2,5|4 2|4
    """
    return _stacked(_RecurrentCells(rnn_cell, {"hid_dim": hid_dim, "activation": activation}, 0.0), x, init, **config)


@op
@configured_as(_stacked)
def lstm(x: Tensor, init: Any = None, *, hid_dim: int, **config: Any) -> Any:
    """An LSTM along a sequence `...,t|d`: what it gives, `...,t|size`, and the last state `h, c`; as `wf.nn.rnn` else.

    >>> x = wf.data(np.ones((2, 5, 3)), batch=2)
    >>> hs, last = wf.nn.lstm(x, hid_dim=4, num_layers=2, bidirectional=True)
    >>> print(hs.dims, len(last), last[0][1].dims)
    2,5|8 4 2|4
    """
    return _stacked(_RecurrentCells(lstm_cell, {"hid_dim": hid_dim}, (0.0, 0.0)), x, init, **config)


@op
@configured_as(_stacked)
def gru(x: Tensor, init: Any = None, *, hid_dim: int, **config: Any) -> Any:
    """A GRU along a sequence `...,t|d`: its states `...,t|size`, and the last one; as `wf.nn.rnn` else.

    >>> x = wf.data(np.ones((2, 5, 3)), batch=2)
    >>> model = wf.nn.gru(hid_dim=4, label="gru")
    >>> print(model(x)[0].dims, *(f"{p.label} {p.dims}" for p in model.params))
    2,5|4 gru.cell.w 3->3,4 gru.cell.b 3,4 gru.cell.u 4->3,4 gru.cell.b_n 4
    """
    return _stacked(_RecurrentCells(gru_cell, {"hid_dim": hid_dim}, 0.0), x, init, **config)


def _starts(init: Any, runs: int) -> Sequence[Any]:
    """What each run starts from."""
    if init is None or runs == 1:
        return [init] * runs
    if not isinstance(init, list) or len(init) != runs:
        what = f"{runs} runs along a sequence start from {runs} states, in a list, not from {_counted(init)}"
        raise WeftError(what, fix="a layer's backward state comes after its forward one; init=None starts from 0")
    return init


def _counted(init: Any) -> str:
    return f"{len(init)}" if isinstance(init, list) else f"a {type(init).__name__}"
