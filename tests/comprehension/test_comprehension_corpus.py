"""Every program of the corpus is read, checked and printed, and has the shapes and the values NumPy gives it."""

from __future__ import annotations

import numpy as np
import pytest

from comprehension.corpus import CORPUS, Entry
from comprehension.oracle import run
from weft.comprehension import check, infer, parse, show
from weft.comprehension.gather_checks import unproved
from weft.comprehension.signature import Template
from weft.ops.dtypes import numpy_type

NAMES = [one.name for one in CORPUS]
entries = pytest.mark.parametrize("entry", CORPUS, ids=NAMES)


def test_the_corpus_is_large_and_its_names_differ() -> None:
    assert len(CORPUS) >= 60
    assert len(set(NAMES)) == len(NAMES)


@entries
def test_prints_as_it_reads(entry: Entry) -> None:
    program = parse(entry.text)
    assert parse(show(program)) == program
    assert show(parse(show(program))) == show(program)


@entries
@pytest.mark.parametrize("variant", [0, 1])
def test_shapes_are_those_of_the_reference(entry: Entry, variant: int) -> None:
    inputs = entry.make(np.random.default_rng(variant), variant)
    ranges = infer(check(parse(entry.text)), entry.definition, {name: one.shape for name, one in inputs.items()})
    assert ranges.results == tuple(one.shape for one in entry.expected(inputs))


@entries
@pytest.mark.parametrize("variant", [0, 1])
def test_values_are_those_of_the_reference(entry: Entry, variant: int) -> None:
    inputs = entry.make(np.random.default_rng(variant), variant)
    checked = check(parse(entry.text))
    found = run(checked, entry.definition, inputs)
    types = checked[entry.definition].types
    for result, wanted in zip(checked[entry.definition].definition.results, entry.expected(inputs), strict=True):
        one = found[result.name.name]
        assert one.dtype == numpy_type(types[result.name.name])
        assert (one.dtype.kind == "f") == (wanted.dtype.kind == "f")
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-5)


@entries
def test_what_can_be_differentiated_is_a_float_that_comes_in(entry: Entry) -> None:
    params = {one.name.name: one.type.dtype for one in parse(entry.text)[entry.definition].params}
    assert set(entry.differentiable) <= {name for name, dtype in params.items() if dtype.startswith("float")}


def test_reads_that_depend_on_data_are_listed() -> None:
    listed = set()
    for entry in CORPUS:
        inputs = entry.make(np.random.default_rng(0), 0)
        template = Template(check(parse(entry.text)), entry.definition)
        extents = template.extents([inputs[one].shape for one in template.flat.params])
        if unproved(template.indirect, extents):
            listed.add(entry.name)
    assert listed == {
        "permuted_matrix", "embedding", "embedding_bag", "embedding_bag_2", "embedding_bag_concat",
        "weighted_embedding_bag", "cross_entropy",
    }  # fmt: skip
