"""A context: where tensors live and code runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.assign import (
    Cells,
    Code,
    Data,
    Fetch,
    File,
    Keep,
    Merge,
    Node,
    Operand,
    Stored,
    closed_buffer,
    complete,
    lower,
    node_of,
    seq,
    symbols,
)
from weft.assign.show import Printer, distinct
from weft.backends import Bound, find_backend
from weft.errors import Origin, ShapeError, WeftError, user_origin
from weft.loops import Buffer, Program, buffers_of, check
from weft.runtime.routine import Routine, analyse
from weft.shape.close import close
from weft.tensor.leaves import numbers
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor
from weft.tensor.values import evaluator

Array = npt.NDArray[Any]


class Context:
    """Memory for tensors and the routines compiled for it. It knows which tensors hold values."""

    def __init__(self, backend: str = "interp") -> None:
        self._backend = find_backend(backend)
        self._buffers: dict[Operand, Buffer] = {}
        self._names: dict[Node, str] = {}
        self._memory: dict[Buffer, Array] = {}
        self._stored: dict[Node, None] = {}
        self._borrowed: set[Node] = set()  # bound to memory of the user's, copied before it is written
        self._routines: dict[Node, Routine] = {}
        self._ready: tuple[Routine, Bound] | None = None  # what ran last, if memory is as it left it
        evaluator.set(self.__getitem__)

    # Code

    def compile(self, code: Code, *, bindings: Sequence[StaticIndex] = (), keep: Sequence[Tensor] = ()) -> Routine:
        """Compile code into a routine. `bindings` are the static indices it takes, `keep` what must stay readable."""
        if not isinstance(code, Code):
            fix = (
                "to get the value of a tensor write ctx[t]; code comes from t.forward, wf.grad_update or a @wf.cd call"
            )
            raise WeftError(f"compile takes code, not {type(code).__name__}", origin=user_origin(), fix=fix)
        bindings = [bindings] if isinstance(bindings, StaticIndex) else list(bindings)
        if strange := [one for one in bindings if not isinstance(one, StaticIndex)]:
            raise WeftError(
                f"{strange[0]!r} among the bindings is not a static index",
                origin=user_origin(),
                fix='use wf.index("i", n)',
            )
        kept = tuple(_node(tensor) for tensor in ([keep] if isinstance(keep, Tensor) else keep))
        full = complete(seq(code, Keep(kept)))
        facts = analyse(full)
        for operand in facts.needs:
            if isinstance(operand, Stored) and operand.node in facts.written:
                raise WeftError(
                    f"the code computes `{operand}` and also reads its stored value",
                    origin=user_origin(),
                    fix="read one of the two in a routine of its own",
                )
        for node in facts.touched:
            close(node.shape)
        static = {index.name: index for index in bindings}
        _check_bound(full, static)
        with self._undone_on_error():
            program = self._lower(full, static)
            return Routine(self, full, program, self._backend.compile(program), static, facts)

    def _lower(self, code: Code, static: Mapping[str, StaticIndex]) -> Program:
        return check(lower(code, self._buffer, static), {name: index.size for name, index in static.items()})

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """A compilation that fails leaves no trace."""
        before = [(known, len(known)) for known in (self._buffers, self._names)]
        try:
            yield
        except BaseException as error:
            for known, length in before:
                while len(known) > length:
                    known.popitem()
            if isinstance(error, WeftError) and error.origin is None:
                error.origin = user_origin()
            raise

    def run(self, routine: Routine, given: dict[str, int]) -> None:
        """Run a routine of this context with its static indices bound."""
        if self._ready is None or self._ready[0] is not routine:
            self._ready = (routine, self._prepare(routine))
        self._ready[1](given)

    def _prepare(self, routine: Routine) -> Bound:
        """See to it that the routine finds what it needs; until memory changes this need not be done again."""
        facts = routine.facts
        self._require(routine)
        for buffer in routine.buffers:
            self._allocate(buffer)
        for node in facts.written:
            self._own(node)
            self._stored.pop(node, None)
        self._stored |= dict.fromkeys(facts.leaves)
        return routine.executable.bind(self._memory)

    def show(self, code: Code) -> str:
        """Code in the assignment notation, tensors called as this context's buffers are."""
        return Printer(code, self._name).show(code)

    # Values

    def __getitem__(self, tensor: Tensor) -> Array:
        """The value of a tensor: as stored if a routine left it, else computed from leaves."""
        node = _node(tensor)
        if node in self._stored:
            return self._memory[self._buffer(node)].copy()
        if node.definition is not None:
            return self._computed(node)
        if node.gradient_of is not None:
            raise WeftError(
                f"`{node.label}` is not stored: no routine left it behind",
                origin=user_origin(),
                fix="compile with keep=[…] naming the gradient",
            )
        self._initialise(node, "")
        return self._memory[self._buffer(node)].copy()

    def __setitem__(self, tensor: Tensor, value: npt.ArrayLike) -> None:
        """Upload a value."""
        node = _node(tensor)
        if node.definition is not None:
            raise WeftError(
                f"`{node.label}` is computed from other tensors and cannot be set",
                origin=user_origin(),
                fix="set the parameters or data it is computed from",
            )
        array = numbers(value)
        if array.shape != ():
            self._check_shape(node, array, user_origin())
        self._memory[self._buffer(node)] = np.broadcast_to(array, self._buffer(node).shape).astype(node.dtype)
        self._borrowed.discard(node)
        self._stored[node] = None
        self._ready = None

    def _computed(self, node: Node) -> Array:
        """Compute a tensor from leaves, in memory of its own: what routines left stored is not touched."""
        if node not in self._routines:
            code = complete(Keep((node,)))
            for name, _, _ in symbols(code):
                raise WeftError(
                    f"`{node.label}` depends on static index `{name}`, so it has no value of its own",
                    origin=user_origin(),
                    fix=f"compile code that computes it with bindings=[{name}] and run that: it stays stored",
                )
            self._routines[node] = self.compile(code)
        routine = self._routines[node]
        self._require(routine)
        written = {self._buffer(one) for one in routine.facts.written}
        scratch = {
            buffer: np.zeros(buffer.shape, buffer.dtype) if buffer in written else self._memory[buffer]
            for buffer in routine.buffers
        }
        routine.executable.bind(scratch)({})
        return scratch[self._buffer(node)]

    # Memory

    def _buffer(self, operand: Operand) -> Buffer:
        key = operand if isinstance(operand, Merge) else node_of(operand)
        if key not in self._buffers:
            node = key.node if isinstance(key, Merge) else key
            suffix = ".merge" if isinstance(key, Merge) else ""
            self._buffers[key] = closed_buffer(node, len(self._buffers), self._name(node) + suffix)
        return self._buffers[key]

    def _name(self, node: Node) -> str:
        if node.gradient_of is not None:
            return f"{self._name(node.gradient_of)}.grad"
        if node not in self._names:
            self._names[node] = distinct(node.label, set(self._names.values()))
        return self._names[node]

    def _allocate(self, buffer: Buffer) -> None:
        if buffer not in self._memory:
            self._memory[buffer] = np.zeros(buffer.shape, buffer.dtype)

    def _require(self, routine: Routine) -> None:
        """See to it that everything the routine needs to find in memory is there."""
        nodes = []
        for operand in routine.facts.needs:
            if isinstance(operand, Merge):
                raise WeftError(
                    f"nothing was transferred into `{operand}`",
                    origin=user_origin(),
                    fix="transfer from another device",
                )
            nodes.append(node_of(operand))
        missing = [node for node in dict.fromkeys(nodes) if node not in self._stored]
        self._compute_first_values([node for node in missing if _is_computed_once(node)])
        for node in missing:
            if node not in self._stored:
                self._initialise(node, f" by a routine that starts with `{routine.show('assign').splitlines()[0]}`")

    def _compute_first_values(self, nodes: Sequence[Node]) -> None:
        """The initialisers of some nodes, compiled and run as one program."""
        if nodes:
            program = self._lower(seq(*(node.init for node in nodes if node.init is not None)), {})
            for buffer in buffers_of(program):
                self._allocate(buffer)
            self._backend.compile(program).bind(self._memory)({})
            self._stored |= dict.fromkeys(nodes)
            self._ready = None

    def _initialise(self, node: Node, reader: str) -> None:
        """Give a node its first value, or refuse to read garbage."""
        self._ready = None
        match node.init:
            case Fetch(source=Data(array=array, exact=exact)):
                if exact:
                    self._check_shape(node, array, node.origin)
                self._bind(node, array)
            case Fetch(source=File(path=path)):
                self._bind(node, _map_file(node, path))
            case Fetch():
                self._compute_first_values([node])
            case _ if node.recurrent:
                self._allocate(self._buffer(node))
                self._memory[self._buffer(node)][...] = 0
            case _:
                raise WeftError(
                    f"`{node.label}` is read{reader} but never got a value",
                    origin=user_origin(),
                    notes=[f"it was made at {node.origin}: {node.origin.code}"] if node.origin else [],
                    fix="run wf.grad_update(loss) before it"
                    if node.gradient_of is not None
                    else f"set it first: ctx[{node.label}] = …, or give it init=…",
                )
        self._stored[node] = None

    def _check_shape(self, node: Node, array: Array, origin: Origin | None) -> None:
        wanted = close(node.shape).array_shape
        if array.shape != wanted:
            raise ShapeError(
                f"`{node.label}` is {node.shape}, in memory {wanted}, and cannot be set to an array of {array.shape}",
                origin=origin,
                fix="axes lie batch first, then output, then input",
            )

    def _bind(self, node: Node, array: Array) -> None:
        buffer = self._buffer(node)
        if array.size != int(np.prod(buffer.shape)):
            raise ShapeError(
                f"`{node.label}` holds {array.size} values and its shape {node.shape} needs {np.prod(buffer.shape)}",
                origin=node.origin,
            )
        self._memory[buffer] = np.ascontiguousarray(array).reshape(buffer.shape)
        self._borrowed.add(node)

    def _own(self, node: Node) -> None:
        if node in self._borrowed:
            buffer = self._buffer(node)
            self._memory[buffer] = self._memory[buffer].copy()
            self._borrowed.discard(node)


def _is_computed_once(node: Node) -> bool:
    return isinstance(node.init, Fetch) and isinstance(node.init.source, Cells)


def _check_bound(code: Code, static: Mapping[str, StaticIndex]) -> None:
    for name, size, origin in symbols(code):
        if name not in static:
            raise WeftError(
                f"the code uses static index `{name}`, which is not among the bindings",
                origin=origin or user_origin(),
                fix=f"compile with bindings=[{name}]",
            )
        if size != static[name].size:
            raise WeftError(
                f"static index `{name}` has size {size} in the code and {static[name].size} among the bindings",
                origin=origin or user_origin(),
                fix="make the index once and use it in both places",
            )


def _node(tensor: Tensor) -> Node:
    if not isinstance(tensor, Tensor):
        raise WeftError(f"a context holds tensors, not {type(tensor).__name__}", origin=user_origin())
    if isinstance(tensor.operand, Merge):
        raise WeftError(f"`{tensor.label}` is read by code only", origin=user_origin(), fix="read the tensor itself")
    return tensor.node


def _map_file(node: Node, path: str) -> Array:
    count = close(node.shape).count
    try:
        return np.memmap(path, dtype=node.dtype, mode="r", shape=(count,))
    except (OSError, ValueError) as error:
        raise WeftError(
            f"file {path!r} cannot be mapped as {count} values of {node.dtype}: {error}", origin=node.origin
        ) from None
