"""Texts compiled in processes: all are answered, whatever compilers print, raise or do to the process they are in."""

from __future__ import annotations

import pytest

from weft.backends.cuda.compiling import PROGRAM, in_processes
from weft.backends.cuda.kernel_source import Launch, Source
from weft.errors import WeftError

FAKE = """
import os
from weft.backends.cuda import compiling
from weft.backends.cuda.gpu_kernels import Toolchain
from weft.backends.cuda.kernel_source import Launch
from weft.errors import WeftError


def fake(source, architecture):
    print("noise")
    os.write(1, b"more noise\\n")
    if "crash" in source.text:
        os.write(2, b"LLVM ERROR: it cannot be\\n")
        os.abort()
    if "wrong" in source.text:
        raise ValueError("no such thing")
    if "refused" in source.text:
        raise WeftError("it is refused", notes=["for a reason"], fix="write another")
    return Launch(source.entry, f"{source.text} {architecture}".encode() + bytes(100_000), 3, 64, 5, 2)


compiling.TOOLCHAINS = {"triton": Toolchain(None, fake)}
"""
FAKED = PROGRAM.replace("answer(sys", f"{FAKE}\nanswer(sys")


def source(at: int, text: str = "fine") -> Source:
    return Source("triton", f"kernel_{at}", f"{text} {at}", (), False, 1, 1)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("most", [1, 3])
def test_every_text_is_answered(count: int, most: int) -> None:
    found = in_processes([source(at) for at in range(count)], "sm_90", most, FAKED)
    assert [one.entry for one in found if isinstance(one, Launch)] == [f"kernel_{at}" for at in range(count)]
    for at, one in enumerate(found):
        assert isinstance(one, Launch)
        assert one.cubin == f"fine {at} sm_90".encode() + bytes(100_000)
        assert (one.programs, one.threads, one.shared, one.trailing) == (3, 64, 5, 2)


def test_a_crash_is_known_by_its_text_and_the_rest_is_compiled() -> None:
    texts = [source(0), source(1, "crash"), source(2), source(3, "wrong"), source(4, "refused"), source(5, "crash")]
    found = in_processes(texts, "sm_90", 2, FAKED)
    assert [type(one) for one in found] == [Launch, WeftError, Launch, WeftError, WeftError, WeftError]
    said = [one.what for one in found if isinstance(one, WeftError)]
    assert said == [
        "the triton compiler broke down (-6): LLVM ERROR: it cannot be",
        "the triton compiler failed: ValueError: no such thing",
        "it is refused",
        "the triton compiler broke down (-6): LLVM ERROR: it cannot be",
    ]
    refused = found[4]
    assert isinstance(refused, WeftError)
    assert (list(refused.notes), refused.fix) == (["for a reason"], "write another")


def test_a_process_that_does_not_start_answers_for_all() -> None:
    found = in_processes([source(at) for at in range(4)], "sm_90", 2, "raise SystemExit('no')")
    assert [one.what for one in found if isinstance(one, WeftError)] == ["the triton compiler broke down (1): no"] * 4
