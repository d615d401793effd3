"""What a thread fetches ahead: in order, bounded, its errors and its end where they belong."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

import weft as wf
from test_house import run_python


def fetchers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "weft-prefetch"]


def ended() -> bool:
    """Are all threads gone, given a moment?"""
    until = time.monotonic() + 5
    while fetchers() and time.monotonic() < until:
        time.sleep(0.001)
    return not fetchers()


def test_everything_comes_in_order() -> None:
    assert list(wf.data.prefetch(range(100), ahead=3)) == list(range(100))
    assert ended()


def test_no_more_is_fetched_than_said() -> None:
    fetched: list[int] = []

    def source() -> Iterator[int]:
        for number in range(10):
            fetched.append(number)
            yield number

    with wf.data.prefetch(source(), ahead=2) as ahead:
        assert next(ahead) == 0
        until = time.monotonic() + 5
        while len(fetched) < 4 and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.02)
        assert fetched == [0, 1, 2, 3], "two wait, and one is in the thread's hand"
    assert ended()


def test_what_fetching_raises_is_raised_where_the_value_is_asked_for() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    ahead = wf.data.prefetch(source())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="the disk is gone") as caught:
        next(ahead)
    assert [one.name for one in caught.traceback][-1] == "source", "and says where"
    assert list(ahead) == []


def test_what_is_closed_gives_nothing_and_closes_its_source() -> None:
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    ahead = wf.data.prefetch(source())
    next(ahead)
    ahead.close()
    ahead.close()
    assert (list(ahead), closed.is_set(), fetchers(), repr(ahead)) == ([], True, [], "<fetched ahead: ended>")


def test_an_iterator_that_nobody_holds_ends_its_thread() -> None:
    ahead = wf.data.prefetch(iter(int, 1))
    next(ahead)
    del ahead
    gc.collect()
    assert ended()


def test_a_fork_is_told_and_the_process_ends() -> None:
    code = """
import os, weft as wf
ahead = wf.data.prefetch(iter(int, 1))
next(ahead)
if not os.fork():
    try:
        next(ahead)
    except wf.WeftError as error:
        os.write(1, error.what.encode())
    ahead.close()
    os._exit(0)
os.wait()
"""
    done = run_python(code)
    assert done.stdout == "what is fetched ahead comes from a thread of another process: this one was forked from it"
    assert (done.returncode, done.stderr) == (0, "")


def test_mistakes_are_told() -> None:
    with pytest.raises(wf.WeftError, match="only what can be iterated is fetched ahead, not int"):
        wf.data.prefetch(3)  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match="ahead is a whole number from 1 on, not 0"):
        wf.data.prefetch([], ahead=0)
