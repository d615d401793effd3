"""Text in columns."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, columns as wide as they need to be; those of numbers stand to the right."""
    columns = list(zip(header, *rows, strict=True))
    lines = zip(*(_column(one) for one in columns), strict=True)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def shortened(names: Sequence[str], most: int) -> str:
    """A list of names of which the last are only counted."""
    rest = len(names) - most
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:most])} and {rest} more"


def _column(texts: Sequence[str]) -> list[str]:
    width = max(map(len, texts))
    numbers = len(texts) > 1 and all(not text or text[0].isdigit() for text in texts[1:])
    return [text.rjust(width) if numbers else text.ljust(width) for text in texts]
