"""Text to a loop program: what `show` prints, and what people write in the same way.

    x: float32[4, 3]                       a buffer; those that the caller gives need not be said
    s: range(4)                            an index that is given when the program runs
    # a remark, up to the next one in its block
    for i in range(4):
        t: float32 = x[i, 0] * 0.5         a variable of the rest of the block
        x[i, s - 1] max= t

Sums of loops and whole numbers, `2*i + 1`, are one affine index; what stands in brackets is a value of its own.
Constants are typed as lowering types them; where that would be another type, it is written: `float64(0.5)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from weft.affine import Affine
from weft.errors import Span
from weft.loops.diagnose import NOTATION
from weft.loops.insert_casts import typed
from weft.loops.nodes import (
    DEEPEST,
    Blocks,
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
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
    Tile,
    Update,
)
from weft.loops.parse_annotations import parse_how, parse_tile
from weft.loops.show import INFIX, buffer_names, own_name
from weft.loops.walk import depth, perfect
from weft.notation import Mistake, Source, span_of, subtrees, tokens, word_of
from weft.notation.spelling import NUMBERS, name_in
from weft.notation.words import meant
from weft.ops import OPS, Call, Num, Scalar, exists
from weft.ops.dtypes import ELEMENT_TYPES, fields

if TYPE_CHECKING:
    from weft.notation import Token, Tree

#: Deeper nesting than this, of brackets in a line or of blocks, is refused, so that nobody runs out of stack.
MAX_DEPTH = 100
_LONGEST_NUMBER = 40
_SIGNS = {sign: op for op, sign in INFIX.items()}


def parse(text: str, buffers: Iterable[Buffer] = (), given: Iterable[str] = ()) -> Program:
    """The typed program that a text writes over buffers, those given and those it declares; WeftError if it is none."""
    reader = _LineReader(buffers, given)
    with Source(text).pointing():
        try:
            for line in text.split("\n"):
                reader.line(line)
                reader.start += len(line) + 1
            return typed(Program(reader.finished()))
        except Mistake as mistake:
            span = Span(mistake.span.start + reader.start, mistake.span.end + reader.start)
            raise Mistake(mistake.what, span, mistake.fix) from None


@dataclass(slots=True)
class _OpenBlock:
    """Statements of one indentation, the remark they are under, what names mean there, and what the block is to be."""

    whole: Callable[[tuple[Stmt, ...]], Stmt]
    meaning: dict[str, Affine | Local]
    indent: int = -1  # not known before its first line
    stmts: list[Stmt] = field(default_factory=list)
    remark: list[str] = field(default_factory=list)
    remarked: list[Stmt] = field(default_factory=list)

    def add(self, stmt: Stmt) -> None:
        (self.remarked if self.remark else self.stmts).append(stmt)

    def comment(self, text: str) -> None:
        if self.remarked:
            self.end_remark()
        self.remark.append(text)

    def end_remark(self) -> None:
        if self.remark:
            self.stmts.append(Remark("\n".join(self.remark), tuple(self.remarked)))
        self.remark, self.remarked = [], []

    def finished(self) -> Stmt:
        self.end_remark()
        return self.whole(tuple(self.stmts))


class _LineReader:
    """Reads lines one after another; the blocks that are open lie on a stack. Mistakes are told by their place in the
    line, which starts at `start`."""

    def __init__(self, buffers: Iterable[Buffer], given: Iterable[str]) -> None:
        named = buffer_names(buffers)
        self.buffers = {name: buffer for buffer, name in named.items()}
        self.next_id = 1 + max((buffer.id for buffer in named), default=-1)
        self.start = 0
        self.blocks = [_OpenBlock(partial(Remark, ""), {name: Affine.of(name) for name in given}, indent=0)]
        self.statements: Mapping[str, Callable[[Tree], None]] = {
            "buffer": self._buffer,
            "given": self._given,
            "for": self._for,
            "if": self._if,
            "product": self._product,
            "fill": self._fill,
            "store": lambda tree: self._add(Store(*self._target(tree), self._value(subtrees(tree)[1]))),
            "update": self._update,
            "let": self._let,
            "set": self._set,
            "nothing": lambda tree: None,
        }

    # Lines and blocks

    def line(self, line: str) -> None:
        said = line.lstrip(" ")
        if not said.strip():
            return
        indent = len(line) - len(said)
        self._settle(indent, Span(indent, len(line.rstrip())))
        if said.startswith("#"):
            self.blocks[-1].comment(said.rstrip()[1:].removeprefix(" "))
            return
        _check_brackets(line)
        (tree,) = subtrees(NOTATION.tree(line))
        self.statements[tree.data](tree)

    def finished(self) -> tuple[Stmt, ...]:
        self._settle(0, Span(-1, 0))
        self.blocks[0].end_remark()
        return tuple(self.blocks[0].stmts)

    def _settle(self, indent: int, span: Span) -> None:
        """Open or close blocks, so that a line with this indentation belongs to the innermost."""
        block = self.blocks[-1]
        if block.indent < 0:
            if indent <= self.blocks[-2].indent:
                raise Mistake("a block needs a line", span, "indent what belongs to it, or write `pass` there")
            block.indent = indent
        while indent < self.blocks[-1].indent:
            done = self.blocks.pop().finished()
            self.blocks[-1].add(done)
        if indent != self.blocks[-1].indent:
            fits = ", ".join(str(one.indent) for one in self.blocks)
            raise Mistake("the indentation is that of no block", span, f"the blocks here are indented by {fits}")

    def _open(self, tree: Tree, whole: Callable[[tuple[Stmt, ...]], Stmt], **meaning: Affine) -> None:
        if len(self.blocks) > MAX_DEPTH:
            raise Mistake("blocks are nested too deeply", span_of(tree), "write fewer loops and tests in one another")
        self.blocks.append(_OpenBlock(whole, {**self.blocks[-1].meaning, **meaning}))

    def _add(self, stmt: Stmt) -> None:
        self.blocks[-1].add(stmt)

    # Declarations

    def _buffer(self, tree: Tree) -> None:
        name = name_in(word_of(subtrees(tree)[0]))
        *private, dtype = (one for one in tokens(tree) if one.type in ("PRIVATE", "NAME"))
        sizes = [one for one in tokens(tree) if one.type == "NUMBER"]
        if name in self.buffers or len(self.blocks) > 1:
            what = f"`{name}` is declared twice" if name in self.buffers else "a buffer is declared inside a block"
            raise Mistake(what, span_of(tree), "declare every buffer once, before the program")
        role = Role.PRIVATE if private else Role.TENSOR
        self.buffers[name] = Buffer(self.next_id, name, tuple(map(_whole, sizes)), _dtype(dtype), role)
        self.next_id += 1

    def _given(self, tree: Tree) -> None:
        name = name_in(word_of(subtrees(tree)[0]))
        _whole(tokens(tree)[-1])
        self.blocks[-1].meaning[name] = Affine.of(name)

    # Statements

    def _for(self, tree: Tree) -> None:
        name, (_, number, *said) = name_in(word_of(subtrees(tree)[0])), tokens(tree)
        size, how = _whole(number), tuple(one for token in said for one in parse_how(token))
        if isinstance(self.blocks[-1].meaning.get(name), Affine):
            fix = "give the loop another name"
            raise Mistake(f"`{name}` is an index here already", span_of(subtrees(tree)[0]), fix)
        self._open(tree, lambda body: For(name, size, body, how), **{name: Affine.of(name)})

    def _if(self, tree: Tree) -> None:
        tests = tuple(map(self._inside, subtrees(tree)))
        self._open(tree, lambda body: If(tests, body))

    def _inside(self, tree: Tree) -> Inside:
        (index,), (zero, least, most, size) = subtrees(tree), tokens(tree)
        if (zero, least, most) != ("0", "<=", "<"):
            raise Mistake("a test asks whether an index is inside an axis", span_of(tree), "write `0 <= i < n`")
        return Inside(self._index(index), _whole(size))

    def _product(self, tree: Tree) -> None:
        said = {str(name): tuple(map(str, loops)) for name, *loops in map(tokens, subtrees(tree))}
        if not said.keys() <= {"left", "right", "sums"}:
            fix = "write `product of left i; right j; sums k:`"
            raise Mistake("a product has loops on its left, on its right, and sums", span_of(tree), fix)
        left, right, sums = (said.get(name, ()) for name in ("left", "right", "sums"))
        tile = next(map(parse_tile, tokens(tree)), None)
        start, span = self.start, span_of(tree)

        def whole(body: tuple[Stmt, ...]) -> Stmt:
            _, inner = perfect(body, len(left) + len(right))
            if not inner or not isinstance(inner[0], Let):
                here = Span(span.start + start - self.start, span.end + start - self.start)
                fix = "write its loops, and first inside them the variable that it adds to"
                raise Mistake("this is no product", here, fix)
            return Staged(Product(left, right, sums, inner[0].local.name, *_placed(tile)), body)

        self._open(tree, whole)

    def _fill(self, tree: Tree) -> None:
        name, number = subtrees(tree)
        value = self._value(number)
        if not isinstance(value, Num):
            raise Mistake("a buffer is filled with a number", span_of(number), "write loops around an assignment")
        self._add(Fill(self._of(name), value.value))

    def _update(self, tree: Tree) -> None:
        buffer, at = self._target(tree)
        (sign,) = tokens(tree)
        op = _SIGNS.get(sign[:-1], str(sign[:-1]))
        if not exists(op) or OPS[op].arity != 2:
            fix = meant(op, (one.name for one in OPS.values() if one.arity == 2), "write `+=`, or `max=`")
            raise Mistake(f"nothing accumulates with `{op}`", span_of(sign), fix)
        self._add(Update(buffer, at, op, self._value(subtrees(tree)[1])))

    def _let(self, tree: Tree) -> None:
        name, value = subtrees(tree)
        local = Local(own_name(name_in(word_of(name)), self.buffers), _dtype(tokens(tree)[0]))
        self._add(Let(local, self._value(value)))
        self.blocks[-1].meaning[local.name] = local

    def _set(self, tree: Tree) -> None:
        name, value = subtrees(tree)
        local = self.blocks[-1].meaning.get(own_name(name_in(word_of(name)), self.buffers))
        if not isinstance(local, Local):
            fix = f"write `{word_of(name)}: float32 = …` where it begins"
            raise Mistake(f"`{word_of(name)}` is not a variable here", span_of(name), fix)
        self._add(Set(local, self._value(value)))

    def _target(self, tree: Tree) -> tuple[Buffer, tuple[Scalar, ...]]:
        read = self._read(subtrees(tree)[0])
        return read.buffer, read.at

    # Scalars

    def _value(self, tree: Tree) -> Scalar:
        found = self._scalar(tree)
        if depth(found) > DEEPEST:
            raise Mistake(f"a value is nested deeper than {DEEPEST} levels", span_of(tree), "give a part of it a name")
        return found

    def _scalar(self, tree: Tree) -> Scalar:
        match tree.data:
            case "number":
                return Num(_number(tree))
            case "name":
                return self._name(tree)
            case "read":
                return self._read(tree)
            case "call":
                return self._call(tree)
            case "bracket":
                return self._scalar(subtrees(tree)[0])
        found = self._affine(tree)
        if found is not None and found.terms:
            return found
        value, *others = map(self._scalar, subtrees(tree))
        if tree.data == "factor":
            return _negative(value, len(tokens(tree)))
        for sign, other in zip(tokens(tree), others, strict=True):
            value = Call(_SIGNS[sign], (value, other))
        return value

    def _index(self, tree: Tree) -> Scalar:
        """A subscript: affine where it can be."""
        found = self._affine(tree)
        return self._value(tree) if found is None else found

    def _affine(self, tree: Tree) -> Affine | None:
        """A sum of loops and whole numbers, where that is what stands there without brackets."""
        if tree.data == "number":
            number = _number(tree)
            return Affine((), number) if type(number) is int else None
        if tree.data == "name":
            found = self.blocks[-1].meaning.get(name_in(word_of(tree)))
            return found if isinstance(found, Affine) else None
        if tree.data not in ("sum", "term", "factor"):
            return None
        parts = [found for one in subtrees(tree) if (found := self._affine(one)) is not None]
        if len(parts) < len(subtrees(tree)):
            return None
        if tree.data == "factor":
            return -parts[0] if len(tokens(tree)) % 2 else parts[0]
        if tree.data == "term":
            single = tokens(tree) == ["*"] and not parts[0].terms
            return parts[1] * parts[0].offset if single else None
        found, *others = parts
        for sign, other in zip(tokens(tree), others, strict=True):
            found = found + other if sign == "+" else found - other
        return found

    def _name(self, tree: Tree) -> Scalar:
        name, word = name_in(word_of(tree)), word_of(tree)
        meaning = self.blocks[-1].meaning
        for known in (own_name(name, self.buffers), name):
            if known in meaning:
                return meaning[known]
        if word in NUMBERS:
            return Num(NUMBERS[word])
        if name in self.buffers:
            raise Mistake(f"`{name}` is a buffer", span_of(tree), f"read a cell of it: `{word}[…]`")
        fix = meant(name, meaning, "give it a value before, or declare an index: `s: range(4)`")
        raise Mistake(f"`{name}` is neither a loop around this nor a variable", span_of(tree), fix)

    def _of(self, tree: Tree) -> Buffer:
        name = name_in(word_of(tree))
        if name not in self.buffers:
            fix = meant(name, self.buffers, f"write `{word_of(tree)}: float32[4, 3]` before the program")
            raise Mistake(f"there is no buffer `{name}`", span_of(tree), fix)
        return self.buffers[name]

    def _read(self, tree: Tree) -> Read:
        name, *subscripts = subtrees(tree)
        buffer = self._of(name)
        if len(subscripts) != len(buffer.shape):
            what = f"`{buffer.name}` has {len(buffer.shape)} axes, and {len(subscripts)} subscripts stand here"
            raise Mistake(what, span_of(tree), "write one for each axis")
        return Read(buffer, tuple(map(self._index, subscripts)))

    def _call(self, tree: Tree) -> Scalar:
        (function,), args = tokens(tree), subtrees(tree)
        name = str(function)
        arity = OPS[name].arity if exists(name) else 1
        if not exists(name) and name not in ELEMENT_TYPES and name != "index":
            raise Mistake(f"there is no operation `{name}`", span_of(function), meant(name, (*OPS, *ELEMENT_TYPES)))
        if len(args) != arity:
            what = f"`{name}` takes {arity} operand{'s' if arity > 1 else ''}, not {len(args)}"
            raise Mistake(what, span_of(tree), "write as many as it takes")
        if name == "index":
            return self._index(args[0])
        values = tuple(map(self._scalar, args))
        return Call(name, values) if exists(name) else Cast(name, values[0])


def _check_brackets(line: str) -> None:
    open_ = 0
    for at, char in enumerate(line):
        open_ += (char in "([") - (char in ")]")
        if open_ > MAX_DEPTH:
            raise Mistake("the value is nested too deeply", Span(at, at + 1), "give a part of it a name")


def _negative(value: Scalar, times: int) -> Scalar:
    if isinstance(value, Num) and type(value.value) is not bool:
        return Num(-value.value) if times % 2 else value
    for _ in range(times):
        value = Call("neg", (value,))
    return value


def _number(tree: Tree) -> int | float:
    word = word_of(tree)
    if word.isdigit() and len(word) > _LONGEST_NUMBER:
        raise Mistake("a whole number is too long", span_of(tree), "write it as a real number: `1e50`")
    return int(word) if word.isdigit() else float(word)


def _whole(token: Token) -> int:
    if not token.isdigit() or len(token) > 18:
        raise Mistake("a size is a whole number below 10**18", span_of(token), "for example `range(4)`")
    return int(token)


def _dtype(token: Token) -> str:
    if not set(fields(token)) <= set(ELEMENT_TYPES):
        fix = meant(token, ELEMENT_TYPES, "use one of " + ", ".join(ELEMENT_TYPES))
        raise Mistake(f"there is no element type `{token}`", span_of(token), fix)
    return str(token)


def _placed(how: Tile | Blocks | None) -> tuple[Tile | None, Blocks | None]:
    """How a product runs, on a processor and on a GPU."""
    return (how if isinstance(how, Tile) else None), (how if isinstance(how, Blocks) else None)
