"""How long the sources are: lines of code in each room, without blank lines, comments, docstrings and imports.

python bench/size.py                 a table
python bench/size.py --base REV      beside it, the same at another revision
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SOURCES = "src/weft"
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(text: str) -> int:
    """The lines of a module that hold code other than docstrings and imports."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            assert isinstance(node, ast.stmt)
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def by_room(modules: Iterable[tuple[str, str]]) -> Counter[str]:
    """The lines of code of modules, given by path below the sources and text, counted by room."""
    found: Counter[str] = Counter()
    for path, text in modules:
        found[path.split("/")[0] if "/" in path else "(top level)"] += lines_of_code(text)
    return found


def here() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / SOURCES).rglob("*.py")):
        yield path.relative_to(ROOT / SOURCES).as_posix(), path.read_text(encoding="utf-8")


def at(revision: str) -> Iterator[tuple[str, str]]:
    for name in _git("ls-tree", "-r", "--name-only", revision, SOURCES).splitlines():
        if name.endswith(".py"):
            yield name.removeprefix(f"{SOURCES}/"), _git("show", f"{revision}:{name}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description="Count lines of code by room.")
    parser.add_argument("--base", metavar="REV", help="a revision to compare with")
    arguments = parser.parse_args()
    now = by_room(here())
    before = by_room(at(arguments.base)) if arguments.base else None
    table = Table("room", *(["before"] if before is not None else []), "now")
    for room in sorted({*now, *(before or ())}, key=lambda one: -now[one]):
        table.add_row(room, *([str(before[room])] if before is not None else []), str(now[room]))
    table.add_section()
    table.add_row("all", *([str(before.total())] if before is not None else []), str(now.total()))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
