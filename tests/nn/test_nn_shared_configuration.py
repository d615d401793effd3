"""Layers that are configured alike: what they take is shown, checked and passed on."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import weft as wf
from weft.nn.shared_configuration import configured_as


def _scaled(user: str, x: wf.Tensor, *, by: float = 2.0, label: str = "scaled") -> wf.Tensor:
    return (x * by).named(f"{user}.{label}")


@configured_as(_scaled)
def doubled(x: wf.Tensor, *, shift: float, **config: Any) -> wf.Tensor:
    return _scaled("doubled", x, **config) + shift


def test_its_own_parameters_come_first_and_then_those_it_shares_but_for_the_label() -> None:
    shown = "(x: 'wf.Tensor', *, shift: 'float', by: 'float' = 2.0) -> 'wf.Tensor'"
    assert str(inspect.signature(doubled)) == shown
    assert doubled.__annotations__ == {"x": "wf.Tensor", "shift": "float", "by": "float", "return": "wf.Tensor"}


def test_siblings_take_the_same() -> None:
    def taken(name: str) -> str:
        return str(inspect.signature(getattr(wf.nn, name)))

    assert taken("conv1d") == taken("conv2d") == taken("conv3d")
    assert taken("conv_transpose1d") == taken("conv_transpose2d") == taken("conv_transpose3d")
    assert taken("transformer_encoder") == taken("decoder_only")
    assert taken("lstm") == taken("gru")


def test_what_a_sibling_does_not_take_is_refused_as_configuration() -> None:
    with pytest.raises(wf.WeftError, match="`conv3d` has no configuration `kernel`") as refused:
        wf.nn.conv3d(kernel=3)
    assert "its configuration is out_channels, kernel_size, stride, dilation, groups, padded, bias" in refused.value.fix
