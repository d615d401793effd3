"""What all tests share: the golden fixture and the hypothesis profiles."""

from __future__ import annotations

import difflib
import gc
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import weft as wf
from effort import PROFILE, tries

TESTS = Path(__file__).resolve().parent
LONGEST_NAME = 100

os.environ.setdefault("WEFT_BACKEND", "interp")  # no compiler runs where a test does not ask for one
os.environ.setdefault("WEFT_VERIFY", "1")  # the program is checked after every pass
os.environ.setdefault("WEFT_TRACEBACK", "full")  # where weft itself is at fault, its own frames are of interest
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the processes that tests start need not each compile all of weft

settings.register_profile(
    "default",
    deadline=None,
    max_examples=tries(100),
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("default"))
settings.load_profile(PROFILE)


@pytest.fixture(scope="session", autouse=True)
def one_machine() -> None:
    """Kernels are decided for a machine: in all tests the same one, wherever they run, whatever was tuned there."""
    wf.config.machine = replace(wf.Machine(), identity=wf.Machine.here().identity)
    wf.config.tuned = ""


@pytest.fixture
def shared_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of this run: what the tests of several modules compile is compiled once."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path_factory.getbasetemp() / "shared"))


def pytest_collection_finish() -> None:
    """Ten thousand tests live to the end: looking for garbage need not look at them every time.

    What is new is looked at while it is still in the processor's caches: that takes half as long.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor at what lives on from the modules before: tests that collect garbage themselves collect that of their own."""
    if nextitem is None or item.path != nextitem.path:
        gc.collect()
        gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


def safe_name(name: str) -> str:
    """`test_x[ij=>ji]` -> `test_x-ij_ji-<digest>`; the digest keeps two ids apart that look alike once cleaned."""
    plain = re.sub(r"\[([\w.-]+)\]$", r"-\1", name, flags=re.ASCII)
    clean = re.sub(r"[^\w.-]+", "_", re.sub(r"\[(.*)\]$", r"-\1", name), flags=re.ASCII).strip("_.")
    if clean == plain and len(clean) <= LONGEST_NAME:
        return clean
    return f"{clean[:LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def compare(path: Path, text: str) -> None:
    shown = path.relative_to(TESTS.parent)
    if not path.exists():
        pytest.fail(f"no golden file {shown}: run pytest with --update-golden to write it", pytrace=False)
    expected = path.read_bytes().decode()
    if text != expected:
        old, new = (s.split("\n") for s in (expected, text))
        diff = "\n".join(difflib.unified_diff(old, new, str(shown), "this run", lineterm=""))
        pytest.fail(f"text differs from its golden file (--update-golden accepts it)\n{diff}", pytrace=False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(text)` compares with tests/golden/<test module>/<test name>.txt; `name=` gives another file name.

    A module in a subfolder of tests/ has its golden files in the same subfolder of tests/golden/. Files end
    in one newline whether or not the text does.
    """
    module = request.path.relative_to(TESTS).with_suffix("")
    test_name = request.node.nodeid.split("::", 1)[1].replace("::", ".")
    seen: set[str] = set()

    def check(text: str, name: str | None = None) -> None:
        stem = safe_name(test_name if name is None else name)
        assert stem not in seen, f"golden file {stem!r} used twice in one test: give each text its own name="
        seen.add(stem)
        path = TESTS / "golden" / module / f"{stem}.txt"
        text = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        else:
            compare(path, text)

    return check
