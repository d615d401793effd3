"""Latency of dependent function calls, in nanoseconds: what it costs that one waits for another.

An exponential is some fifty operations in a row. A processor that waits for one of them works at the next points of the
loop meanwhile, but looks only a few hundred operations ahead: with one function at each point it works at several
points at once, with a chain of functions, each of the last one's value, at one point alone, and takes three times as
long for the same work. A buffer between two functions costs a pass over memory, and is often cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.loops.nodes import Buffer, Let, Local, Read, Set, Stmt, Store, Update
from weft.loops.walk import children, everything
from weft.machine import Machine
from weft.ops import OPS, Call, Num, Scalar


def waiting_ns(machine: Machine, first: int, second: int, both: int) -> float:
    """What a point takes longer where chains of functions, so many each, become one of so many."""
    if both <= max(first, second):
        return 0.0
    return max(0.0, _chain_ns(machine, both) - _chain_ns(machine, first) - _chain_ns(machine, second))


def pass_ns(machine: Machine, *buffers: Buffer) -> float:
    """What it takes to call a kernel that passes over some buffers."""
    size = sum(one.bytes for one in buffers)
    return machine.call_ns + machine.transfer_ns(size)


def chain(scalar: Scalar, before: Mapping[Buffer | Local, int]) -> int:
    """How many functions wait for one another in a scalar, with those in what it reads."""
    own = max((chain(one, before) for one in children(scalar)), default=0)
    match scalar:
        case Call():
            return own + is_long_latency(scalar)
        case Read(buffer=buffer):
            return max(own, before.get(buffer, 0))
        case Local():
            return before.get(scalar, 0)
    return own


def chains(body: Sequence[Stmt], before: Mapping[Buffer | Local, int]) -> dict[Buffer | Local, int]:
    """How many functions wait for one another in each thing that a block computes."""
    found = dict(before)
    for stmt in everything(body):
        match stmt:
            case Store(buffer=to, value=value) | Update(buffer=to, value=value):
                found[to] = max(found.get(to, 0), chain(value, found))
            case Let(local=local, value=value) | Set(local=local, value=value):
                found[local] = max(found.get(local, 0), chain(value, found))
    return found


def is_long_latency(call: Call) -> bool:
    """Is an operation many in a row?"""
    if call.op == "pow":
        exponent = call.args[1]
        return not (isinstance(exponent, Num) and float(exponent.value).is_integer())
    return OPS[call.op].function


def _chain_ns(machine: Machine, count: int) -> float:
    return count * min(machine.function_ns + machine.wait_ns * max(count - 1, 0), machine.latency_ns)
