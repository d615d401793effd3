"""Every Python block of README.md, CONTRIBUTING.md and docs/ runs, and prints what the block below it says.

The blocks of a page share one namespace, top to bottom. Each runs as a file `model.py` of its own, so a message that
names a line counts from the start of its block. A block that raises shows the error's text as its output.
`pytest --update-golden` writes the outputs instead of comparing them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Snippet:
    """A Python block, where it starts on its page, and the output shown below it, if any."""

    line: int
    code: str
    output: re.Match[str] | None


def snippets(text: str) -> list[Snippet]:
    fences = list(FENCE.finditer(text))
    found = []
    for number, fence in enumerate(fences):
        after = fences[number + 1] if number + 1 < len(fences) else None
        if fence["language"] == "python":
            directly = after is not None and not after["language"] and not text[fence.end() : after.start()].strip()
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Snippet(line, fence["body"], after if directly else None))
    return found


def run(code: str, file: str, namespace: dict[str, Any]) -> str:
    """What running the code prints, the text of a WeftError it raises included."""
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, file, "exec"), namespace)
        except wf.WeftError as error:
            print(error)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page(page: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    wf.seed(0)  # as in a process of its own, whatever ran before
    namespace: dict[str, Any] = {"__name__": page.stem}
    outputs: list[tuple[re.Match[str], str]] = []
    for number, snippet in enumerate(snippets(text)):
        printed = run(snippet.code, f"{name_of(page)}.{number}/model.py", namespace)
        shown = snippet.output["body"] if snippet.output else ""
        if snippet.output and request.config.getoption("--update-golden"):
            outputs.append((snippet.output, printed))
        else:
            assert printed == shown, f"{name_of(page)}:{snippet.line} prints something else than the page shows"
    for output, printed in reversed(outputs):
        text = text[: output.start("body")] + printed + text[output.end("body") :]
    if outputs:
        page.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link["target"] for link in LINK.finditer(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if not target.startswith("http")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_files_that_contributors_are_sent_to_exist() -> None:
    named = re.findall(r"`((?:src|tests|docs)/[\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES[2:] if page.name != "README.md"]
    assert pages
    assert [name for name in pages if f"({name})" not in index] == []


#: Where the functions are of which each shows an example.
WITH_EXAMPLES = ("activations", "elementary", "functions", "creation", "shifts", "prefix", "reductions")
FUNCTIONS = [name for name in wf.__all__ if wf._HOME[name].removeprefix("tensor.") in WITH_EXAMPLES]
LANGUAGE = ["scan", "grad", "jvp", "monoid", "counter", "sizes", "input"]


@pytest.mark.parametrize("name", [*FUNCTIONS, *LANGUAGE])
def test_a_function_shows_an_example(name: str) -> None:
    function = getattr(wf, name)
    names = {"wf": wf, "np": np, "ctx": wf.Context("interp")}
    example = doctest.DocTestParser().get_doctest(function.__doc__ or "", names, name, None, None)
    assert any(f"wf.{name}(" in one.source for one in example.examples)
    printed = io.StringIO()
    doctest.DocTestRunner().run(example, out=printed.write)
    assert not printed.getvalue(), printed.getvalue()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_page_of_functions_shows_each(name: str) -> None:
    page = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
    assert any(f"wf.{name}(" in snippet.code for snippet in snippets(page))


@pytest.mark.parametrize(
    ("text", "code", "output"),
    [
        ("```python\nprint(1)\n```\n\n```\n1\n```\n", "print(1)\n", "1\n"),
        ("```python\nx = 1\n```\n\nText.\n\n```\n1\n```\n", "x = 1\n", None),
        ("```python\nx = 1\n```\n\n```sh\nls\n```\n", "x = 1\n", None),
    ],
)
def test_snippets_are_found(text: str, code: str, output: str | None) -> None:
    (snippet,) = snippets(text)
    assert snippet.code == code
    assert (snippet.output["body"] if snippet.output else None) == output


def test_a_block_that_raises_shows_the_error() -> None:
    printed = run("print('before')\nraise wf.WeftError('no', origin=None)\n", "model.py", {"wf": wf})
    assert printed == "before\nno\n"
