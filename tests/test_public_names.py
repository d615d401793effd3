"""The public names, each loaded when somebody asks for it."""

from __future__ import annotations

import ast
import inspect
import pickle
import pydoc
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import weft as wf
from test_house import run_python


def declared() -> dict[str, tuple[str, str]]:
    """What a type checker sees: of each public name its module, and its name there."""
    tree = ast.parse(Path(str(wf.__file__)).read_text(encoding="utf-8"))
    (block,) = (one for one in tree.body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING")
    found = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        assert line.module is not None
        found.update({one.asname or one.name: (line.module, one.name) for one in line.names})
    return found


def test_a_type_checker_sees_the_names_that_there_are() -> None:
    assert sorted(declared()) == sorted(wf.__all__) == dir(wf)
    assert len(set(wf.__all__)) == len(wf.__all__)


@pytest.mark.parametrize("name", wf.__all__)
def test_a_public_name_is_what_its_room_has(name: str) -> None:
    module, own = declared()[name]
    found = getattr(wf, name)
    there = import_module(f"weft.{own}") if module == "weft" else getattr(import_module(module), own)
    assert inspect.unwrap(found) is inspect.unwrap(there)
    assert getattr(wf, name) is found
    if isinstance(found, FunctionType):
        assert (found.__module__, found.__qualname__) == ("weft", name)
        assert found is not there, "a public function is called through the door"


@pytest.mark.parametrize("name", [name for name in wf.__all__ if not isinstance(getattr(wf, name), ModuleType)])
def test_a_public_name_is_pickled_by_its_name(name: str) -> None:
    found = getattr(wf, name)
    if isinstance(found, FunctionType | type):
        assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize("name", wf.optim.__all__)
def test_an_optimiser_is_pickled_by_its_name(name: str) -> None:
    found = getattr(wf.optim, name)
    assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize("room", ["nn", "optim", "train", "data", "tc", "torch", "plot"])
def test_a_room_lists_what_is_public(room: str) -> None:
    found = getattr(wf, room)
    assert dir(found) == sorted(found.__all__)


def test_rooms_do_not_hide_functions_of_their_name() -> None:
    code = """
import weft as wf
import weft.assign.nodes, weft.einsum.nodes, weft.tensor.functions, weft.config
print(*(type(getattr(wf, name)).__name__ for name in ("assign", "config", "einsum", "tensor", "shape", "tc")))
from weft import tensor
print(type(tensor).__name__)
"""
    done = run_python(code)
    assert done.stdout.split() == ["function", "Config", "function", "function", "module", "module", "function"], done


def test_a_name_that_there_is_not_is_told_in_a_fresh_process() -> None:
    done = run_python("import weft as wf\ntry:\n    wf.tensr\nexcept AttributeError as error:\n    print(error)")
    assert done.stdout == "<string>:3: weft has no `tensr`\n  fix: did you mean wf.tensor?\n", done
    done = run_python("import os; os.environ.pop('WEFT_TRACEBACK', None)\nimport weft as wf\nwf.tensr")
    assert "__init__.py" not in done.stderr, "the traceback ends at the user's line"
    assert "NoSuchName" in done.stderr


def test_all_names_come_by_a_star() -> None:
    names: dict[str, object] = {}
    exec("from weft import *", names)
    assert sorted(set(names) - {"__builtins__"}) == sorted(wf.__all__)


def test_help_tells_of_functions_and_classes() -> None:
    text = pydoc.plain(pydoc.render_doc(wf))
    assert "einsum(spec: 'str'" in text
    assert "class Tensor(" in text


THREADS = """
import sys, threading
sys.setswitchinterval(1e-5)
import weft as wf
start, seen, failed = threading.Barrier(8), {}, []

def ask(first):
    try:
        start.wait()
        for name in wf.__all__[first:] + wf.__all__[:first]:
            seen.setdefault(name, []).append(getattr(wf, name))
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=ask, args=(11 * at,)) for at in range(8)]
for one in threads: one.start()
for one in threads: one.join()
assert not failed, failed
assert all(len(found) == 8 and len(set(map(id, found))) == 1 for found in seen.values())
print(len(seen))
"""


def test_threads_may_ask_for_names_at_once() -> None:
    done = run_python(THREADS)
    assert done.stdout.split() == [str(len(wf.__all__))], done.stderr


INTERRUPTED = """
import sys
import islpy, numpy  # neither survives an interrupt while it is loaded
import weft as wf

def interrupted(after):
    '''Ask for a name and be interrupted after so many calls. Was there still something to do?'''
    left = after
    def look(frame, event, _):
        nonlocal left
        if event == "call":
            left -= 1
            if not left:
                sys.setprofile(None)
                raise KeyboardInterrupt
    sys.setprofile(look)
    try:
        wf.einsum
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)

tried = 0
while interrupted(int(100 * 1.2**tried)):
    tried += 1
    assert "einsum" not in vars(wf)
x = wf.data([1.0, 2.0], label="x")
print(tried > 10, wf.Context("interp")[wf.einsum("i=>0", x)].item())
"""


def test_an_interrupt_while_rooms_are_loaded_leaves_the_rest_to_the_next_time() -> None:
    done = run_python(INTERRUPTED)
    assert done.stdout.split() == ["True", "3.0"], done.stderr
