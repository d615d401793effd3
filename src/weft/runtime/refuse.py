"""What the runtime refuses, in words."""

from __future__ import annotations

from collections.abc import Mapping

from weft.assign import Merge, Node
from weft.errors import WeftError, user_origin
from weft.runtime.events import Failure
from weft.runtime.routine import Routine


def never_got_a_value(node: Node, reader: Routine | None, device: int) -> WeftError:
    """Something reads a node that nothing wrote."""
    by = f" by a routine that starts with `{reader.show('assign').splitlines()[0]}`" if reader is not None else ""
    if node.gradient_of is not None:
        fix = "run wf.grad_update(loss) before it"
    else:
        fix = f"set it first: {_spelled(device)}[{node.label}] = …, or give it init=…"
    return WeftError(
        f"`{node.label}` is read{by}{_where(device)} but never got a value",
        origin=user_origin(),
        notes=[f"it was made at {node.origin}: {node.origin.code}"] if node.origin else [],
        fix=fix,
    )


def lost(name: str, failure: Failure, device: int) -> WeftError:
    """A value is gone because what was to write it failed."""
    made = WeftError(
        f"`{name}` has no value on device {device}: what was to write it failed",
        origin=user_origin(),
        notes=[f"on device {failure.device}: {failure}"],
        fix=f"set it again: {_spelled(device)}[{name}] = …, or run what computes it",
    )
    made.__cause__ = failure.error
    return made


def nothing_transferred(node: Node, transferred: Mapping[Node, int], device: int) -> WeftError:
    """Code reads a merge buffer that nothing was put into since it was last read."""
    held = ", ".join(f"`{other.label}` from device {source}" for other, source in transferred.items())
    return WeftError(
        f"nothing was transferred into `{Merge(node)}` on device {device}",
        origin=user_origin(),
        notes=[f"it holds {held}"] if held else [],
        fix=f"transfer it first: device.receive({node.label}, source, merge=True)",
    )


def not_stored(node: Node, device: int) -> WeftError:
    """A gradient is asked for that was fused away, or never computed."""
    return WeftError(
        f"`{node.label}` is not stored{_where(device)}: no routine left it behind",
        origin=user_origin(),
        fix="compile with keep=[…] naming the gradient",
    )


def not_recomputed(name: str, why: str) -> WeftError:
    """A value was to be computed again instead of stored, and cannot be."""
    return WeftError(f"`{name}` cannot be recomputed: {why}", origin=user_origin(), fix="leave it out of recompute=[…]")


def nothing_to_send(node: Node, source: int) -> WeftError:
    """A transfer of a value that its source does not store."""
    return WeftError(
        f"device {source} stores no value of `{node.label}` to transfer",
        origin=user_origin(),
        fix=f"run what computes it there, with keep=[{node.label}], or set it: {_spelled(source)}[{node.label}] = …",
    )


def is_computed(node: Node) -> WeftError:
    """An upload to a tensor that is computed from others."""
    return WeftError(
        f"`{node.label}` is computed from other tensors and cannot be set",
        origin=user_origin(),
        fix="set the parameters or data it is computed from",
    )


def depends_on_index(node: Node, name: str) -> WeftError:
    """A value is asked for that differs from run to run."""
    return WeftError(
        f"`{node.label}` depends on static index `{name}`, so it has no value of its own",
        origin=user_origin(),
        fix=f"compile code that computes it with bindings=[{name}] and run that: it stays stored",
    )


def closed() -> WeftError:
    """A context is used after it was closed."""
    return WeftError("the context is closed", origin=user_origin(), fix="make another: wf.Context(…)")


def _where(device: int) -> str:
    return f" on device {device}" if device else ""


def _spelled(device: int) -> str:
    return f"ctx.device({device})" if device else "ctx"
