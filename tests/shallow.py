"""Few frames to recurse in: what recurses as deep as a program is long fails at once, whatever the length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def shallow(frames: int = 300) -> Iterator[None]:
    """Let what runs inside go only so many frames deeper."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
