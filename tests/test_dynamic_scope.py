"""Values that hold inside a `with` block."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from weft.dynamic_scope import temporarily

VALUE: ContextVar[int] = ContextVar("value", default=0)


def test_a_value_holds_inside_the_block_and_the_one_around_behind_it() -> None:
    with temporarily(VALUE, 1) as outer:
        with temporarily(VALUE, 2) as inner:
            assert (outer, inner, VALUE.get()) == (1, 2, 2)
        assert VALUE.get() == 1
    assert VALUE.get() == 0


def test_an_error_leaves_what_was_there_before() -> None:
    with pytest.raises(ZeroDivisionError), temporarily(VALUE, 1):
        VALUE.set(1 // 0)
    assert VALUE.get() == 0


def test_another_thread_does_not_see_it() -> None:
    seen: list[int] = []
    with temporarily(VALUE, 1):
        other = threading.Thread(target=lambda: seen.append(VALUE.get()))
        other.start()
        other.join()
    assert seen == [0]
