"""Prints the loop language, so that `parse` reads back what was printed.

A constant is printed without its type where typing the program would give it that type. Where a variable and a buffer
have one name, the variable is printed with `_` behind it; where two buffers have, the second with a number. What is
under a remark is not set off: it lasts to the next remark of its block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import or_

from weft.affine import Affine
from weft.loops.insert_casts import typed
from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Let,
    Local,
    Product,
    Program,
    Read,
    Remark,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.loops.walk import buffers_of, children, parts, with_body, with_children, with_parts
from weft.naming import FreshNames
from weft.notation.spelling import spelled_name, spelled_number
from weft.ops import OPS, Call, Num, Scalar

#: Operations written between their operands.
INFIX: Mapping[str, str] = {op: OPS[op].text for op in ("add", "sub", "mul", "div", "lt", "le")}
_COMPOUND = ("add", "sub", "mul", "div")
_KEYWORDS = frozenset(("for", "if", "product", "pass"))


def show(program: Program, names: Mapping[Buffer, str] | None = None) -> str:
    """The text of a program, buffers by these names if they are given."""
    return "\n".join(_Printer(names or buffer_names(buffers_of(program))).block(program.body, ""))


def declarations(names: Mapping[Buffer, str]) -> list[str]:
    """The lines that declare buffers."""
    return [f"{_spelled(name)}: {_memory(one)}" for one, name in names.items()]


def _memory(buffer: Buffer) -> str:
    private = "private " if buffer.role is Role.PRIVATE else ""
    return f"{private}{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def declared(program: Program, given: Mapping[str, int] | None = None) -> str:
    """The text of a program below its declarations, which says all that there is to say of it."""
    names = buffer_names(buffers_of(program))
    lines = [*declarations(names), *(f"{name}: range({size})" for name, size in (given or {}).items())]
    return "\n".join([*lines, *_Printer(names).block(program.body, "")])


def show_scalar(scalar: Scalar) -> str:
    """A scalar as it reads in a program, whatever the types of its constants."""
    return _Printer().scalar(_untyped(scalar), index=True)


def show_product(what: Product) -> str:
    """What a product is, and how it runs."""
    groups = {"left": what.left, "right": what.right, "sums": what.sums}
    loops = "; ".join(f"{name} {', '.join(own)}" for name, own in groups.items() if own)
    runs = what.tile or what.blocks
    return f"product of {loops}{f' {runs}' if runs else ''}"


def buffer_names(buffers: Iterable[Buffer]) -> dict[Buffer, str]:
    """What some buffers are called in a text: no two by one name."""
    names = FreshNames()
    return {buffer: names.fresh(buffer.name) for buffer in buffers}


def local_name(name: str, buffers: Collection[str]) -> str:
    """What a variable is called in a text with such buffers."""
    return f"{name}_" if name.rstrip("_") in buffers else name


def own_name(word: str, buffers: Collection[str]) -> str:
    """The variable that is called so in a text: the inverse of `local_name`."""
    return word.removesuffix("_") if word.rstrip("_") in buffers else word


@dataclass(frozen=True, slots=True)
class _Printer:
    names: Mapping[Buffer, str] = field(default_factory=dict)

    def block(self, body: Iterable[Stmt], indent: str) -> Iterator[str]:
        for stmt in body:
            if isinstance(stmt, Remark):
                yield from (f"{indent}# {line}".rstrip() for line in stmt.text.split("\n"))
                yield from self.block(stmt.body, indent)
                continue
            yield indent + self._line(_without_known_types(stmt))
            if isinstance(stmt, For | If | Staged):
                inner = f"{indent}    "
                yield from self.block(stmt.body, inner) if stmt.body else [f"{inner}pass"]

    def _line(self, stmt: Stmt) -> str:
        """A statement, or the line that begins it."""
        match stmt:
            case For(loop=loop, size=size, how=how):
                return f"for {loop} in range({size}){' ' if how else ''}{', '.join(map(str, how))}:"
            case If(tests=tests):
                conditions = (f"0 <= {self.scalar(test.index, index=True)} < {test.size}" for test in tests)
                return f"if {' and '.join(conditions)}:"
            case Store(buffer=buffer, at=at, value=value):
                return f"{self.scalar(Read(buffer, at))} = {self._top(value)}"
            case Update(buffer=buffer, at=at, op=op, value=value):
                sign = INFIX[op] if op in _COMPOUND else op
                return f"{self.scalar(Read(buffer, at))} {sign}= {self._top(value)}"
            case Fill(buffer=buffer, value=number):
                return f"{self._buffer(buffer)}[...] = {spelled_number(number)}"
            case Let(local=local, value=value):
                return f"{self.scalar(local)}: {local.dtype} = {self._top(value)}"
            case Set(local=local, value=value):
                return f"{self.scalar(local)} = {self._top(value)}"
            case Staged(what=what):
                return f"{show_product(what)}:"
        raise AssertionError(f"not a statement of the loop language: {stmt!r}")

    def scalar(self, scalar: Scalar, index: bool = False) -> str:
        """A scalar inside of others; where an index is wanted, a whole number is one."""
        match scalar:
            case Num(value=value):
                return spelled_number(value)
            case Affine():
                return str(scalar) if index or scalar.terms else f"index({scalar})"
            case Cast(dtype=dtype, value=value):
                return f"{dtype}({self._top(value)})"
            case Local(name=name):
                return _spelled(local_name(name, self.names.values()))
            case Read(buffer=buffer, at=at):
                return f"{self._buffer(buffer)}[{', '.join(self.scalar(one, index=True) for one in at)}]"
            case Call(op=op, args=args):
                if op not in INFIX or _looks_affine(scalar):
                    return f"{op}({', '.join(map(self.scalar, args))})"
                left, right = (f"({self.scalar(one)})" if _is_apart(op, one) else self.scalar(one) for one in args)
                return f"({left} {INFIX[op]} {right})"
        raise AssertionError(f"not a scalar of the loop language: {scalar!r}")

    def _top(self, value: Scalar) -> str:
        """A scalar without the parentheses that only nesting needs."""
        text = self.scalar(value)
        return text[1:-1] if isinstance(value, Call) and text.startswith("(") else text

    def _buffer(self, buffer: Buffer) -> str:
        return _spelled(self.names.get(buffer, buffer.name))


def _spelled(name: str) -> str:
    return f"`{name}`" if name in _KEYWORDS else spelled_name(name)


def _is_apart(op: str, operand: Scalar) -> bool:
    """Would an operand be torn apart without parentheses around it?"""
    return isinstance(operand, Affine) and (" " in str(operand) or ("*" in str(operand) and op in ("mul", "div")))


def _looks_affine(call: Call) -> bool:
    """Would an operation read as an affine index, written between its operands?"""
    if call.op not in ("add", "sub", "mul") or any(_is_apart(call.op, one) for one in call.args):
        return False
    indices = [isinstance(one, Affine) for one in call.args]
    whole = [isinstance(one, Num) and type(one.value) is int for one in call.args]
    return any(indices) and all(map(or_, indices, whole)) and (call.op != "mul" or whole[0])


# Constants


def _without_known_types(stmt: Stmt) -> Stmt:
    """A statement without the types of its constants, if typing it gives them back; else as it is."""
    if not (own := parts(stmt)):
        return stmt
    indices = own if isinstance(stmt, If) else own[: len(own) - 1]
    values = own[len(indices) :]
    alone = with_body(stmt, ())
    plain = (one if _is_constant(one) else _untyped(one) for one in indices)
    bare = with_parts(alone, (*plain, *map(_untyped, values)))
    return bare if typed(Program((bare,))).body == (alone,) else stmt


def _is_constant(scalar: Scalar) -> bool:
    return isinstance(scalar, Cast) and isinstance(scalar.value, Num | Affine)


def _untyped(scalar: Scalar) -> Scalar:
    """A scalar without the types of its constants; one that is a subscript keeps its own."""
    if isinstance(scalar, Cast) and _is_constant(scalar):
        return scalar.value
    keep = isinstance(scalar, Read)
    return with_children(
        scalar, tuple(one if keep and _is_constant(one) else _untyped(one) for one in children(scalar))
    )
