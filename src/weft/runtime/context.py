"""A context: where tensors live and code runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from weft.arguments import whole_number
from weft.assign import Code, seq
from weft.backends import Array, Backend, Exchanging, find_backend
from weft.display import Shown, show_values
from weft.display.values import BOXES, COLUMNS, ROWS
from weft.dlpack import CPU, DeviceArray
from weft.errors import WeftError, user_origin
from weft.migration_hints import no_context_attribute, not_called, not_pickled
from weft.public import public, public_methods
from weft.runtime.counters import checked_counter
from weft.runtime.default_context import DefaultContext
from weft.runtime.device import Device, checked_node
from weft.runtime.engine import Engine
from weft.runtime.function import Function
from weft.runtime.memory_use import MemoryUse, memory_use
from weft.runtime.routine import Routine
from weft.runtime.state import Restored, read_state, restore_state
from weft.runtime.values import holds, value_there
from weft.runtime.variables import Stateful, variables_of
from weft.schedule import CompileOptions
from weft.schedule.compile_options import checked_options
from weft.tensor.evaluator import evaluator
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor


@public_methods
class Context:
    """Devices with memory for tensors, and the routines compiled for them. By itself it speaks for device 0."""

    def __init__(self, backend: str | Backend | None = None, *, devices: int = 1) -> None:
        self._set_up(find_backend(backend), devices)
        listed.add(self)

    def _set_up(self, backend: Backend, devices: int) -> None:
        self._origin = user_origin()
        self._engine = Engine(backend, _checked_count(backend, devices))
        self.devices: tuple[Device, ...] = tuple(map(Device, self._engine.devices))

    def __repr__(self) -> str:
        return f"<{self._engine}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise not_pickled("a context")

    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **named: Any) -> NoReturn:
            raise not_called()

        @public
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            raise no_context_attribute(name, dir(Context))

    def compile(
        self,
        code: Code,
        *,
        bindings: Sequence[StaticIndex] = (),
        keep: Sequence[Tensor] = (),
        recompute: Sequence[Tensor] = (),
        options: CompileOptions | None = None,
    ) -> Routine:
        """Compile code into a routine.

        `bindings` are the static indices it takes, `keep` what must stay readable, `recompute` what is computed again
        where it is read instead of being stored, to save memory. `options` are those of `wf.config` if not given.
        """
        if not isinstance(code, Code):
            fix = (
                "to get the value of a tensor write ctx[t]; code comes from t.forward, wf.grad_update or a @wf.cd call"
            )
            raise WeftError(f"compile takes code, not {type(code).__name__}", fix=fix)
        indices = [bindings] if isinstance(bindings, StaticIndex) else _listed(bindings, "bindings")
        if strange := [one for one in indices if not isinstance(one, StaticIndex)]:
            what = f"{strange[0]!r} among the bindings is not a static index"
            raise WeftError(what, fix='use wf.index("i", n)')
        kept, again = (
            tuple(checked_node(tensor) for tensor in ([some] if isinstance(some, Tensor) else _listed(some, name)))
            for name, some in (("keep", keep), ("recompute", recompute))
        )
        named = {index.name: index for index in indices}
        return self._engine.compile(code, named, kept, again, checked_options(options))

    def function(
        self, *inputs: Tensor, code: Code | None = None, returns: Any = None, options: CompileOptions | None = None
    ) -> Function:
        """Code as a function of arrays for its inputs, `wf.input`; it returns the values of some tensors as arrays.

        `returns` is a tensor, or a tuple, list, dict or dataclass of them, nested: calls return the same structure.
        What `code` does not compute is computed before it writes anything; parameters are returned as it leaves them.
        A size that is a name is decided by the call: code is compiled for each size once, and kept on disk. Static
        indices of the code are keywords of the call.
        """
        if code is None and returns is None:
            what = "a function needs code to run, or something to return"
            raise WeftError(what, fix="give code=…, returns=…, or both")
        if code is not None and not isinstance(code, Code):
            fix = "code comes from wf.grad_update, wf.optim or a @wf.cd call; tensors are returned: returns=…"
            raise WeftError(f"code= takes code, not {type(code).__name__}", fix=fix)
        return Function(self._engine, inputs, code or seq(), returns, checked_options(options))

    def device(self, index: int) -> Device:
        """The device of an index, from 0."""
        count = len(self.devices)
        place = whole_number(index)
        if place is None or place >= count:
            what = f"there is no device {index!r}: the context has {count}"
            raise WeftError(what, fix=f"use 0 to {count - 1}, or make more: wf.Context(…, devices=n)")
        return self.devices[place]

    @overload
    def __getitem__(self, tensor: Tensor) -> Array: ...
    @overload
    def __getitem__(self, tensor: StaticIndex) -> int: ...
    def __getitem__(self, tensor: Tensor | StaticIndex) -> Array | int:
        """The value of a tensor on device 0: as a routine left it if that is up to date, else computed from leaves.

        Of a counter, the number of the next run that uses it.
        """
        if isinstance(tensor, StaticIndex):
            return self._engine.counters.now((checked_counter(tensor),))[tensor.name]
        return self.devices[0][tensor]

    def __contains__(self, tensor: Tensor) -> bool:
        """Is there a value of it on device 0?"""
        return tensor in self.devices[0]

    def __setitem__(self, tensor: Tensor | StaticIndex, value: npt.ArrayLike) -> None:
        """Upload a value to device 0; give the next run that uses a counter its number."""
        if isinstance(tensor, StaticIndex):
            self._engine.counters.set(checked_counter(tensor), value)
        else:
            self.devices[0][tensor] = value

    def state(self, step: Stateful) -> dict[str, Array]:
        """Everything that outlives a run of a step, as arrays by label: `{"mlp.w1": …, "adam.m.mlp.w1": …, "n": …}`.

        These are parameters, nodes that code goes on from, such as what an optimiser keeps, and the numbers of
        counters, on device 0. A step is a routine or a function; it may also be code, a layer or a tensor, or a list of
        all these. What nothing ran with yet has the value it begins with. Labels do not depend on what was compiled.
        `wf.save("model.safetensors", ctx.state(step))` keeps it.
        """
        return read_state(self._engine.devices[0], variables_of(step, self._engine))

    def restore(self, step: Stateful, state: Mapping[str, npt.ArrayLike], *, strict: bool = True) -> Restored:
        """Let everything that outlives a run of a step have the values of a state: `ctx.restore(step, wf.load(path))`.

        If something is missing, unknown, or of another shape or type, an error says so of all that is, and nothing is
        changed. With `strict=False` what fits is restored; what is returned says what did not.
        """
        return restore_state(self._engine.devices[0], variables_of(step, self._engine), state, strict)

    def show(self, tensor: Tensor, *, rows: int = ROWS, columns: int = COLUMNS, boxes: int = BOXES) -> Shown:
        """The value of a tensor to look at: `print(ctx.show(w))`; a notebook shows it as a table by itself.

        Its last two axes are a box, and there is one for each position along the others. Of what is long both ends are
        shown: so many rows, columns and boxes at most. Below are the least, the mean and the greatest value, and how
        many are no numbers.
        """
        for name, most in (("rows", rows), ("columns", columns), ("boxes", boxes)):
            if most < 1:
                raise WeftError(f"{name}= says how many to show at most, and is {most}", fix=f"write {name}=1 or more")
        label, value = checked_node(tensor).label, self[tensor]
        return show_values(label, tensor.dims, value, rows=rows, columns=columns, boxes=boxes)

    def memory(self) -> MemoryUse:
        """How many bytes the tensors here hold, on each device. Printed, it is a table."""
        return MemoryUse(tuple(map(memory_use, self._engine.devices)))

    def synchronize(self) -> None:
        """Return when everything enqueued on any device is done; raise what went wrong and was not raised yet."""
        self._engine.synchronize()

    def close(self) -> None:
        """Finish what is enqueued, end the threads, let go of all memory; raise what went wrong and was not raised."""
        try:
            self._engine.finish()
        finally:
            self._engine.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._engine.close()

    @property
    def _place(self) -> tuple[int, int]:
        """Where its tensors lie, as DLPack says it."""
        backend = self._engine.backend
        return backend.place(0) if isinstance(backend, Exchanging) else CPU

    def _export(self, tensor: Tensor) -> DeviceArray:
        """The value of a tensor as an array where it lies, of the caller's own."""
        return value_there(self._engine.devices[0], checked_node(tensor))

    def _holds(self, tensor: Tensor) -> bool:
        """Is a value stored here of the tensor, or of anything it is computed from?"""
        return holds(self._engine.devices[0], checked_node(tensor))


#: So many devices a context has at most where a backend gives as many as anybody wants: each has a thread of its own.
_MOST = 1024


def _listed(some: Any, name: str) -> list[Any]:
    """Several things given as a list, or as anything one can go through."""
    if isinstance(some, Iterable) and not isinstance(some, str | bytes | np.ndarray):
        return list(some)
    what = f"{name}= takes a list, not {type(some).__name__}"
    raise WeftError(what, fix=f"write {name}=[…], or leave it out")


def unlisted(backend: str | Backend | None) -> Context:
    """A context of somebody's own: a tensor asked for its value without naming a context does not ask this one."""
    made = Context.__new__(Context)
    made._set_up(find_backend(backend), 1)
    return made


#: Of the process.
listed = DefaultContext(unlisted)
evaluator.evaluate, evaluator.place, evaluator.export = listed, listed.place, listed.export


def _checked_count(backend: Backend, devices: int) -> int:
    counted = backend.count_devices()
    most = _MOST if counted is None else counted
    if (wanted := whole_number(devices, 1)) is None:
        what = f"a context needs a whole number of devices from 1 on, not {devices!r}"
        raise WeftError(what, fix="leave devices= out for one")
    if wanted > most:
        what = f"backend {backend.name!r} has {most} devices here, and {wanted} were asked for"
        raise WeftError(what, fix=f"use devices={most} at most")
    return wanted
