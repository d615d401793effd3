"""Trees of the grammar to nodes.

Here it is settled what each name stands for: the sizes and tensors of a definition are gathered before its statements
are built. What a grammar cannot say (there is such an element type, what the left side may be, numbers fit) is
collected as mistakes; whatever is wrong gets a stand-in, so that one mistake does not hide another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from weft.comprehension.builtins import BUILTINS, SCALAR_TYPES
from weft.comprehension.mistakes import counted, listed, meant
from weft.comprehension.nodes import (
    REDUCTIONS,
    UNWANTED,
    Apply,
    Between,
    Binary,
    BinaryOp,
    Cast,
    Choose,
    Comprehension,
    Definition,
    Dim,
    Exists,
    Expr,
    Ident,
    Index,
    Int,
    Invoke,
    Let,
    Local,
    Param,
    Read,
    Real,
    Result,
    Size,
    Statement,
    TensorType,
    Truth,
    Unary,
    UnaryOp,
    Where,
)
from weft.errors import Span
from weft.notation import Mistake, by_rule, span_of, subtrees, tokens, word_of

if TYPE_CHECKING:
    from weft.notation import Tree

#: Deeper nesting than this is refused, so that nobody runs out of stack.
MAX_DEPTH = 150
_TOO_LARGE = 2**63
_PRINTED_TYPES = listed(("float", "double", "half", "bfloat16", "int32", "uint8", "bool"))


def build(tree: Tree, mistakes: list[Mistake]) -> tuple[Definition, ...]:
    """The definitions of a text; what is wrong with them is added to the mistakes."""
    names = frozenset(_ident(subtrees(one)[0]).name for one in subtrees(tree))
    return tuple(_definition(one, names, mistakes) for one in subtrees(tree))


def _definition(tree: Tree, names: frozenset[str], mistakes: list[Mistake]) -> Definition:
    name, *rest = subtrees(tree)
    params = tuple(_param(one, mistakes) for one in rest if one.data == "param")
    results = tuple(_result(one, mistakes) for one in rest if one.data == "result")
    bodies = [one for one in rest if one.data in ("comprehension", "invoke")]
    tensors = {one.name.name for one in params} | {one.name.name for one in results}
    tensors |= {target.name for one in bodies for target in _targets(one)}
    sizes = {size for one in params for size in one.type.sizes}
    build = _Builder(frozenset(tensors), frozenset(sizes), names, mistakes)
    return Definition(_ident(name), params, results, tuple(map(build.statement, bodies)), span=span_of(tree))


def _targets(tree: Tree) -> list[Ident]:
    names = subtrees(subtrees(tree)[0])
    if tree.data != "invoke" and len(names) > 1:  # the others are subscripts
        return [_ident(names[0])]
    return [target for one in names if (target := _ident(one)).name != UNWANTED]


def _param(tree: Tree, mistakes: list[Mistake]) -> Param:
    *kinds, last = subtrees(tree)
    name = _ident(last)
    if not kinds:
        fix = f"say what it is: `float(N) {name}`"
        mistakes.append(Mistake(f"the parameter `{name}` has no type", name.span, fix))
    return Param(_type(kinds[0], mistakes) if kinds else TensorType("float32"), name, span=span_of(tree))


def _result(tree: Tree, mistakes: list[Mistake]) -> Result:
    *kinds, name = subtrees(tree)
    return Result(_ident(name), _type(kinds[0], mistakes) if kinds else None, span=span_of(tree))


def _type(tree: Tree, mistakes: list[Mistake]) -> TensorType:
    (token,) = tokens(tree)
    if token not in SCALAR_TYPES:
        fix = meant(token, SCALAR_TYPES, f"use one of {_PRINTED_TYPES}")
        mistakes.append(Mistake(f"there is no element type `{token}`", span_of(token), fix))
    sizes = tuple(_ident(one) if one.data == "name" else _size(one, mistakes) for one in subtrees(tree))
    return TensorType(SCALAR_TYPES.get(token, "float32"), sizes, span=span_of(tree))


def _size(tree: Tree, mistakes: list[Mistake]) -> Int:
    number = _number(tree, mistakes)
    if isinstance(number, Int):
        return number
    mistakes.append(Mistake("a size is a whole number", span_of(tree), "write a name or a whole number"))
    return Int(1, span=span_of(tree))


def _number(tree: Tree, mistakes: list[Mistake]) -> Int | Real:
    word, span = word_of(tree), span_of(tree)
    digits = word.lower()
    whole = digits.rstrip("ul")
    if digits[:2] == "0x":
        value = _power_of_two(digits.rstrip("fl")) if "p" in digits else _whole(whole[2:], 16)
    elif whole.isdigit():
        value = _whole(whole, 10)
    else:
        value = float(digits.rstrip("fl"))
    if value == math.inf or (isinstance(value, int) and value >= _TOO_LARGE):
        mistakes.append(Mistake(f"`{word[:40]}` is too large", span, "write a number below 2**63, or a real number"))
        return Int(0, span=span)
    return Int(value, span=span) if isinstance(value, int) else Real(value, span=span)


def _whole(digits: str, base: int) -> float:
    return int(digits, base) if len(digits.lstrip("0")) < 20 else _TOO_LARGE


def _power_of_two(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except OverflowError:
        return math.inf


@dataclass(slots=True)
class _Builder:
    """Builds the statements of one definition, whose names it knows."""

    tensors: frozenset[str]
    sizes: frozenset[str]
    functions: frozenset[str]
    mistakes: list[Mistake]
    values: frozenset[str] = frozenset()
    depth: int = 0

    def wrong(self, what: str, span: Span, fix: str) -> None:
        self.mistakes.append(Mistake(what, span, fix))

    # Statements

    def statement(self, tree: Tree) -> Statement:
        return self._invoke(tree) if tree.data == "invoke" else self._comprehension(tree)

    def _invoke(self, tree: Tree) -> Invoke:
        targets, function, args = subtrees(tree)
        given = tuple(map(self.expr, subtrees(args)))
        return Invoke(tuple(map(_ident, subtrees(targets))), _ident(function), given, span=span_of(tree))

    def _comprehension(self, tree: Tree) -> Statement:
        left, value, *_ = subtrees(tree)
        (sign,) = tokens(tree)
        after = by_rule(tree)
        clauses = subtrees(after["where"]) if "where" in after else []
        self.values = frozenset(_ident(subtrees(one)[0]).name for one in clauses if one.data == "let")
        target, *subscripts = subtrees(left)
        plain = sign == "=" and not subscripts and len(tree.children) == 3
        if plain and value.data == "call" and (called := self._call_of_definition(target, value, span_of(tree))):
            return called
        return Comprehension(
            _ident(target),
            tuple(map(self._on_the_left, subscripts)),
            REDUCTIONS.get(sign.rstrip("!")),
            sign.endswith("!"),
            self.expr(value),
            tuple(map(self._clause, clauses)),
            self._equivalent(after["equivalent"]) if "equivalent" in after else None,
            span=span_of(tree),
        )

    def _call_of_definition(self, target: Tree, value: Tree, span: Span) -> Invoke | None:
        function, *args = subtrees(value)
        name = _ident(function)
        builtin = name.name in BUILTINS or name.name in SCALAR_TYPES
        if name.name in self.tensors or (builtin and name.name not in self.functions):
            return None
        return Invoke((_ident(target),), name, tuple(map(self.expr, args)), span=span)

    def _equivalent(self, tree: Tree) -> Apply:
        function, *args = subtrees(subtrees(tree)[0])
        return Apply(word_of(function), tuple(map(self.expr, args)), span=span_of(subtrees(tree)[0]))

    def _on_the_left(self, tree: Tree) -> Expr:
        """What stands on the left side for an axis. A name is that of an index there."""
        return Index(word_of(tree), span=span_of(tree)) if tree.data == "name" else self.expr(tree)

    def _clause(self, tree: Tree) -> Where:
        parts = subtrees(tree)
        match tree.data:
            case "between":
                return Between(_ident(parts[0]), self.expr(parts[1]), self.expr(parts[2]), span=span_of(tree))
            case "exists":
                return Exists(self.expr(parts[0]), span=span_of(tree))
        return Let(_ident(parts[0]), self.expr(parts[1]), span=span_of(tree))

    # Expressions

    def expr(self, tree: Tree) -> Expr:
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                fix = "compute a part of it in a statement before: `t(i) = …`"
                raise Mistake(f"the expression is nested deeper than {MAX_DEPTH} levels", span_of(tree), fix)
            return EXPRESSIONS[tree.data](self, tree)
        finally:
            self.depth -= 1

    def _below(self, tree: Tree, levels: int) -> Expr:
        """An expression that many nodes below this one."""
        self.depth += levels
        try:
            return self.expr(tree)
        finally:
            self.depth -= levels

    def number(self, tree: Tree) -> Expr:
        return _number(tree, self.mistakes)

    def truth(self, tree: Tree) -> Expr:
        return Truth(word_of(tree) == "true", span=span_of(tree))

    def name(self, tree: Tree) -> Expr:
        name, span = word_of(tree), span_of(tree)
        if name in self.values:
            return Local(name, span=span)
        if name in self.tensors:
            return Read(name, (), span=span)
        return Size(name, span=span) if name in self.sizes else Index(name, span=span)

    def call(self, tree: Tree) -> Expr:
        function, *rest = subtrees(tree)
        name, args = word_of(function), tuple(map(self.expr, rest))
        if name in self.tensors:
            return Read(name, args, span=span_of(tree))
        if name not in SCALAR_TYPES:
            return Apply(name, args, span=span_of(tree))
        if len(args) != 1:
            fix = f"write `{name}(x)`"
            self.wrong(f"`{name}` converts one value, not {counted(len(args), 'value')}", span_of(tree), fix)
        return Cast(SCALAR_TYPES[name], args[0] if args else Int(0, span=span_of(tree)), span=span_of(tree))

    def dim(self, tree: Tree) -> Expr:
        (tensor,), (select,) = subtrees(tree), tokens(tree)
        digits = select.lstrip(". \t\r\n\f").lstrip("0") or "0"
        return Dim(word_of(tensor), int(digits) if len(digits) < 10 else 10**9, span=span_of(tree))

    def signed(self, tree: Tree) -> Expr:
        (last,), signs = subtrees(tree), tokens(tree)
        value = self._below(last, len(signs) - 1)
        for sign in reversed(signs):
            value = Unary(cast(UnaryOp, str(sign)), value, span=Span(span_of(sign).start, tree.meta.end_pos))
        return value

    def chain(self, tree: Tree) -> Expr:
        """Operands and operators of one level, from the left."""
        (first, *rest), signs = subtrees(tree), tokens(tree)
        value = self._below(first, len(rest) - 1)
        for sign, right in zip(signs, rest, strict=True):
            span = Span(tree.meta.start_pos, right.meta.end_pos)
            value = Binary(cast(BinaryOp, str(sign)), value, self.expr(right), span=span)
        return value

    def choose(self, tree: Tree) -> Expr:
        condition, yes, no = map(self.expr, subtrees(tree))
        return Choose(condition, yes, no, span=span_of(tree))


EXPRESSIONS: Mapping[str, Callable[[_Builder, Tree], Expr]] = {
    "number": _Builder.number,
    "truth": _Builder.truth,
    "name": _Builder.name,
    "call": _Builder.call,
    "dim": _Builder.dim,
    "signed": _Builder.signed,
    "choose": _Builder.choose,
    **dict.fromkeys(("either", "both", "compared", "sum", "product"), _Builder.chain),
}


# Trees


def _ident(tree: Tree) -> Ident:
    return Ident(word_of(tree), span=span_of(tree))
