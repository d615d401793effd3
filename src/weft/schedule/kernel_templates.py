"""Templates of kernels: those that are α-equivalent, equal but for names, are rewritten once for all.

    for i: h1[i] = relu(x[i] + b1[i])      and      for k: h2[k] = relu(h1[k] + b2[k])

have the first of them as their template, the second with `AlphaRenaming`. So the layers of a model cost little more
than one of them. What no loop of a kernel binds keeps its name, as static indices do: their sizes belong to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from typing import TypeVar, assert_never

from weft.affine import Affine
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
    buffers_of,
    check,
)
from weft.loops.walk import Body, everything, parts, walk
from weft.ops import Call, Scalar
from weft.schedule.alpha_renaming import IDENTITY, AlphaRenaming
from weft.schedule.nodes import Kernel

T = TypeVar("T")


def with_templates(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The kernels, those that are alike with the template of the first of them; what has another's keeps it."""
    firsts: dict[Hashable, tuple[Body, _Symbols]] = {}
    done: list[Kernel] = []
    for kernel in kernels:
        if kernel.renaming is not IDENTITY:
            done.append(kernel)
            continue
        own = _Symbols()
        skeleton = kernel.recurrence, kernel.shared, own.skeleton(kernel.body)
        template, first = firsts.setdefault(skeleton, (kernel.body, own))
        done.append(kernel if first is own else replace(kernel, template=template, renaming=first.called(own)))
    return done


def with_own_partials(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The kernels, each with partial accumulators that no other has: those of a template are its first kernel's."""
    ids = count()

    def own(kernel: Kernel) -> Kernel:
        made = dict.fromkeys(map(_origin, buffers_of(Program(kernel.template))))
        partial = {one: replace(kernel.renaming.buffer(one), id=next(ids)) for one in made if one.role is Role.PARTIAL}
        renaming = replace(kernel.renaming, buffers={**kernel.renaming.buffers, **partial})
        return replace(kernel, renaming=renaming) if partial else kernel

    return list(map(own, kernels))


def _origin(buffer: Buffer) -> Buffer:
    """The buffer that a buffer stands beside in the end."""
    return buffer if buffer.of is None else _origin(buffer.of)


def per_template(
    kernels: Sequence[Kernel], find: Callable[[Kernel, frozenset[Buffer]], T], some: Collection[Buffer] = ()
) -> list[T]:
    """What is found of each kernel, looked for once where kernels have one template.

    `find` may look at the template alone, and at which of its buffers are among some for the kernel.
    """
    found: dict[Hashable, T] = {}
    done: list[T] = []
    for kernel, buffers in zip(kernels, per_template(kernels, _buffers) if some else repeat(()), strict=False):
        own = frozenset([one for one in buffers if kernel.renaming.buffer(one) in some])
        key = id(kernel.template), own
        if key not in found:
            found[key] = find(kernel, own)
        done.append(found[key])
    return done


def _buffers(kernel: Kernel, _: Collection[Buffer]) -> tuple[Buffer, ...]:
    return buffers_of(Program(kernel.template))


def touched(kernels: Sequence[Kernel]) -> list[tuple[Buffer, ...]]:
    """The buffers that each kernel touches."""
    found = per_template(kernels, _buffers)
    return [tuple(map(kernel.renaming.buffer, own)) for kernel, own in zip(kernels, found, strict=True)]


def touched_by_one(kernels: Sequence[Kernel]) -> set[Buffer]:
    """The buffers that one kernel alone touches."""
    users = Counter(buffer for own in touched(kernels) for buffer in own)
    return {buffer for buffer, count in users.items() if count == 1}


def check_kernels(kernels: Sequence[Kernel], static: Mapping[str, int]) -> None:
    """Check kernels, those of one template once."""
    per_template(kernels, lambda kernel, _: check(Program(kernel.template), static))


@dataclass(slots=True)
class _Symbols:
    """What code calls buffers, and loops and variables, in the order in which they come up."""

    buffers: dict[Buffer, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def called(self, other: _Symbols) -> AlphaRenaming:
        """What code of the same skeleton calls them."""
        buffers, names = zip(self.buffers, other.buffers, strict=True), zip(self.names, other.names, strict=True)
        return AlphaRenaming(dict(buffers), dict(names))

    def skeleton(self, body: Sequence[Stmt]) -> Hashable:
        """The code with symbols by number: equal for code that is equal but for names."""
        found: list[Hashable] = []
        for stmt in everything(body):
            found += self._statement(stmt)
            for part in parts(stmt):
                for scalar in walk(part):
                    found += self._scalar(scalar)
        return tuple(found)

    def _statement(self, stmt: Stmt) -> Sequence[Hashable]:
        """A statement but for its scalars; of a block how long it is, for its statements follow."""
        match stmt:
            case For(loop=loop, size=size, body=body, how=how):
                return For, self._bound(loop), size, how, len(body)
            case If(tests=tests, body=body):
                return If, tuple([one.size for one in tests]), len(body)
            case Let(local=local):
                return Let, self._bound(local.name), local.dtype
            case Set(local=local):
                return Set, self._bound(local.name), local.dtype
            case Store(buffer=buffer):
                return Store, self._buffer(buffer)
            case Update(buffer=buffer, op=op):
                return Update, self._buffer(buffer), op
            case Fill(buffer=buffer, value=value):
                return Fill, self._buffer(buffer), repr(value)
            case Remark(text=text, body=body):
                return Remark, text, len(body)
            case Staged(what=what, body=body):
                loops = len(what.left), len(what.right), len(what.sums)
                return Staged, loops, what.tile, what.blocks, len(body)
            case _:
                assert_never(stmt)

    def _scalar(self, scalar: Scalar) -> Sequence[Hashable]:
        """A scalar but for its parts, which follow it."""
        match scalar:
            case Affine(terms=terms, offset=offset):
                return Affine, offset, tuple([(factor, self.names.get(name, name)) for factor, name in terms])
            case Read(buffer=buffer):
                return Read, self._buffer(buffer)
            case Call(op=op, args=args):
                return Call, op, len(args)
            case Local(name=name, dtype=dtype):
                return Local, self._bound(name), dtype
            case Cast(dtype=dtype):
                return Cast, dtype
        return (repr(scalar),)

    def _bound(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _buffer(self, buffer: Buffer) -> Hashable:
        number = self.buffers.setdefault(buffer, len(self.buffers))
        return number, buffer.shape, buffer.dtype, buffer.role
