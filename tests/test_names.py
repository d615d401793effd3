"""One name, one meaning: what a class, a type or a function of one room is called, nothing else is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

WEFT = Path(__file__).resolve().parent.parent / "src" / "weft"

_SYNTAX = "a comprehension as it is written; what it is lowered to is another language, and no module sees both"
_SAME = "one type, spelled where it is used"
#: Classes and types that have a name in common, and why that is right.
CLASSES: Mapping[str, str] = {
    **dict.fromkeys(("Cast", "Definition", "Dim", "Let", "Local", "Program", "Read", "Size"), _SYNTAX),
    **dict.fromkeys(("Access", "Affine", "Known", "Scope", "Statement"), _SYNTAX),
    **dict.fromkeys(("Array", "Memory"), _SAME),
    "Source": "the text of a kernel, and that of a notation: no module sees both",
}

_DOOR = "every language has one"
_WALK = "the walk over a language's own trees"
_COMMAND = "a command of `weft tc`"
_ERROR = "an error, always written `errors.…`"
_PUBLIC = "a name of users, and one inside a room that users' code never meets"
_BLOCK = "a function of tensors, and the block of `wf.nn` that is made of it"
_SCHEDULE = "a schedule, always written `wf.optim.…`, and what users call so in another room"
#: Functions that have a name in common, and why that is right.
FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(("check", "infer", "parse", "show", "show_statement"), _DOOR),
    **dict.fromkeys(("accesses", "children", "fold", "reads", "rebuilt", "walk", "with_children"), _WALK),
    **dict.fromkeys(("read", "run"), _COMMAND),
    **dict.fromkeys(("is_computed", "parts"), _ERROR),
    **dict.fromkeys(("digits", "evaluate", "mapped", "names", "windows"), _PUBLIC),
    **dict.fromkeys(("counted", "inside", "labelled", "load", "number", "operator", "power", "where"), _PUBLIC),
    **dict.fromkeys(("cross_entropy", "dropout", "softmax"), _BLOCK),
    **dict.fromkeys(("constant", "linear", "step"), _SCHEDULE),
    "applied": "a definition on tensors, and what there is to say of it: the room after next",
    "given_values": "a tensor of given values, and the values that it is given",
    "key_of": "what something is kept under: operands in memory, routines on disk",
    "needed": "what something depends on: nodes of code, steps of a definition",
    "scalar": "whatever somebody wrote, as a scalar of the language",
    "split": "tensors along an axis, and examples in two: `wf.split`, `wf.data.split`",
    "solve": "solves the equations of its own room",
    "span_of": "of a text, and of a set",
    "spelled": "how the text of a comprehension has it",
    "type_of": "the element type of an expression of the language",
    "warn": "at the user's line, and at a line of the user's text",
    "whole": "sizes that must be whole numbers, and processors rounded to one",
    "written": "as an expression of the text; and an array that is written to",
}

_BOTH = "the same of the two languages"
_OF_ITS_ROOM = "what the room has of it, never imported into another"
#: Modules that have a name in common, and why that is right.
MODULES: Mapping[str, str] = {
    **dict.fromkeys(("nodes", "check", "show", "parse", "diagnose", "text", "names", "types"), _DOOR),
    **dict.fromkeys(("operator", "gradient", "recurrence", "definite_assignment", "subscripts", "random"), _BOTH),
    **dict.fromkeys(("errors", "build", "cli", "arguments", "function", "values", "scope", "signature"), _OF_ITS_ROOM),
    "contraction": "which code is one, how it is said, how it is written in C",
    "intervals": "where whole numbers lie, in either language",
    "specialise": "open sizes decided: of shapes, and of code",
}

#: What is called otherwise where it is imported, and why.
ALIASES: Mapping[str, str] = {
    "absolute as abs": "the public name is that of a builtin",
    "target as target_of": "a variable is called `target` there",
}


def module_of(path: Path) -> str:
    parts = path.relative_to(WEFT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """What weft is made of; examples are programs of users, who call things as they like."""
    paths = (path for path in sorted(WEFT.rglob("*.py")) if WEFT / "examples" not in path.parents)
    return {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def is_type(name: str) -> bool:
    """Is a name written as those of classes are? Variables of types, as `T`, are not looked at."""
    plain = name.lstrip("_")
    return plain[:1].isupper() and not plain.isupper()


def names_of(tree: ast.Module) -> Iterator[str]:
    """The names of the types and functions that a module defines, once each."""
    found: dict[str, None] = {}
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found[name] = None
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if is_type(name):
                found[name] = None
    yield from found


@cache
def homes() -> dict[str, list[str]]:
    """The modules that define each name."""
    found: dict[str, list[str]] = {}
    for module, tree in trees().items():
        for name in names_of(tree):
            found.setdefault(name, []).append(module)
    return found


def shared() -> dict[str, list[str]]:
    """Names with several meanings; functions of a module alone are its own affair."""
    several = {name: where for name, where in homes().items() if len(where) > 1}
    return {name: where for name, where in several.items() if is_type(name) or not name.startswith("_")}


def imports(tree: ast.Module) -> Iterator[tuple[str, ast.alias]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weft"):
            yield from ((node.module or "", alias) for alias in node.names)


def home(module: str, name: str) -> str:
    """The module that defines what another exports."""
    if name not in homes() or module in homes()[name] or module not in trees():
        return module
    return next((home(source, one.name) for source, one in imports(trees()[module]) if one.name == name), module)


def renamed() -> list[str]:
    """Names that are imported under others; a module may be."""
    found = (
        alias for tree in trees().values() for module, alias in imports(tree) if f"{module}.{alias.name}" not in trees()
    )
    return sorted({f"{one.name} as {one.asname}" for one in found if one.asname not in (None, one.name)})


def test_every_class_has_a_name_of_its_own() -> None:
    assert {name: where for name, where in shared().items() if is_type(name) and name not in CLASSES} == {}


def test_every_function_has_a_name_of_its_own() -> None:
    assert {name: where for name, where in shared().items() if not is_type(name) and name not in FUNCTIONS} == {}


def test_every_module_has_a_name_of_its_own() -> None:
    found: dict[str, list[str]] = {}
    for module in trees():
        *_, room, name = ("", *module.split("."))
        if module != "weft" and not (WEFT.parent / module.replace(".", "/")).is_dir():
            found.setdefault(name, []).append(room)
    assert {name: where for name, where in found.items() if len(where) > 1 and name not in MODULES} == {}
    assert [name for name in MODULES if len(found.get(name, ())) < 2] == []


def test_nothing_is_called_otherwise_where_it_is_imported() -> None:
    assert [one for one in renamed() if one not in ALIASES] == []


def test_no_module_sees_two_things_by_one_name() -> None:
    """Not even those that may share a name: whoever reads a module reads of one of them."""
    found = []
    for module, tree in trees().items():
        seen = dict.fromkeys(names_of(tree), module)
        for source, alias in imports(tree):
            name, where = alias.asname or alias.name, home(source, alias.name)
            if seen.setdefault(name, where) != where:
                found.append(f"{module}: {name} of {seen[name]} and of {where}")
    assert found == []
