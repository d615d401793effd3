"""Graceful interruption: Ctrl-C ends a run after the step it is in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Has Ctrl-C been pressed? Pressed again it interrupts at once, as ever.

    Only the main thread hears it, and a program that listens itself goes on doing so.
    """
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    listens = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if listens or threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
