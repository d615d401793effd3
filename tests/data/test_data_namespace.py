"""`wf.data` is a room and a function."""

from __future__ import annotations

import doctest
import inspect
import io
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.data
from test_house import run_python
from weft.tensor import leaves

FUNCTIONS = [name for name in wf.data.__all__ if name not in ("Batches", "Prefetch", "Tokenizer")]


def test_the_room_is_called() -> None:
    assert weft.data is wf.data
    tensor = wf.data(np.ones((2, 3)), batch=1, label="x")
    assert str(tensor.dims) == "2|3"
    assert inspect.signature(wf.data) == inspect.signature(leaves.data)
    assert [str(one.dims) for one in map(wf.data, (np.ones(2), np.ones(3)))] == ["2", "3"]


def test_the_room_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(wf.data)) is wf.data
    assert pickle.loads(pickle.dumps(wf.data.batches)) is wf.data.batches


def test_a_wrong_call_is_told_as_that_of_a_function() -> None:
    with pytest.raises(wf.ArgumentError) as caught:
        wf.data(np.ones(3), lable="x")  # type: ignore[call-arg]
    assert caught.value.what == "`data` has no argument `lable`"
    done = run_python("import os; os.environ.pop('WEFT_TRACEBACK', None)\nimport weft as wf\nwf.data([1], batch=3)")
    assert "room.py" not in done.stderr, "the traceback ends at the user's line"
    assert "WeftError" in done.stderr or "ShapeError" in done.stderr


def test_both_ways_to_import_it() -> None:
    code = "import weft.data, weft as wf\nfrom weft import data\nprint(wf.data is data is weft.data, data([1.0]).dims)"
    assert run_python(code).stdout == "True 1\n"


def test_a_tensor_loads_nothing_that_feeds_steps() -> None:
    code = "import sys, weft as wf; wf.data([1.0])\nprint('weft.data.batching' in sys.modules, wf.data.split.__name__)"
    assert run_python(code).stdout == "False split\n"
    assert set(wf.data.__all__) <= set(dir(wf.data))
    with pytest.raises(AttributeError, match=r"wf\.data has no `bacthes`(.|\n)*did you mean wf\.data\.batches"):
        wf.data.bacthes  # type: ignore[attr-defined]


def test_help_tells_of_the_call_and_of_what_is_in_the_room() -> None:
    text = pydoc.plain(pydoc.render_doc(wf.data))
    assert "wf.data(x, *, batch=0" in text
    assert "batches(*arrays: 'Any'" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_name_shows_an_example(name: str) -> None:
    found = getattr(wf.data, name)
    names: dict[str, Any] = {"wf": wf, "np": np}
    example = doctest.DocTestParser().get_doctest(found.__doc__ or "", names, name, None, None)
    if name not in ("mapped", "write_tokens", "load_tokenizer"):  # these are about files
        assert any(f"wf.data.{name}" in one.source or "wf.data.byte_pairs" in one.source for one in example.examples)
    printed = io.StringIO()
    assert doctest.DocTestRunner().run(example, out=printed.write).failed == 0, printed.getvalue()
