"""Products placed by the C backend against the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from backends.contractions import Contraction, contractions
from weft.backends.cc import Cc
from weft.backends.interp import run
from weft.loops import Program, Remark, check
from weft.schedule import products


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    return made


@pytest.fixture(scope="module", autouse=True)
def all_sizes() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "WORTH", 1)
        yield


@settings(max_examples=60)
@given(contractions())
def test_products(backend: Cc, sample: Contraction) -> None:
    (staged,) = products.stage([sample.kernel], sample.kept)
    program = check(Program((Remark("", staged.body),)))
    ours, meant = sample.memory(), sample.memory()
    run(check(Program(sample.kernel.body)), meant)
    backend.compile(program).bind(ours)({})
    sample.agree(ours, meant)
