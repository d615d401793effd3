"""Devices and streams, as their users see them."""

from __future__ import annotations

from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from weft.assign import Awaited, Merge, Node, Stored
from weft.backends import Array
from weft.errors import WeftError, user_origin
from weft.migration_hints import not_pickled
from weft.ops.dtypes import numpy_type
from weft.public import public_methods
from weft.runtime import errors
from weft.runtime.device_state import DeviceState
from weft.runtime.events import Event
from weft.runtime.footprint import Footprint
from weft.runtime.function import Function, Pending
from weft.runtime.initial_values import in_shape
from weft.runtime.queue import Queue
from weft.runtime.routine import Routine
from weft.runtime.values import has_value, read, receive, value, write
from weft.tensor.leaves import where_it_lies
from weft.tensor.tensor import Tensor


@public_methods
class Device:
    """A place where code runs, with memory of its own. It knows which tensors hold values there."""

    __slots__ = ("_state", "_stream")

    def __init__(self, state: DeviceState) -> None:
        self._state = state
        self._stream = Stream(self, state, state.queue)

    @property
    def index(self) -> int:
        """Which device of its context it is, from 0."""
        return self._state.index

    def __getitem__(self, tensor: Tensor) -> Array:
        """The value of a tensor here: as a routine left it if that is up to date, else computed from leaves."""
        node = _with_value(tensor)
        return read(self._state, node) if isinstance(tensor.operand, Stored) else value(self._state, node)

    def __setitem__(self, tensor: Tensor, given: npt.ArrayLike) -> None:
        """Upload a value: a number, or an array of the tensor's shape, or of the shape of what wf.data was given."""
        node = _with_value(tensor)
        if node.definition is not None:
            raise errors.is_computed(node)
        buffer = self._state.engine.layout.buffer(node)
        array = where_it_lies(given)
        if array.shape != buffer.shape and (array.shape or not isinstance(array, np.ndarray)):
            array = in_shape(node, array, user_origin())
        if isinstance(array, np.ndarray):
            if array.dtype != numpy_type(buffer.dtype):
                array = self._state.memory.converted(array, buffer)
            array = np.broadcast_to(array, buffer.shape)
        self._state.memory.check_place(buffer, array)
        write(self._state, node, array)

    def __contains__(self, tensor: Tensor) -> bool:
        """Is there a value of it here: stored, computable from what is, or a first value to begin with?"""
        return has_value(self._state, checked_node(tensor))

    @overload
    def run(self, routine: Routine, /, **values: int) -> Event: ...
    @overload
    def run(self, routine: Function, /, *arrays: Any, **named: Any) -> Pending: ...
    def run(self, routine: Routine | Function, /, *arrays: Any, **named: Any) -> Event | Pending:
        """Enqueue a run of a routine on the default stream: an event that is over when it has run.

        Or a call of a function, on copies of arrays: its results, to be waited for.
        """
        return self._stream.run(routine, *arrays, **named)

    def receive(self, tensor: Tensor, source: Device, *, merge: bool = False) -> Event:
        """Enqueue a copy of a tensor's stored value from another device, as the tensor itself or as its `.merge`."""
        return self._stream.receive(tensor, source, merge=merge)

    def stream(self) -> Stream:
        """A further stream of this device."""
        return Stream(self, self._state, self._state.new_queue())

    def synchronize(self) -> None:
        """Return when everything enqueued here is done; raise what went wrong, unless that was raised before."""
        self._state.settle()
        self._state.engine.admit(self._state.tell)

    def last_write(self, tensor: Tensor) -> object:
        """What wrote a tensor here last, as an object to compare with `is`; a routine run over and over counts once."""
        return self._state.hazards.uses.get(self._state.engine.layout.buffer(checked_node(tensor)))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise not_pickled("a device")

    def __repr__(self) -> str:
        return f"<device {self.index} of {self._state.engine}>"


@public_methods
class Stream:
    """What is enqueued here is done in order; what other streams of the device enqueue, in order where it matters."""

    __slots__ = ("_device", "_queue", "_state")

    def __init__(self, device: Device, state: DeviceState, queue: Queue) -> None:
        self._device = device
        self._state = state
        self._queue = queue

    @overload
    def run(self, routine: Routine, /, **values: int) -> Event: ...
    @overload
    def run(self, routine: Function, /, *arrays: Any, **named: Any) -> Pending: ...
    def run(self, routine: Routine | Function, /, *arrays: Any, **named: Any) -> Event | Pending:
        """Enqueue a run of a routine, or a call of a function, as `device.run` does."""
        if not isinstance(routine, Routine | Function):
            fix = "compile code first: step = ctx.compile(code)"
            raise WeftError(f"run takes a routine or a function, not {type(routine).__name__}", fix=fix)
        if routine.engine is not self._state.engine:
            kind = "function" if isinstance(routine, Function) else "routine"
            what = f"the {kind} was compiled for another context than that of device {self._state.index}"
            raise WeftError(what, fix="compile the code with the context it shall run in")
        if isinstance(routine, Function):
            return routine.enqueue(self._state, self._queue, arrays, named)
        if arrays:
            raise routine.unnamed("device.run(step, ")
        return routine.enqueue(self._state, self._queue, routine.given(named))

    def receive(self, tensor: Tensor, source: Device, *, merge: bool = False) -> Event:
        """Enqueue a copy of a tensor's stored value from another device, as the tensor itself or as its `.merge`."""
        node = checked_node(tensor)
        if not isinstance(merge, bool):
            raise WeftError(f"merge= is True or False, not {type(merge).__name__}")
        if not isinstance(source, Device):
            what = f"a device receives from a device, not {type(source).__name__}"
            raise WeftError(what, fix="write device.receive(t, source): devices are ctx.devices")
        if source._state is self._state:
            what = f"device {source.index} cannot receive `{node.label}` from itself"
            raise WeftError(what, fix="receive from another device of the context")
        if source._state.engine is not self._state.engine:
            what = f"`{node.label}` cannot come from {source!r}: device {self._state.index} is of another context"
            fix = "read it there and set it here: device[t] = source[t]"
            raise WeftError(what, fix=fix)
        return receive(self._state, self._queue, node, source._state, merge)

    def record(self) -> Event:
        """An event that is over when everything enqueued here so far is."""
        return self._state.engine.admit(lambda: self._queue.put(_nothing, {self._state.hazards: Footprint()}))

    def wait(self, event: Event) -> None:
        """Let everything enqueued here from now on wait for an event, of whatever stream or device."""
        if not isinstance(event, Event):
            fix = "events come from stream.record(), stream.run(…) and device.run(…)"
            raise WeftError(f"a stream waits for events, not {type(event).__name__}", fix=fix)
        self._state.engine.admit(lambda: self._queue.wait(event))

    def __repr__(self) -> str:
        return f"<stream of {self._device!r}>"


def checked_node(tensor: Tensor) -> Node:
    """The node of a tensor that a device can hold."""
    if not isinstance(tensor, Tensor):
        fix = 'ctx[t] takes the tensor itself, such as ctx[model.param("w")]; ctx.state(model) has values by name'
        raise WeftError(f"a context holds tensors, not {type(tensor).__name__}", fix=fix)
    if isinstance(tensor.operand, Merge):
        raise WeftError(f"`{tensor.label}` is read by code only", fix="read the tensor itself")
    return tensor.node


def _with_value(tensor: Tensor) -> Node:
    """The node of a tensor that a device can hold a value of."""
    node = checked_node(tensor)
    if isinstance(node.init, Awaited):
        raise errors.not_handed_in(node)
    return node


def _nothing() -> None: ...
