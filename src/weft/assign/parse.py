"""Text of the code notation to the statements it writes (syntax.py).

The grammar (grammar.lark) knows no operators; they are looked up in the table of operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from weft.assign.diagnose import NOTATION
from weft.assign.syntax import (
    Assign,
    At,
    Bracket,
    EinsumCall,
    FunctionCall,
    Infix,
    Lift,
    LoopBlock,
    Name,
    NumberLiteral,
    Quoted,
    RemarkBlock,
    Right,
    Sign,
    Slots,
    Statement,
    Value,
    depth_of,
    names_in,
)
from weft.errors import Span
from weft.notation import Mistake, Source, span_of, subtrees, tokens, word_of
from weft.notation.spelling import NUMBERS, name_in, unescaped
from weft.ops import OPS, monoid_row
from weft.shape.nodes import Dim

if TYPE_CHECKING:
    from weft.notation import Token, Tree

#: Deeper nesting than this is refused, so that nobody runs out of stack.
MAX_DEPTH = 100
_MAX_SLOT = 99_999


def parse(text: str) -> tuple[Statement, ...]:
    """The statements `text` writes; WeftError when it writes none."""
    with Source(text).pointing():
        _check_brackets(text)
        return _statements(subtrees(NOTATION.tree(text)))


_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|[()]', re.DOTALL)


def _check_brackets(text: str) -> None:
    depth = 0
    for found in _QUOTED.finditer(text):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth > MAX_DEPTH:
            raise _too_deep(Span(*found.span()))


def _too_deep(span: Span) -> Mistake:
    return Mistake("the code is nested too deeply", span, 'give a part of it a name: `"part" =: …`')


# Statements


def _statements(trees: Sequence[Tree]) -> tuple[Statement, ...]:
    kinds: Mapping[str, Callable[[Tree], Statement]] = {"remark": _remark, "loop": _loop, "assign": _assign}
    return tuple(kinds[str(tree.data)](tree) for tree in trees)


def _assign(tree: Tree) -> Assign:
    *lets, target, right = subtrees(tree)
    (sign,) = tokens(tree)
    return Assign(_target(target), _sign(sign), _right(right), span_of(tree), _lets(lets))


def _lets(trees: Sequence[Tree]) -> dict[str, Value]:
    """The parts of a statement that have names; each may mention those before it."""
    found: dict[str, Value] = {}
    names = [_name(one) for tree in trees for one in subtrees(tree) if one.data == "target"]
    later = {name.text for name in names}
    for name, tree in zip(names, trees, strict=True):
        sign = tree.children[2]
        value = _chain(subtrees(tree)[1])
        if sign != "=" or name.text in found:
            what = f"`{name.text}` is said twice" if sign == "=" else f"a part is said with `=`, not `{sign}`"
            raise Mistake(what, name.span, "write `~let part = …;` before the statement it is part of")
        if early := [one for one in names_in(value) if one in later]:
            raise Mistake(
                f"`{early[0]}` is not said before `{name.text}`", value.span, "say it first, under a new name"
            )
        later.discard(name.text)
        found[name.text] = value
    return found


def _target(tree: Tree) -> Name:
    if tree.data == "target":
        return _name(tree)
    if tree.data == "declared":
        text, said = unescaped(word_of(tree)[1:-1]), {}
    else:
        name, *traits = subtrees(tree)
        text, said = _name(name).text, _traits(traits)
    if not text.strip():
        raise Mistake("a node needs a name", span_of(tree), 'write it between the quotes: `"delta" =: …`')
    sizes = {row: tuple(map(_size, subtrees(said[row]))) for row in "bio" if row in said}
    init = _first(said["init"]) if "init" in said else None
    return Name(text, span_of(tree), declares=True, sizes=sizes, scalar="scalar" in said, init=init)


def _traits(trees: Sequence[Tree]) -> dict[str, Tree]:
    """What braces say of a node: the sizes of its rows, its first value, that it is a scalar."""
    said: dict[str, Tree] = {}
    for tree in trees:
        kind = word_of(tree)
        if kind not in (("b", "i", "o", "init") if tree.data == "row" else ("scalar",)) or kind in said:
            what = f"`{kind}` is given twice" if kind in said else f"a node has no row `{kind}`"
            fix = "its rows are b (batch), i (input) and o (output); `scalar` makes it one number, `init = 0.5` sets it"
            raise Mistake(what, span_of(tree), fix)
        said[kind] = tree
    return said


def _first(tree: Tree) -> float:
    """The number that a node starts at."""
    word = "".join(str(part) for part in tree.scan_values(lambda _: True) if part != "init")
    try:
        return float(word)
    except ValueError:
        raise Mistake("a node starts at a number", span_of(tree), "for example `init = 0.5`") from None


def _size(tree: Tree) -> Dim:
    number = str(tree.children[-1])
    if tree.data != "size" or not number.isdigit() or len(number) > 18 or not int(number):
        raise Mistake("a size is a whole number from 1 on", span_of(tree), "for example `o = [3; 4]`")
    return Dim(int(number), *(_name(basis).text for basis in subtrees(tree)))


def _sign(token: Token) -> Sign:
    span = span_of(token)
    reset, op = token.startswith("=:"), token.removeprefix("=").removeprefix(":")
    if not reset and not op:
        raise Mistake("`=` alone assigns nothing", span, "write `=:` to overwrite, `=+` to add, `=:+` to sum afresh")
    name = _accumulating(op)
    if op and not name:
        fix = _spaced(op) or "accumulate with one of " + " ".join(f"`{one}`" for one in _ACCUMULATE)
        raise Mistake(f"`{token}` is no assignment: there is no operation `{op}`", span, fix)
    if name and not reset and (monoid := OPS[name].monoid) and not monoid.plain:
        what = f"`{token}` cannot go on from a result, of which the states of `{name}` are not known"
        raise Mistake(what, span, f"start afresh: `=:{{{name}}}`")
    if name and reset and OPS[name].begins is None and name != "arg2":
        fix = f"write `={op}` to go on from the old value, or a space after `=:`"
        raise Mistake(f"`{token}` has nothing to start from", span, fix)
    return Sign(reset, name, span)


#: What follows the `=` of an assignment, and the operation it accumulates with.
_ACCUMULATE: Mapping[str, str] = {**{op.text: op.name for op in OPS.values() if op.infix}, "?/": "relu_gate"}


def _accumulating(text: str) -> str:
    """The operation that an assignment accumulates with, a monoid in braces; none if there is none of that name."""
    found = monoid_row(text.strip("{}")) if text.startswith("{") else None
    return found.name if found else _ACCUMULATE.get(text, "")


def _spaced(op: str) -> str:
    """How to write an operator that ran together with a sign after it."""
    heads = [head for head in (op[:-1], op[:-2]) if head in INFIX]
    return f"put a space between `{heads[0]}` and `{op[len(heads[0]) :]}`" if heads else ""


def _remark(tree: Tree) -> RemarkBlock:
    trees = subtrees(tree)
    parts = [one for one in trees if one.data in ("string", "name")]
    body = _statements(trees[len(parts) :])
    return RemarkBlock(
        tuple(_quoted(one) if one.data == "string" else _name(one) for one in parts), body, span_of(tree)
    )


def _loop(tree: Tree) -> LoopBlock:
    kind, name, said, size, *more = tokens(tree)
    if (kind, said, *more[1:]) != ("~for", "~range") or more not in ([], ["~reverse"]):
        raise Mistake("a loop says its index and its size", span_of(tree), 'write ~for:"t" ~range:3 (…)')
    if not unescaped(name[1:-1]).isidentifier() or not size.isdigit() or len(size) > 18:
        raise Mistake("a loop has a name and a whole number of iterations", span_of(name), 'write ~for:"t" ~range:3')
    return LoopBlock(
        Quoted(unescaped(name[1:-1]), span_of(name)),
        int(size),
        bool(more),
        _statements(subtrees(tree)),
        span_of(tree),
    )


# The right side


def _right(tree: Tree) -> Right:
    chain, *options = subtrees(tree)
    given: dict[str, Quoted] = {}
    of: Name | None = None
    at: list[Name] = []
    for option in options:
        name, *texts = tokens(option)
        if name == "~at" and not texts:
            at += map(_name, subtrees(option))
            continue
        if name not in _OPTIONS or name in given:
            what = f"`{name}` is given twice" if name in given else f"there is no option `{name}`"
            *others, last = (f'{one}:"…"' for one in _OPTIONS)
            raise Mistake(what, span_of(option), f"the options are {', '.join(others)} and {last}")
        for target in subtrees(option):
            of = _name(target)
            if name != "~logic":
                raise Mistake(f"`{name}` takes a text", of.span, f'write {name}:"{of.text}"')
        given[str(name)] = Quoted("".join(unescaped(text[1:-1]) for text in texts), span_of(option))
    slots, sizes = given.get("~slots"), given.get("~sizes")
    return Right(
        _chain(chain),
        of or given.get("~logic"),
        _slots(slots) if slots else None,
        _sizes(sizes) if sizes else {},
        given.get("~type"),
        span_of(tree),
        given.get("~at_least"),
        tuple(at),
        given.get("~outside"),
    )


_OPTIONS = ("~logic", "~slots", "~sizes", "~type", "~at_least", "~outside")

_SLOTS = re.compile(r"\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)=>\s*(\d+)\s*", re.ASCII)


def _slots(quoted: Quoted) -> Slots:
    found = _SLOTS.fullmatch(quoted.text)
    if found is None:
        what = "the slots are the numbers of the operands' slots, then `=>` and that of the left side"
        raise Mistake(what, quoted.span, 'for example ~slots:"0,2=>1"')
    numbers = [number.strip() for number in (*found[1].split(","), found[2])]
    if max(map(len, numbers)) > len(str(_MAX_SLOT)):
        raise Mistake(f"slots are numbered from 0 to {_MAX_SLOT}", quoted.span)
    *operands, lhs = (int(number) for number in numbers if number)
    return Slots(tuple(operands), lhs, quoted.span)


_BASIS = r"[^\W\d]\w*(?:\.\w+)*|`(?:\\.|[^`\\])*`"
_LABEL_SIZE = re.compile(rf"\s*(\w+)\s*=\s*(?:({_BASIS})\s*=\s*)?([0-9]{{1,18}})\s*(?:,|$)", re.DOTALL)


def _sizes(quoted: Quoted) -> Mapping[str, Dim]:
    """The sizes of labels, perhaps with a basis: `k=3, c=rgb=3`."""
    sizes: dict[str, Dim] = {}
    at = 0
    while at < len(quoted.text) or not sizes:
        found = _LABEL_SIZE.match(quoted.text, at)
        if found is None or found[1] in sizes:
            raise Mistake("sizes are labels with numbers", quoted.span, 'for example ~sizes:"a=2, b=3, c=rgb=3"')
        basis = name_in(found[2]) if found[2] else None
        sizes[found[1]] = Dim(int(found[3]), basis)
        at = found.end()
    return sizes


# Values

#: How an operator is written inside an expression, besides the table's own spelling: `*` is compose there.
POINTWISE: Mapping[str, str] = {"*.": "mul", "/.": "div", "**.": "pow"}
INFIX: Mapping[str, str] = {**{op.text: op.name for op in OPS.values() if op.infix}, **POINTWISE, "@|": "slice"}
PREFIX: Mapping[str, str] = {
    "-": "neg",
    **{op.text: op.name for op in OPS.values() if op.arity == 1 and not op.text.isidentifier()},
}
#: Sums of products by a spec: how many tensors each takes.
CONTRACTIONS: Mapping[str, int] = {"+*": 2, "*+": 2, "++": 1}


def _level(op: str) -> int:
    """How tightly an infix operator binds, by its first signs."""
    if op in ("||", "&&"):
        return 0 if op == "||" else 1
    if op == "@|":
        return 7
    if op.startswith("**"):
        return 6
    return next(level for level, signs in ((2, "=<>|&"), (3, "@^"), (4, "+-"), (5, "*/%")) if op[0] in signs)


def _chain(tree: Tree) -> Value:
    """A flat chain of operands and operators, as a tree of what binds how tightly."""
    values: list[Value] = []
    waiting: list[Token] = []

    def settle(level: int) -> None:
        while waiting and _level(waiting[-1]) >= level:
            op, right, left = waiting.pop(), values.pop(), values.pop()
            values.append(_infix(op, left, right))

    for child in tree.children:
        if isinstance(child, str):
            _check_known(child, INFIX)
            settle(_level(child) + (1 if child.startswith("**") else 0))
            waiting.append(child)
        elif child.data == "contraction":
            settle(_level("*"))
            values.append(_contraction(child, values.pop()))
        else:
            values.append(_value(child))
    settle(0)
    (value,) = values
    if depth_of(value) > MAX_DEPTH:
        raise _too_deep(value.span)
    return value


def _infix(op: Token, left: Value, right: Value) -> Value:
    span = Span(left.span.start, right.span.end)
    if op != "@|":
        return Infix(str(op), left, right, span)
    if not isinstance(right, Name | NumberLiteral):
        raise Mistake("a slice is taken at a static index or at a number", right.span, "write `x @| i`")
    return At(left, right, span)


def _contraction(tree: Tree, first: Value) -> EinsumCall:
    op, spec = tokens(tree)
    _check_known(op, CONTRACTIONS, "before a spec ")
    args = (first, *map(_value, subtrees(tree)))
    span = Span(first.span.start, tree.meta.end_pos)
    if len(args) != CONTRACTIONS[op]:
        what = f"`{op}` takes {'one tensor' if CONTRACTIONS[op] == 1 else 'two tensors'}, not {len(args)}"
        raise Mistake(what, span, 'write `a ++ "ij=>j"` or `a +* "ij;jk=>ik" b`')
    return EinsumCall(Quoted(unescaped(spec[1:-1]), span_of(spec)), args, span)


def _check_known(op: Token, known: Mapping[str, object], where: str = "") -> None:
    if op not in known:
        fix = _spaced(op) or "use one of " + " ".join(f"`{one}`" for one in known)
        raise Mistake(f"there is no operator `{op}` {where}".rstrip(), span_of(op), fix)


def _value(tree: Tree) -> Value:
    return VALUES[tree.data](tree)


def _number(tree: Tree) -> NumberLiteral:
    word = word_of(tree)
    return NumberLiteral(int(word) if word.isdigit() and len(word) < 300 else float(word), span_of(tree))


def _name(tree: Tree) -> Name:
    return Name(name_in(word_of(tree)), span_of(tree))


def _plain(tree: Tree) -> NumberLiteral | Name:
    """A name, unless it is a word for a number."""
    if tree.data == "number":
        return _number(tree)
    word = word_of(tree)
    return NumberLiteral(NUMBERS[word], span_of(tree)) if word in NUMBERS else _name(tree)


def _lift(tree: Tree) -> Lift:
    return Lift(_plain(subtrees(tree)[0]), span_of(tree))


def _apply(tree: Tree) -> FunctionCall:
    return FunctionCall(word_of(tree), tuple(_chain(one) for one in subtrees(tree)), span_of(tree))


def _curried(tree: Tree) -> FunctionCall:
    """A function with its operands side by side: `max a b`."""
    head, *others = subtrees(tree)
    if not names_operation(word_of(head)):
        raise _side_by_side(head, others[0])
    if others[0].data == "tuple":
        return FunctionCall(word_of(head), tuple(map(_chain, subtrees(others[0]))), span_of(tree))
    return FunctionCall(word_of(head), tuple(map(_value, others)), span_of(tree))


def names_operation(word: str) -> bool:
    """Does a word name an operation, or ask for a stored value?"""
    return word == "given" or word in OPS or any(op.text == word for op in OPS.values())


def _side_by_side(left: Tree, right: Tree) -> Mistake:
    if left.meta.end_line < right.meta.line:
        end = Span(left.meta.end_pos - 1, left.meta.end_pos)
        return Mistake("statements are separated by `;`", end, "write `;` at the end of this line")
    fix = "write one, for example `*.` for the pointwise product"
    return Mistake("there is no operator between two operands", span_of(right), fix)


def _prefix(tree: Tree) -> Value:
    ops: list[Token] = []
    while tree.data == "prefix":  # in a loop, because nothing bounds how many there are
        ops += tokens(tree)
        _check_known(ops[-1], PREFIX, "before an operand")
        (tree,) = subtrees(tree)
    value = _value(tree)
    for op in reversed(ops):
        span = Span(op.start_pos or 0, value.span.end)
        if op == "-" and isinstance(value, NumberLiteral):
            value = NumberLiteral(-value.value, span)
        else:
            value = FunctionCall(PREFIX[op], (value,), span)
    return value


def _bracket(tree: Tree) -> Value:
    """A tensor without a name if the brackets say how it is computed, else what stands in them."""
    signs = tokens(tree)
    right = _right(subtrees(tree)[0])
    if not signs and not (right.logic or right.slots or right.sizes or right.type or right.at_least):
        return right.value
    return Bracket(_sign(signs[0]) if signs else None, right, span_of(tree))


VALUES: Mapping[str, Callable[[Tree], Value]] = {
    "number": _number,
    "name": _plain,
    "lift": _lift,
    "apply": _apply,
    "curried": _curried,
    "prefix": _prefix,
    "bracket": _bracket,
}


# Trees


def _quoted(tree: Tree) -> Quoted:
    return Quoted(unescaped(word_of(tree)[1:-1]), span_of(tree))
