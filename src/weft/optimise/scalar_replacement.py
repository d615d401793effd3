"""Scalar replacement of aggregates: what holds several numbers becomes variables and buffers of one number each, and
what a monoid computes is written out.

    s: float32.float32 = pack2(0, 0)                  s_0: float32 = 0;  s_1: float32 = 0
    for j: s = mean(s, pack2(x[j], 1))     becomes    for j: { t = s_0 + x[j];  u = s_1 + 1;  s_0 = t;  s_1 = u }
    y[0] = item0(s) / item1(s)                        y[0] = s_0 / s_1

All new numbers of a state are computed from the old ones before any is set. Afterwards no operation is left that a
backend would have to know: what follows sees scalars, and shares and moves what they have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from weft.loops.insert_casts import dtype_of, stored, type_before
from weft.loops.names import BlockNames
from weft.loops.nodes import Buffer, Cast, Let, Local, Read, Role, Set, Stmt, Store, Update
from weft.loops.walk import bottom_up, children, everything, parts, reads, walk, with_children, with_parts
from weft.ops import OPS, Call, Monoid, Num, Scalar, computed
from weft.ops.dtypes import carrier, fields
from weft.ops.table import DECLARED

StateNumbers = tuple[Scalar, ...]


def replaced_aggregates(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block of a typed program in which every value is one number."""
    if not any(_is_state(stmt) for stmt in everything(body)):
        return tuple(body)
    split = _Splitting(BlockNames(body))
    return _without_unread(bottom_up(body, split.statement))


def _without_unread(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A block that stores no numbers of partial states that it never reads: nobody else does."""
    read = {one.buffer for stmt in everything(body) for part in parts(stmt) for one in reads(part)}

    def rule(stmt: Stmt) -> Sequence[Stmt]:
        match stmt:
            case Store(buffer=Buffer(role=Role.FIELD, of=Buffer(role=Role.PARTIAL)) as buffer) if buffer not in read:
                return ()
        return (stmt,)

    return bottom_up(body, rule)


def _is_state(stmt: Stmt) -> bool:
    """Does a statement work with states? What puts them together, joins them and takes them apart is declared."""
    match stmt:
        case Update(op=op) if op in DECLARED:
            return True
        case Store(buffer=Buffer(dtype=dtype)) | Let(local=Local(dtype=dtype)) if "." in dtype:
            return True
    return any(isinstance(one, Call) and one.op in DECLARED for part in parts(stmt) for one in walk(part))


@dataclass(slots=True)
class _Splitting:
    names: BlockNames
    #: The variables that stand for one of several numbers.
    locals: dict[Local, tuple[Local, ...]] = field(default_factory=dict)
    #: What is to be computed before the statement at hand.
    lead: list[Stmt] = field(default_factory=list)

    def statement(self, stmt: Stmt) -> Sequence[Stmt]:
        """A statement, whose body is split already."""
        self.lead = []
        match stmt:
            case Update(op=op, buffer=buffer, at=at, value=value) if OPS[op].monoid:
                joined = Call(op, (Read(buffer, at), value))
                return self._stored(buffer, at, joined)
            case Store(buffer=buffer, at=at, value=value) if "." in buffer.dtype:
                return self._stored(buffer, at, value)
            case Let(local=local, value=value) if "." in local.dtype:
                numbers = self.numbers(value)
                return [*self.lead, *map(Let, self._locals(local), numbers)]
            case Set(local=local, value=value) if "." in local.dtype:
                new = self._computed(self.numbers(value))
                return [*self.lead, *map(Set, self._locals(local), new)]
        own = tuple([self._scalar(one) for one in parts(stmt)])
        return [*self.lead, with_parts(stmt, own)]

    def _stored(self, buffer: Buffer, at: tuple[Scalar, ...], value: Scalar) -> list[Stmt]:
        at = tuple([self._scalar(one) for one in at])
        pairs = zip(field_buffers(buffer), self.numbers(value), strict=True)
        changed = [(one, number) for one, number in pairs if number != Read(one, at)]
        new = self._computed(tuple([number for _, number in changed]))
        return [*self.lead, *(Store(one, at, number) for (one, _), number in zip(changed, new, strict=True))]

    def numbers(self, value: Scalar) -> StateNumbers:
        """The numbers of a value, in scalars without any aggregate."""
        match value:
            case Local() if "." in value.dtype:
                return self._locals(value)
            case Read(buffer=buffer, at=at) if "." in buffer.dtype:
                cell = tuple([self._scalar(one) for one in at])
                return tuple([Read(one, cell) for one in field_buffers(buffer)])
            case Call(op=op, args=args) if (monoid := OPS[op].monoid) is not None:
                left, right = (self._computed(self.numbers(arg)) for arg in args)
                return self._joined(monoid, left, right, fields(dtype_of(value)))
            case Call(op=op, args=args) if op in DECLARED and "." in dtype_of(value):
                return tuple([self._scalar(arg) for arg in args])
        return (self._scalar(value),)

    def _scalar(self, value: Scalar) -> Scalar:
        """A value of one number."""
        match value:
            case Call(op=op, args=(whole,)) if op in DECLARED:
                return self.numbers(whole)[int(op.removeprefix("item"))]
            case Call(op=op) if op in DECLARED:
                return self.numbers(value)[0]
        return with_children(value, tuple([self._scalar(one) for one in children(value)]))

    def _joined(self, monoid: Monoid, left: StateNumbers, right: StateNumbers, types: Sequence[str]) -> StateNumbers:
        """What a monoid makes of two states; parts that several of its numbers share are computed once."""
        joined = monoid.joined(left, right)
        uses = Counter(id(arg) for one in _calls(joined) for arg in one.args)
        uses.update(map(id, joined))
        known: dict[int, Scalar] = {}

        def call(one: Call, args: Sequence[Scalar]) -> Scalar:
            if id(one) not in known:
                made: Scalar = Call(one.op, tuple(args))
                known[id(one)] = self._variable(made, carrier(type_before(made))) if uses[id(one)] > 1 else made
            return known[id(one)]

        made = [computed(one, lambda leaf: leaf, call) for one in joined]
        return tuple([stored(one, kind) for one, kind in zip(made, types, strict=True)])

    def _computed(self, numbers: StateNumbers) -> StateNumbers:
        """StateNumbers that stay what they are whatever is set next."""
        return tuple([one if _is_plain(one) else self._variable(one, dtype_of(one)) for one in numbers])

    def _variable(self, value: Scalar, dtype: str) -> Local:
        local = Local(self.names.fresh("state"), dtype)
        self.lead.append(Let(local, stored(value, dtype)))
        return local

    def _locals(self, local: Local) -> tuple[Local, ...]:
        if local not in self.locals:
            kinds = enumerate(fields(local.dtype))
            self.locals[local] = tuple([Local(self.names.fresh(f"{local.name}_{at}"), kind) for at, kind in kinds])
        return self.locals[local]


def field_buffers(buffer: Buffer) -> tuple[Buffer, ...]:
    """The buffers of the numbers that a buffer has in each cell."""
    kinds = fields(buffer.dtype)
    if len(kinds) == 1:
        return (buffer,)
    return tuple([buffer.beside(Role.FIELD, f".{at}", dtype=kind) for at, kind in enumerate(kinds)])


def _is_plain(number: Scalar) -> bool:
    return isinstance(number, Cast) and isinstance(number.value, Num)


def _calls(values: Sequence[Scalar]) -> Iterator[Call]:
    """Every call in some values, once."""
    rest, seen = list(values), set[int]()
    while rest:
        one = rest.pop()
        if isinstance(one, Call) and id(one) not in seen:
            seen.add(id(one))
            yield one
            rest += one.args
