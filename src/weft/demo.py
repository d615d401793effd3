"""`weft demo`: which examples there are, and running one with the arguments of its `main` as options."""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
from collections.abc import Callable, Sequence
from importlib import import_module, resources
from types import ModuleType
from typing import Any

import weft as wf
from weft.errors import WeftError

PLANS: tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...] = (
    ("a matrix product: j is summed because the result forgot it", "ij;jk=>ik", ("3,4", "4,5"), {}),
    ("any axes down to one number", "...|...->... => 0", ("2|3->4",), {}),
    ("a convolution is a contraction read at o + k", "o<+k; k => o", ("9", "3"), {}),
    ("concatenation: two loops in sequence fill one axis", "x, ...; y, ... => x^y, ...", ("2,4", "3,4"), {}),
    ("sliding windows that run over the edge", "2*o=+k => ok", ("6",), {"k": 3}),
)


def plans() -> str:
    """Five einsums taken all the way to their loops."""
    return "\n\n".join(f"# {title}\n{wf.plan(spec, *shapes, **sizes)}" for title, spec, shapes, sizes in PLANS)


def example_titles() -> dict[str, str]:
    """What each example shows, by its name: the first line of its text. Nothing is imported."""
    files = (one for one in resources.files("weft.examples").iterdir() if one.name.endswith(".py"))
    texts = {one.name.removesuffix(".py"): one.read_text(encoding="utf-8") for one in files}
    return {name: _title(texts[name]) for name in sorted(texts) if name != "__init__"}


def _title(text: str) -> str:
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def listing() -> str:
    """The examples, a line each, and how to run one."""
    found = example_titles()
    widest = max(map(len, found))
    lines = [f"  {name:{widest}}  {title}" for name, title in found.items()]
    return "\n".join(["weft demo NAME runs one of these; weft demo NAME --help says what it takes:", *lines])


def run(name: str, options: Sequence[str]) -> None:
    """Run the example called `name`; options are the arguments of its `main`, such as `--epochs 2`."""
    main: Callable[..., object] = _module(name).main
    given = vars(_parser(name, main).parse_args(options))
    main(**given)


def _module(name: str) -> ModuleType:
    found = example_titles()
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        fix = f"did you mean {near[0]!r}? `weft demo` lists them" if near else "`weft demo` lists them"
        raise WeftError(f"there is no example {name!r}", fix=fix)
    return import_module(f"weft.examples.{name}")


def _parser(name: str, main: Callable[..., object]) -> argparse.ArgumentParser:
    """Options for those arguments of `main` whose usual value is a number or a text; others are for callers."""
    parser = argparse.ArgumentParser(
        prog=f"weft demo {name}",
        description=inspect.getdoc(inspect.getmodule(main)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument in inspect.signature(main).parameters.values():
        if isinstance(argument.default, int | float | str):
            parser.add_argument(
                f"--{argument.name.replace('_', '-')}",
                dest=argument.name,
                type=type(argument.default),
                default=argument.default,
                metavar=type(argument.default).__name__.upper(),
                help="(default: %(default)r)",
            )
    return parser
