"""What works on this machine, for people: `weft doctor`."""

from __future__ import annotations

import os
import platform

from weft.backends import find_backend
from weft.errors import WeftError


def doctor() -> str:
    """Each backend, what it runs on, or why it does not work and what to do; and which one is used by itself."""
    lines = [f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"]
    for name in ("interp", "cc", "cuda"):
        try:
            found = find_backend(name)
            lines += _indented(name, f"works: {getattr(found, 'description', '')}")
        except WeftError as error:
            told = [f"does not work: {error.what}", *error.notes, *([f"fix: {error.fix}"] if error.fix else [])]
            lines += _indented(name, "\n".join(told))
    chosen = os.environ.get("WEFT_BACKEND")
    why = f"as WEFT_BACKEND says: {chosen!r}" if chosen else "the best that works"
    try:
        return "\n".join([*lines, f"wf.Context() is {find_backend(None).name}, {why}"])
    except WeftError as error:
        return "\n".join([*lines, f"wf.Context() does not work: {error.what}"])


def _indented(name: str, text: str) -> list[str]:
    first, *rest = text.splitlines()
    return [f"{name:8}{first}", *(f"{'':8}{line}" for line in rest)]
