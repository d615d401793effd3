"""What the runtime refuses, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from weft.assign import Merge, Node
from weft.assign.check import made_at
from weft.backends import DeviceUse
from weft.cache.limit import amount
from weft.dlpack import CPU, ExchangeError, place_name
from weft.errors import Origin, OutOfMemory, WeftError
from weft.loops import Buffer

if TYPE_CHECKING:
    from weft.runtime.events import Failure


def never_got_a_value(node: Node, reader: Callable[[], str] | None, device: int, completed: bool = False) -> WeftError:
    """Something reads a node that nothing wrote; `completed`: it only writes some of its cells."""
    by = f" by a routine that starts with `{reader().splitlines()[0]}`" if reader is not None else ""
    if node.is_grad:
        fix = f"run wf.grad_update(loss) before it, of a loss that `{_source(node)}` goes into"
    else:
        fix = f"set it first: {_spelled(device)}[{node.label}] = …, or give it init=…"
    what = f"is read{by}{_where(device)} but never got a value"
    if completed:
        what = f"is written in part only{by}{_where(device)}, and its other cells never got a value"
    return WeftError(f"`{node.label}` {what}", fix=fix, notes=made_at(node))


def being_written(node: Node) -> WeftError:
    """A signal handler asks for what the run it interrupts writes for the first time."""
    what = f"`{node.label}` gets its first value from the run that this signal handler interrupts"
    return WeftError(what, fix="ask again when the run is over: set a flag in the handler")


def inside_a_run() -> WeftError:
    """A signal handler asks for something that would change what the run it interrupts uses."""
    what = (
        "a signal handler came in the middle of a run: it can read values, but neither set any nor run anything, "
        "nor close the context"
    )
    fix = "set a flag in the handler, and act on it between runs"
    return WeftError(what, fix=fix)


def behind_own_work() -> WeftError:
    """A signal handler asks for what waits for the run it interrupts."""
    what = "a signal handler asks for what comes after the run it interrupts: each would wait for the other"
    return WeftError(what, fix="ask again when the run is over: set a flag in the handler")


def out_of_date(node: Node, changed: str, device: int) -> WeftError:
    """A value is to be sent that was computed from something that changed since."""
    what = f"`{node.label}` on device {device} is out of date: `{changed}` was written after it was computed"
    return WeftError(what, fix=f"run what computes it on device {device} again, then transfer it")


def no_memory(
    parts: Sequence[Buffer],
    whole: Buffer,
    device: int,
    origin: Callable[[Buffer], Origin | None],
    held: Sequence[str] = (),
) -> OutOfMemory:
    """Memory that cannot be had: for one tensor, or for several that lie together; `held` says what others have."""
    largest = sorted(parts, key=lambda one: one.bytes, reverse=True)[:3]
    notes = []
    for buffer in largest:
        made = origin(buffer)
        line = f", made at {made}: {made.code}" if made else ""
        notes.append(f"`{buffer.name}` is {_sizes(buffer)} of {buffer.dtype}, {amount(buffer.bytes)}{line}")
    named = f"`{largest[0].name}`" if len(parts) == 1 else "what a routine computes in between"
    rest = f"and {len(parts) - len(largest)} smaller ones"
    return OutOfMemory(
        f"there is no memory for {named}{_where(device)}: {amount(whole.bytes)}",
        notes=[*notes, *([rest] if len(parts) > len(largest) else []), *held],
        fix="make it smaller: fewer examples at a time, or sizes that a line above shows to be a mistake",
    )


def elsewhere(buffer: Buffer, lies: tuple[int, int], here: tuple[int, int]) -> ExchangeError:
    """An array is given for a tensor on another device."""
    places = f"lies on {place_name(lies)}, and this context computes on {place_name(here)}"
    what = f"what is given for `{buffer.name}` {places}"
    there = 'x.cpu() in PyTorch, or compute where it is: wf.Context("cuda")' if here == CPU else "x.to(…) in PyTorch"
    return ExchangeError(what, fix=f"move it: {there}")


def other_type(buffer: Buffer, dtype: str) -> ExchangeError:
    """An array on a GPU has another type than the tensor it is given for."""
    what = f"`{buffer.name}` is {buffer.dtype}, and what is given for it on its GPU is {dtype}"
    return ExchangeError(what, fix=f"convert it there: x.to(torch.{buffer.dtype}) in PyTorch")


def memory_held(use: DeviceUse, buffers: Sequence[Buffer], device: int) -> list[str]:
    """What the memory of a device is used for, and by which tensors most."""
    largest = sorted(buffers, key=lambda one: one.bytes, reverse=True)[:3]
    named = ", ".join(f"`{one.name}` {amount(one.bytes)}" for one in largest)
    free = f"device {device} has {amount(use.free)} free of {amount(use.total)}"
    notes = [f"{free}; this process holds {amount(use.held)}"]
    return [*notes, f"{len(buffers)} tensors of this context hold most of it: {named}"] if named else notes


def _sizes(buffer: Buffer) -> str:
    return "×".join(map(str, buffer.shape)) or "1"


def lost(name: str, failure: Failure, device: int) -> WeftError:
    """A value is gone because what was to write it failed."""
    what = f"`{name}` has no value on device {device}: what was to write it failed"
    fix = f"set it again: {_spelled(device)}[{name}] = …, or run what computes it"
    made = WeftError(what, fix=fix, notes=[f"on device {failure.device}: {failure}"])
    made.__cause__ = failure.error
    return made


def nothing_transferred(node: Node, transferred: Sequence[tuple[str, int]], device: int) -> WeftError:
    """Code reads a merge buffer that nothing was put into since it was last read."""
    held = ", ".join(f"`{label}` from device {source}" for label, source in transferred)
    what = f"nothing was transferred into `{Merge(node)}` on device {device}"
    fix = f"transfer it first: device.receive({node.label}, source, merge=True)"
    return WeftError(what, fix=fix, notes=[f"it holds {held}"] if held else [])


def not_stored(node: Node, device: int) -> WeftError:
    """A gradient is asked for that was fused away, or never computed."""
    what = f"`{node.label}` is not stored{_where(device)}: no routine left it behind"
    return WeftError(
        what, fix="keep it: ctx.compile(code, keep=[t.grad]); of ctx.function return it: returns=wf.grad(loss, t)"
    )


def not_recomputed(name: str, why: str) -> WeftError:
    """A value was to be computed again instead of stored, and cannot be."""
    return WeftError(f"`{name}` cannot be recomputed: {why}", fix="leave it out of recompute=[…]")


def nothing_to_keep(gradient: Node) -> WeftError:
    """A gradient is to be kept that the code does not touch."""
    fix = f"compile what computes it: wf.grad_update(loss), of a loss that `{_source(gradient)}` goes into"
    return WeftError(f"`{gradient.label}` is to be kept, and the code does not compute it", fix=fix)


def _source(gradient: Node) -> str:
    return gradient.gradient_of.label if gradient.gradient_of is not None else ""


def nothing_to_send(node: Node, source: int) -> WeftError:
    """A transfer of a value that its source does not store."""
    fix = f"run what computes it there, with keep=[{node.label}], or set it: {_spelled(source)}[{node.label}] = …"
    return WeftError(f"device {source} stores no value of `{node.label}` to transfer", fix=fix)


def is_computed(node: Node) -> WeftError:
    """An upload to a tensor that is computed from others."""
    what = f"`{node.label}` is computed from other tensors and cannot be set"
    return WeftError(what, fix="set the parameters or data it is computed from")


def depends_on_index(node: Node, name: str, changed: str | None) -> WeftError:
    """A value is asked for that differs from run to run; `changed` is what made the one of the last run out of date."""
    if changed is not None:
        what = (
            f"`{node.label}` is out of date: `{changed}` was written after it was computed, and since it depends on "
            f"static index `{name}` it cannot be computed anew"
        )
        fix = "run what computes it again; ctx[wf.given(t)] is the value as it was"
        return WeftError(what, fix=fix)
    what = f"`{node.label}` depends on static index `{name}`, so it has no value of its own"
    return WeftError(what, fix=f"compile code that computes it with bindings=[{name}] and run that: it stays stored")


def not_handed_in(node: Node) -> WeftError:
    """An input is needed outside a call that hands it in."""
    what = f"`{node.label}` is an input: it has values only in a call that hands them in"
    fix = f"make a function of it, step = ctx.function({node.label}, code=…, returns=…), and call step(array)"
    return WeftError(what, notes=made_at(node), fix=fix)


def not_listed(node: Node) -> WeftError:
    """A function uses an input that its calls do not hand in."""
    what = f"the function uses input `{node.label}`, which is not among its inputs"
    return WeftError(what, notes=made_at(node), fix=f"list it: ctx.function({node.label}, …)")


def changing_state(node: Node, sizes: Mapping[str, int]) -> WeftError:
    """Code reads what an earlier call left, and that has another shape in calls of other sizes."""
    said = ", ".join(f"{name}={size}" for name, size in sizes.items())
    what = f"`{node.label}` keeps its value from call to call, and its shape {node.shape} is that of {said} alone"
    return WeftError(what, notes=made_at(node), fix="reduce the axes whose sizes calls decide before it is written")


def closed() -> WeftError:
    """A context is used after it was closed."""
    return WeftError("the context is closed", fix="make another: wf.Context(…)")


def _where(device: int) -> str:
    return f" on device {device}" if device else ""


def _spelled(device: int) -> str:
    return f"ctx.device({device})" if device else "ctx"


def not_in_kernels() -> WeftError:
    """Something is asked of a routine's kernels that has none."""
    fix = 'compile it for a backend that is, such as wf.Context("cc"), with wf.config.optimise'
    return WeftError("the routine is not cut into kernels", fix=fix)
