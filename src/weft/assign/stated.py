"""What printed code computes in statements of its own, so that it reads as it runs.

Code computes an expression once, just before its first use (definitions.py). A text computes what it writes inside a
statement just before that statement. These are the same for what is used once, so that is printed where it is used.
What is used more than once is stated where code computes it: what it reads may be written before it is used again, and
written out at every use, n operations could print as 2**n. So is what lies so deep in other expressions that nobody
could read it back, what has parts with names of their own (parts.py), what other statements are told by, and what
holds positions. A tensor
with a name of its own goes by that name, and whoever reads the text brings it along; but not one that is computed from
what the text computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Set

from weft.assign.concat_terms import operation_node
from weft.assign.definitions import complete, inputs_of
from weft.assign.nodes import (
    Accum,
    Assignment,
    Code,
    Direct,
    Fetch,
    Keep,
    Node,
    Operand,
    keeps,
    operands_of,
    positions_of,
    rebuilt,
    seq,
    statements,
    target,
)
from weft.assign.parts import DEEPEST, named, places, text_depth


def stated(code: Code) -> Code:
    """The code with the statements of everything it computes and does not print where it is used."""
    operations = _operations(code)
    full = complete(seq(Keep(operations), code) if operations else code)
    own = _Stating(code, full, operations).own
    defining = (one for node in own for one in statements(node.definition or seq()))
    return _only(full, {target(one) for one in (*statements(code), *defining)})


def _operations(code: Code) -> tuple[Node, ...]:
    """The tensors that statements are told by and that the code itself does not compute."""
    operations = (operation_node(one) for one in statements(code) if isinstance(one, Accum))
    found = dict.fromkeys(one for one in operations if one)
    written = {target(one) for one in statements(code)} if found else ()
    return tuple(one for one in found if one not in written)


def is_inline(node: Node) -> bool:
    """Can printed code write its definition in the place of its name?"""
    return node.name.inline and node.declared is None and isinstance(node.definition, Accum | Fetch)


class _Stating:
    """Finds what completed code computes and its text must state: `own`.

    `shown` is what the text would show by name or definition, `fresh` what depends on something that the text computes.
    """

    def __init__(self, code: Code, full: Code, operations: Collection[Node] = ()) -> None:
        self._operations = operations
        self.own: dict[Node, None] = {}
        self._shown: set[Node] = set()
        self._fresh: set[Node] = set()
        self._written = {target(statement) for statement in statements(code)}
        self._positions = {one for each in statements(full) if isinstance(each, Accum) for one in positions_of(each)}
        self._uses = Counter(use for statement in statements(full) for use in _places(statement))
        self._uses.update(node for keep in keeps(full) for node in keep.nodes)
        self._deep = self._find_deep(full)
        self._readers: dict[Node, list[Node]] = {}
        for node in dict.fromkeys(map(target, statements(full))):
            for read in _reads(node):
                self._readers.setdefault(read, []).append(node)
        self._new: list[Node] = [node for node in self._written if _is_declared(node)]
        self._show(operand for statement in statements(code) for operand in operands_of(statement))
        self._show(operations)
        while self._new:
            node = self._new.pop()
            self._show(_reads(node) if node in self.own else ())
            self._freshen(node)

    def _show(self, operands: Iterable[Operand]) -> None:
        rest = list(operands)
        while rest:
            node = rest.pop()
            if isinstance(node, Node) and node.definition and node not in self._shown and node not in self._written:
                self._shown.add(node)
                self._decide(node)
                if is_inline(node) and node not in self.own:
                    rest += _reads(node)

    def _freshen(self, node: Node) -> None:
        """The text computes a node: whatever depends on it is fresh."""
        rest = [node]
        while rest:
            for reader in self._readers.get(rest.pop(), ()):
                if reader not in self._fresh:
                    self._fresh.add(reader)
                    self._decide(reader)
                    rest.append(reader)

    def _decide(self, node: Node) -> None:
        if node in self._shown and node not in self.own and self._is_stated(node):
            self.own[node] = None
            self._new.append(node)

    def _is_stated(self, node: Node) -> bool:
        if not node.name.inline or isinstance(node.definition, Direct):
            return node in self._fresh
        told = node in self._operations or node in self._positions
        return not is_inline(node) or self._is_used_again(node) or node in self._deep or told

    def _is_used_again(self, node: Node) -> bool:
        return self._uses[node] > 1 and not isinstance(node.definition, Fetch)

    def _find_deep(self, full: Code) -> set[Node]:
        """The expressions that would be too deep in the text, and those that have parts with names of their own."""
        found: set[Node] = set()
        depths: dict[Operand, int] = {}
        for code in statements(full):
            node = target(code)
            if not isinstance(code, Accum) or not is_inline(node) or self._is_used_again(node):
                continue
            depths[node] = 1 + text_depth(code, depths)
            if depths[node] > DEEPEST or named(code):
                found.add(node)
                depths[node] = 0
        return found


def _reads(node: Node) -> list[Node]:
    """The nodes that a node is computed from."""
    return inputs_of(node.definition) if node.definition else []


def _is_declared(node: Node) -> bool:
    """Is it a node of the text's own, rather than one that somebody gives?"""
    made = node.gradient_of if node.is_grad and node.gradient_of else node
    return made.declared is not None or made.definition is not None


def _places(statement: Assignment) -> Iterator[Operand]:
    """The operand at each place of a statement where one is read."""
    if isinstance(statement, Accum):
        return (statement.operands[place.number] for place in places(statement))
    return iter(operands_of(statement))


def _only(code: Code, targets: Set[Node]) -> Code:
    """The statements that write one of these."""
    return rebuilt(code, lambda one: seq() if isinstance(one, Assignment) and target(one) not in targets else one)
