"""Nodes and code are values: they cannot be written to, and what is found out later stands in cells."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from functools import partial

import numpy as np
import pytest

import weft as wf
from generators.plain import functions
from weft.assign import Cells, Copied, Data, Extent, Fetch, Node, statements, target
from weft.assign.definitions import initial
from weft.ops import leaves


@pytest.mark.parametrize("name", [field.name for field in fields(Node)])
def test_a_node_cannot_be_written_to(name: str) -> None:
    node = wf.node("m").node
    with pytest.raises(FrozenInstanceError):
        setattr(node, name, None)


def test_renaming_a_tensor_writes_the_cell_of_its_name() -> None:
    t = wf.data(np.ones(3)) + 1
    before, name = t.node, t.node.name
    assert (name.text, name.inline) == ("add", True)
    assert t.named("t") is t
    assert t.node is before
    assert before.name is name
    assert (before.label, name.inline, before.shape.name) == ("t", False, "t")


def test_a_declared_node_is_called_after_what_it_is_first_computed_from() -> None:
    w, m = wf.param("w", o=2, i=2), wf.node("m")

    @wf.cd
    def code() -> None:
        m[:] = w * 2.0
        m[:] = w @ m

    assert str(code()) == 'm.w =: w *. 2.0;\nm.w =:+ w * m.w ~logic:"@"'
    assert (m.node.name.text, m.node.name.after) == ("m.w", "w")


def test_a_definition_mentions_its_node_and_is_given_once() -> None:
    node = wf.constant(2.0).node
    assert isinstance(node.definition, Fetch)
    assert node.definition.node is node
    with pytest.raises(AssertionError, match="2 is defined already"):
        node.defined(wf.seq())


def test_first_values_are_data_and_become_code_when_asked() -> None:
    x = wf.data(np.ones((2, 2), "float32"), input=1, label="x")
    given, filled = wf.param("g", init=np.ones(3)), wf.param("f", init=0.5, o=3)
    computed = wf.param("c", init=x * 2.0)
    assert [type(one.node.init) for one in (x, given, filled, computed)] == [Data, Data, Cells, Copied]
    assert str(initial(filled.node)) == "f =: 0.5"
    assert str(initial(computed.node)) == 'mul =: x *. 2.0;\nc =: mul ~logic:"...|...->... => ...|...->..."'
    assert str(initial(wf.node("m").node)) == ""


def test_a_number_from_sizes_is_an_expression_that_waits_for_them() -> None:
    x = wf.param("x", b=())
    s = wf.einsum("...|d => ...|0", x)
    size = wf.dim(s, "d")
    again = wf.dim(s, "d")
    assert size == again
    assert hash(size) == hash(again)
    w = wf.param("w", init=wf.kaiming(3.0, "normal"))
    y = w @ wf.data(np.ones((5, 8), "float32"), batch=1) + wf.data(np.ones(2, "float32"))
    assert isinstance(w.node.init, Cells)
    (spread,) = [one for one in leaves(w.node.init.value) if isinstance(one, Extent)]
    assert y.dims.output[0].size == 2
    assert spread.number == 3.0 * (2 / 8) ** 0.5
    assert spread.label == "kaiming"


def test_an_initialiser_may_use_how_many_inputs_and_outputs_there_are() -> None:
    w = wf.param("w", o=[2, 3], i=5, init=lambda cell: cell.inputs + 1.0 / cell.outputs)
    assert str(initial(w.node)) == "w =: dim(inputs) + (1.0 / dim(outputs))"
    np.testing.assert_allclose(wf.Context("interp")[w], np.full((2, 3, 5), 5 + 1 / 6, "float32"), rtol=1e-6)


def test_what_looks_for_functions_finds_them_wherever_they_are() -> None:
    code = wf.grad_update(wf.einsum("...|...->... => 0", wf.param("w", o=2, i=2)))
    assert list(functions(code)) == []
    (written, *_) = (target(one) for one in statements(code))
    planted = replace(written.precision, rules=[{"rule": partial(max, 1)}])
    assert list(functions(planted)) == ["Precision.rules[0][rule]"]
    written.shape.steps[0].claims = len  # type: ignore[assignment]
    (found, *_) = functions(code)
    assert found.startswith("Comment.body.codes[")
    assert found.endswith(".claims")
