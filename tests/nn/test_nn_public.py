"""The names of the room: each shows an example, and is found by those who call it otherwise."""

# ruff: noqa: SIM905

from __future__ import annotations

import doctest
import io
import pickle
from types import FunctionType

import numpy as np
import pytest

import weft as wf

FUNCTIONS = [name for name in wf.nn.__all__ if isinstance(getattr(wf.nn, name), FunctionType)]

#: What OCANNL's library of blocks has.
OCANNL = """
    box_muller class_ids_of_int_list one_hot_of_ids one_hot_of_int_list dense_one_hot_of_int_list mlp_layer dropout mlp
    reduce_specified_axes softmax layer_norm conv2d depthwise_separable_conv2d max_pool2d avg_pool2d global_avg_pool2d
    batch_norm2d batch_norm1d conv_bn_relu resnet_block lenet vgg_block sokoban_cnn mobile_cnn
    rope_frequencies position_indices sinusoidal_position_encoding rope multi_head_attention multi_head_att_workshop
    cross_attention transformer_encoder_block decoder_only_block transformer_decoder_block transformer_encoder
    decoder_only transformer_decoder transformer transformer_with_loss
""".split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_block_shows_an_example(name: str) -> None:
    wf.seed(0)
    function = getattr(wf.nn, name)
    names = {"wf": wf, "np": np, "ctx": wf.Context("interp")}
    example = doctest.DocTestParser().get_doctest(function.__doc__ or "", names, name, None, None)
    assert any(f"wf.nn.{name}" in one.source for one in example.examples)
    printed = io.StringIO()
    doctest.DocTestRunner().run(example, out=printed.write)
    assert not printed.getvalue(), printed.getvalue()


@pytest.mark.parametrize("name", wf.nn.__all__)
def test_a_block_is_pickled_by_its_name(name: str) -> None:
    found = getattr(wf.nn, name)
    assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize("name", OCANNL)
def test_blocks_are_there_by_the_names_they_have_in_ocannl(name: str) -> None:
    assert name in wf.nn.__all__


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Linear", "write wf.nn.linear"),
        ("BatchNorm2d", "write wf.nn.batch_norm2d"),
        ("MSELoss", "write wf.nn.mse"),
        ("CrossEntropyLoss", "write wf.nn.cross_entropy"),
        ("BCEWithLogitsLoss", "write wf.nn.binary_cross_entropy"),
        ("ReLU", "write wf.relu(x)"),
        ("Dense", "write wf.nn.linear"),
        ("embeding", "write wf.nn.embedding"),
        ("Sequential", "a model is a function under @wf.op, which applies layers one after another"),
        ("Nothing_like_it", "a layer is a function under @wf.op, a parameter wf.param"),
    ],
)
def test_names_that_others_have_are_answered(name: str, fix: str) -> None:
    with pytest.raises(wf.NoSuchName) as caught:
        getattr(wf.nn, name)
    assert caught.value.what == f"wf.nn has no `{name}`"
    assert caught.value.fix == fix
