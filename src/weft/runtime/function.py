"""A step as a function: arrays in, arrays out, for any length of the sizes that calls decide.

    step = ctx.function(x, y, code=wf.seq(wf.grad_update(loss), wf.optim.adam(loss)), returns=loss)
    value = step(xb, yb)

For each new length its code is specialised and compiled once, and found on disk by later processes. Parameters and the
state of optimisers are those of the context, whatever the length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn, TypeAlias

import numpy as np

from weft.assign import Awaited, Code, Keep, Node, complete, seq, statements, symbols, target
from weft.assign.specialise import specialised
from weft.backends import Array
from weft.config import config
from weft.dlpack import DeviceArray
from weft.errors import WeftError
from weft.loops import Buffer
from weft.migration_hints import not_pickled
from weft.ops import Scalar
from weft.public import public, public_methods, theirs
from weft.runtime import errors
from weft.runtime.device_state import DeviceState
from weft.runtime.engine import Engine
from weft.runtime.events import Event
from weft.runtime.exchange import Exchange
from weft.runtime.footprint import nodes_in
from weft.runtime.fork import LOWERING
from weft.runtime.lru import LRU
from weft.runtime.queue import Queue
from weft.runtime.routine import Routine
from weft.runtime.signature import Signature, checked_inputs
from weft.runtime.sources import leaves_of
from weft.runtime.tune import tune_routine
from weft.runtime.tuning_report import TuningReport
from weft.schedule import Clock, CompileOptions
from weft.schedule.cost import Costs
from weft.schedule.memory.memory_plan import MemoryPlan
from weft.shape.named_sizes import CallSize
from weft.shape.nodes import Dim
from weft.tensor.functions import cast
from weft.tensor.nested_results import parts, structured_as
from weft.tensor.scope import as_tensor
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor

#: So many lengths have their memory at once; others are found on disk again.
_LENGTHS = 32

#: What arrays a call was given: where it is the same, so is what runs.
_CallKey: TypeAlias = tuple[tuple[tuple[int, ...], "np.dtype[Any]"] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """What runs for calls of certain sizes: the buffers of inputs and results, and the routine between."""

    routine: Routine
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]


@public_methods
class Pending:
    """The results of a call that need not be over."""

    __slots__ = ("_exchange", "_structure", "event")

    def __init__(self, event: Event, exchange: Exchange, structure: object) -> None:
        self.event = event
        self._exchange = exchange
        self._structure = structure

    @property
    def done(self) -> bool:
        """Is the call over?"""
        return self.event.done

    def wait(self) -> Any:
        """What the call returns, once it is over; raises what went wrong."""
        self.event.wait()
        return _structured(self._exchange, self._structure)

    def __repr__(self) -> str:
        return f"<a call: {'done' if self.done else 'pending'}>"


class Function:
    """Code as a function of arrays, made by `ctx.function`."""

    __slots__ = ("_calls", "_instances", "_options", "_returned", "_structure", "code", "engine", "signature")

    def __init__(
        self, engine: Engine, inputs: Sequence[object], code: Code, returns: object, options: CompileOptions | None
    ) -> None:
        arguments = checked_inputs(inputs)
        self.engine, self._options = engine, options or config.options
        returned = () if returns is None else _tensors(returns)
        self._structure = None if returns is None else structured_as(returns, count())
        self.code, self._returned = _whole(code, returned)
        for node in nodes_in(self.code):
            if isinstance(node.init, Awaited) and node not in (one.node for one in arguments):
                raise errors.not_listed(node)
        indices = (StaticIndex(one.name, one.size) for one, _ in symbols(self.code) if not one.counts)
        self.signature = Signature(arguments, {one.name: one for one in indices})
        self._instances: LRU[tuple[tuple[str, int], ...], _Instance] = LRU(_LENGTHS)
        self._calls: LRU[_CallKey, _Instance] = LRU(_LENGTHS)

    @public
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise not_pickled("a function")

    def __repr__(self) -> str:
        return f"<function({self.signature})>"

    def __call__(self, *arrays: Any, wait: bool = True, **named: Any) -> Any:
        """Run it on arrays, given in order or by name; the results are arrays of the caller's own.

        With `wait=False` it is enqueued, on copies of the arrays, and what returns is a `Pending`, to be waited for.
        """
        try:
            if not wait:
                state = self.engine.devices[0]
                return self.enqueue(state, state.queue, arrays, named)
            bound, given, instance = self._bound(arrays, named)
            for buffer, array in zip(instance.inputs, bound, strict=True):
                if not isinstance(array, np.ndarray):
                    self.engine.devices[0].memory.check_place(buffer, array)
            exchange = Exchange(instance.inputs, bound, instance.outputs)
            instance.routine.run(given, exchange)
        except WeftError as error:
            error.__traceback__ = theirs(error.__traceback__)
            raise
        return _structured(exchange, self._structure)

    def enqueue(self, state: DeviceState, queue: Queue, positional: Sequence[Any], named: Mapping[str, Any]) -> Pending:
        """Let a queue of a device run it on copies of arrays."""
        arrays, given, instance = self._bound(positional, named)
        if any(isinstance(one, DeviceArray) for one in arrays):
            what = "what is enqueued works on copies of its arrays, and some of them lie on a GPU"
            raise WeftError(what, fix="call the function itself: it need not copy them")
        exchange = Exchange(instance.inputs, [np.array(array) for array in arrays], instance.outputs)
        return Pending(instance.routine.enqueue(state, queue, given, exchange), exchange, self._structure)

    def _bound(
        self, positional: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Sequence[Array], Mapping[str, int], _Instance]:
        """What a call gives, checked, and what runs it; arrays like those of an earlier call need no check."""
        if not named:
            key: _CallKey = tuple([(one.shape, one.dtype) if type(one) is np.ndarray else None for one in positional])
            found = self._calls.get(key)
            if found is not None:
                return positional, named, found
        arrays, given = self.signature.bound(positional, named)
        sizes = self.signature.sizes(arrays)
        instance = self._instance(sizes)
        if not named and all(one is array for one, array in zip(positional, arrays, strict=True)):
            self._calls.put(tuple([(one.shape, one.dtype) for one in arrays]), instance)
        return arrays, instance.routine.given(given), instance

    def _instance(self, sizes: Mapping[str, int]) -> _Instance:
        key = tuple(sizes.items())
        return self._instances.get(key) or self._instances.put(key, self._specialised(sizes))

    def _specialised(self, sizes: Mapping[str, int]) -> _Instance:
        """The code for some sizes, compiled."""
        arguments = [one.node for one in self.signature.arguments]
        dims = {name: Dim(size, named=CallSize(size, name)) for name, size in sizes.items()}
        with LOWERING:
            made = specialised(self.code, arguments, dims)
        inputs = tuple(map(made.node, arguments))
        outputs = tuple(map(made.node, self._returned))
        routine = self.engine.compile(made.code, self.signature.indices, outputs, (), self._options, inputs)
        for node in routine.footprint.needs:
            if node in made.nodes.values():
                raise errors.changing_state(node, sizes)
        buffer = self.engine.layout.buffer
        return _Instance(routine, tuple(map(buffer, inputs)), tuple(map(buffer, outputs)))

    @public
    def tune(self, *arrays: Any, seconds: float = 10.0, show: bool = True, **named: Any) -> TuningReport:
        """Tune what runs for arrays like these, as `routine.tune` does."""
        bound, given, instance = self._bound(arrays, named)
        handed = dict(zip(instance.inputs, bound, strict=True))
        return tune_routine(instance.routine, instance.routine.standing(given), handed, seconds, show)

    @public
    def show(self, stage: str, **sizes: int) -> str:
        """A stage of the compilation for some sizes as text: `step.show("kernels", batch=32)`."""
        return self.routine_for(sizes).show(stage)

    @public
    def shapes(self, **sizes: int) -> list[tuple[int, ...]]:
        """The shapes of the arrays that a call of some sizes returns, in order."""
        return [one.shape for one in self._sized(sizes).outputs]

    @public
    def timings(self, **sizes: int) -> Clock:
        """Where compile time went, for some sizes. Printed, it is a table."""
        return self.routine_for(sizes).timings()

    @public
    def cost(self, **sizes: int) -> Costs:
        """Operations, bytes and their ratio, of each kernel, for some sizes. Printed, it is a table."""
        return self.routine_for(sizes).cost()

    @public
    def memory(self, **sizes: int) -> MemoryPlan:
        """Where its intermediate values lie, for some sizes. Printed, it is a table."""
        return self.routine_for(sizes).memory()

    def routine_for(self, sizes: Mapping[str, int]) -> Routine:
        """What runs for calls of some sizes."""
        return self._sized(sizes).routine

    def _sized(self, sizes: Mapping[str, int]) -> _Instance:
        wanted = self.signature.open_sizes
        if sizes.keys() != set(wanted):
            said = ", ".join(f"{name}=…" for name in wanted)
            what = f"what runs depends on {said}" if wanted else "the function has no sizes that calls decide"
            raise WeftError(what, fix=f'give them: step.show("kernels", {said})' if wanted else "leave them out")
        return self._instance({name: sizes[name] for name in wanted})


def _structured(exchange: Exchange, structure: object) -> Any:
    """What a call found, as it is to be returned."""
    return None if structure is None else structured_as(structure, iter(exchange.found))


def _tensors(returns: object) -> list[Tensor]:
    found: list[Tensor] = []
    for _, part in parts(returns):
        if not isinstance(part, Tensor | Scalar):
            what = f"a function returns tensors, not {type(part).__name__}"
            raise WeftError(what, fix="returns= takes a tensor, or a tuple, list or dict of them")
        found.append(as_tensor(part, "a function"))
    return found


def _whole(code: Code, returned: Sequence[Tensor]) -> tuple[Code, tuple[Node, ...]]:
    """The code with what is returned: as the code computes it, or else as it is before the code writes anything.

    What is not computed is returned as the code leaves it; if the code does not write it, it is copied.
    """
    written = {target(one) for one in statements(complete(code))}
    own = [tensor.node.definition is not None or tensor.node in written for tensor in returned]
    nodes = tuple([(one if made else cast(one, one.dtype)).node for one, made in zip(returned, own, strict=True)])
    before = tuple([node for node in nodes if node not in written and _reads(node, written)])
    return complete(seq(Keep(before), code, Keep(nodes))), nodes


def _reads(node: Node, written: set[Node]) -> bool:
    """Is it computed from something that code writes, but for gradients, which are there only afterwards?"""
    leaves = leaves_of(node)[0] if node.definition is not None else ()
    read = {one for one in leaves if isinstance(one, Node)} & written
    return bool(read) and all(one.gradient_of is None for one in read)
