"""What is known of a definition: while its statements are read, and before sizes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.comprehension.builtins import TAKEN
from weft.comprehension.mistakes import Mistake, listed, meant
from weft.comprehension.nodes import Definition, Ident, targets
from weft.comprehension.types import Report
from weft.errors import Span

ONE_NAMESPACE = "sizes, tensors and indices share one set of names: rename one"


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a definition before sizes are.

    `types`, `ranks` and `axes` (axes.py) are those of all its tensors; `accumulates` the results that begin with what
    the caller put there, though they are no parameters: whoever runs the definition must be given them.
    """

    definition: Definition
    types: Mapping[str, str]
    ranks: Mapping[str, int]
    axes: Mapping[str, tuple[str | None, ...]]
    accumulates: tuple[str, ...]


class Scope:
    """The names of a definition, as far as its statements have been read.

    What is wrong with it is reported; what is only unlikely is doubted.
    """

    def __init__(self, definition: Definition, functions: frozenset[str], report: Report, doubt: Report) -> None:
        self.params = frozenset(one.name.name for one in definition.params)
        self.results = frozenset(one.name.name for one in definition.results)
        self.sizes = frozenset(size for one in definition.params for size in one.type.sizes)
        self.functions = functions
        self._report, self.doubt = report, doubt
        self.mistakes = 0
        self.ranks: dict[str, int] = {}
        self.written: dict[str, Ident] = {}
        self.read: set[str] = set()
        self.accumulates: list[str] = []
        self.to_come = {target.name for one in definition.body for target in targets(one)}

    def report(self, mistake: Mistake) -> None:
        self.mistakes += 1
        self._report(mistake)

    def wrong(self, what: str, span: Span, fix: str) -> None:
        self.report(Mistake(what, span, fix))

    def check_new(self, name: Ident, kind: str) -> None:
        """A name that a definition gives to something cannot be one of the language's own."""
        if name.name in TAKEN:
            self.wrong(f"`{name}` is {TAKEN[name.name]} and cannot name {kind}", name.span, "rename it")

    def check_target(self, target: Ident) -> bool:
        """May this be written?"""
        if target.name in self.sizes:
            self.wrong(f"`{target}` is a size and cannot be written", target.span, ONE_NAMESPACE)
            return False
        if target.name in self.params and target.name not in self.results:
            fix = f"write to a result, or make `{target}` one: `-> (…, {target})`"
            self.wrong(f"`{target}` comes in and does not go out, so it cannot be written", target.span, fix)
            return False
        if target.name not in self.ranks and target.name not in self.results:
            self.check_new(target, "a tensor")
        return True

    def check_read(self, name: str, span: Span) -> bool:
        """Is this a tensor that has been defined?"""
        self.read.add(name)
        if name in self.ranks:
            return True
        if name in self.to_come or name in self.results:
            self.wrong(f"`{name}` is read before it is defined", span, "put the statement that defines it before this")
        else:
            fix = meant(name, self.ranks, f"the tensors here are {listed(self.ranks)}")
            self.wrong(f"there is no tensor `{name}`", span, fix)
        return False

    def define(self, target: Ident, rank: int) -> None:
        self.ranks.setdefault(target.name, rank)
        self.written.setdefault(target.name, target)
