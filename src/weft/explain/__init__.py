"""One program in three notations, `wf.show_as`, and what a model is made of, `wf.summary`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.comprehension import show
from weft.comprehension.definition_text import Unsayable, definition
from weft.comprehension.nodes import Invoke
from weft.comprehension.show import show_definition
from weft.errors import WeftError
from weft.explain.code_text import code_text
from weft.explain.einsum_calls import einsum_calls
from weft.explain.program import NamedProgram, Sayable, applied, program_of, supposed
from weft.explain.summary import summary
from weft.tc import Definition

__all__ = ["show_as", "summary"]


def show_as(what: Sayable, notation: str, *arrays: Any) -> str:
    """A program in another notation: "tc", a comprehension; "einsum", calls of wf.einsum; "cd", assignments.

    It is a tensor or a list of them, code, what wf.plan returns, or a definition of wf.tc.define: that for arrays like
    these, or for all if none are given. What is printed reads back to the same program; assignments do so where they
    have no loops and no numbers that stand for positions or sizes.
    """
    if notation not in _NOTATIONS:
        known = ", ".join(f'"{one}"' for one in _NOTATIONS)
        raise WeftError(f"there is no notation {notation!r}", fix=f"use one of {known}")
    if not isinstance(what, Definition):
        return _said(program_of(what), notation)
    if arrays:
        given = what.arguments.arrays(what.arguments.ordered(arrays, {}))
        return _said(applied(what.template, [one.shape for one in given]), notation)
    return _own_text(what) if notation == "tc" else _whatever_the_sizes(what, notation)


def _said(program: NamedProgram, notation: str) -> str:
    try:
        return _NOTATIONS[notation](program)
    except Unsayable as error:
        able = [f'"{one}"' for one in _NOTATIONS if one != notation and _has_words(program, one)]
        error.fix = f"say it as {' or '.join(able)}" if able else "no notation has words for all of this program"
        raise


def _has_words(program: NamedProgram, notation: str) -> bool:
    try:
        return bool(_NOTATIONS[notation](program))
    except WeftError:
        return False


def _own_text(what: Definition) -> str:
    """A comprehension as it was written, with all that it calls."""
    template = what.template
    calls = any(isinstance(one, Invoke) for one in template.definition.body)
    return show(template.program.program) if calls else show_definition(template.definition)


def _whatever_the_sizes(what: Definition, notation: str) -> str:
    """A comprehension in a notation without sizes: the same for several that it can be said for."""
    found, refused = list[str](), list[WeftError]()
    for shapes in supposed(what.template):
        try:
            found.append(_said(applied(what.template, shapes), notation))
        except WeftError as error:
            refused.append(error)
    if len(found) > 1 and len(set(found)) == 1:
        return found[0]
    if len(found) < 2 and isinstance(refused[0], Unsayable):
        raise refused[0]
    fix = f'say for which arrays: wf.show_as(…, "{notation}", {", ".join(what.params)})'
    raise WeftError(f"how `{what.name}` is said depends on the sizes", fix=fix)


def _comprehension(program: NamedProgram) -> str:
    return show_definition(definition(program.name, program.code, program.params, program.results, program.ranks))


_NOTATIONS: Mapping[str, Callable[[NamedProgram], str]] = {
    "tc": _comprehension,
    "einsum": einsum_calls,
    "cd": code_text,
}
