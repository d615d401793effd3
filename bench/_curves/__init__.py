"""The models of `bench/curves.py` in weft and in PyTorch, and their training curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import weft as wf
from weft.nn import StoredWeight

BATCHES, BATCH, CLASSES, TIME, WIDTH, HEADS = 5, 16, 4, 6, 8, 2

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Contest:
    """A model in both libraries: where its weights are, what it is given, and who moves them."""

    model: Any
    module: nn.Module
    names: dict[str, Any]
    inputs: Callable[[np.random.Generator], Array]
    optimise: Callable[[wf.Tensor], wf.Code]
    optimiser: Callable[[Any], torch.optim.Optimizer]
    axes: tuple[str, ...] = ("batch",)  # of the inputs, and of the labels
    labelled: tuple[str, ...] = ("batch",)

    def batches(self) -> list[tuple[Array, Array]]:
        random = np.random.default_rng(1)
        return [
            (self.inputs(random), random.integers(0, CLASSES, (BATCH, TIME)[: len(self.labelled)]).astype("int32"))
            for _ in range(BATCHES)
        ]


def adam(loss: wf.Tensor) -> wf.Code:
    return wf.optim.adam(loss, lr=0.003)


def momentum(loss: wf.Tensor) -> wf.Code:
    return wf.optim.sgd(loss, lr=0.05, momentum=0.9)


def torch_adam(params: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, lr=0.003)


def torch_momentum(params: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=0.05, momentum=0.9)


def linear(here: str, there: str) -> dict[str, Any]:
    return {f"{here}.w": f"{there}.weight", f"{here}.b": f"{there}.bias"}


def mlp() -> Contest:
    module = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, CLASSES))
    names: dict[str, Any] = {}
    for own, theirs in (("1", 0), ("2", 2), ("_out", 4)):
        names |= {f"mlp.w{own}": f"{theirs}.weight", f"mlp.b{own}": f"{theirs}.bias"}
    model = wf.nn.mlp(hid_dims=[32, 16], o=CLASSES, label="mlp")
    return Contest(model, module, names, lambda r: r.normal(size=(BATCH, WIDTH)), momentum, torch_momentum)


@wf.op
def convolutions(images: wf.Tensor) -> wf.Tensor:
    x = wf.nn.max_pool2d(wf.relu(wf.nn.conv2d(images, out_channels=6, label="conv1")))
    x = wf.relu(wf.nn.conv2d(x, out_channels=WIDTH, stride=2, label="conv2"))
    return wf.nn.linear(wf.nn.global_avg_pool(x), o=CLASSES, label="head")  # type: ignore[no-any-return]


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, WIDTH, 3, stride=2, padding=1)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.conv1(images.movedim(-1, 1)).relu(), 2)
        found: torch.Tensor = self.head(self.conv2(x).relu().mean((2, 3)))
        return found


def cnn() -> Contest:
    names = linear("cnn.head", "head")
    for name in ("conv1", "conv2"):
        names |= {f"cnn.{name}.kernel": StoredWeight(f"{name}.weight", window=2), f"cnn.{name}.bias": f"{name}.bias"}
    model, module = convolutions(label="cnn"), Convolutions()
    return Contest(model, module, names, lambda r: r.normal(size=(BATCH, 8, 8, 3)), adam, torch_adam)


@wf.op
def reader(x: wf.Tensor) -> wf.Tensor:
    _, (h, _) = wf.nn.lstm(x, hid_dim=WIDTH, label="lstm")
    return wf.nn.linear(h, o=CLASSES, label="head")  # type: ignore[no-any-return]


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, WIDTH, batch_first=True), nn.Linear(WIDTH, CLASSES)
        self.lstm.bias_hh_l0.requires_grad = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.lstm(x)[1][0][0])
        return found


def lstm() -> Contest:
    names = linear("reader.head", "head") | wf.nn.recurrent_names("lstm", label="reader.lstm", prefix="lstm.")
    model, module = reader(label="reader"), Reader()
    return Contest(model, module, names, lambda r: r.normal(size=(BATCH, TIME, 3)), adam, torch_adam, ("batch", "time"))


class Transformer(nn.Module):
    """A model of text in PyTorch's layers: learned positions, norms first, a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True, dtype=torch.float64
        )
        self.tokens, self.positions = nn.Embedding(CLASSES, WIDTH), nn.Embedding(TIME, WIDTH)
        self.stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions.weight
        hidden = nn.Transformer.generate_square_subsequent_mask(TIME, dtype=torch.float64)
        found: torch.Tensor = self.head(self.stack(x, mask=hidden))
        return found


def transformer() -> Contest:
    model = wf.nn.gpt(
        vocab_size=CLASSES,
        max_len=TIME,
        d_model=WIDTH,
        num_layers=2,
        num_heads=HEADS,
        tied=False,
        style=wf.nn.TransformerStyle(activation="gelu"),
        label="gpt",
    )
    names: dict[str, Any] = {"gpt.tokens": "tokens.weight", "gpt.positions.table": "positions.weight"}
    names |= {"gpt.head": "head.weight"} | wf.nn.transformer_names(2, label="gpt", prefix="stack.")

    def inputs(random: np.random.Generator) -> Array:
        return random.integers(0, CLASSES, (BATCH, TIME)).astype("int32")

    return Contest(model, Transformer(), names, inputs, adam, torch_adam, ("batch", "time"), ("batch", "time"))


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "transformer": transformer}


def curves(contest: Contest, steps: int) -> tuple[Array, Array, float]:
    """The losses of both, and how far their weights lie apart in the end."""
    batches, model = contest.batches(), contest.model
    x, y = batches[0]
    own_x = wf.input("x", b=contest.axes, o=x.shape[len(contest.axes) :] or None, dtype=str(x.dtype))
    own_y = wf.input("y", b=contest.labelled, dtype="int32")
    loss = wf.nn.cross_entropy(model(own_x), own_y)
    ctx = wf.Context()
    step = ctx.function(own_x, own_y, code=wf.seq(wf.grad_update(loss), contest.optimise(loss)), returns=loss)
    module = contest.module.double()
    carried = wf.nn.to_torch(ctx.state(model), contest.names)
    module.load_state_dict({name: torch.tensor(value) for name, value in carried.items()})
    optimiser = contest.optimiser([one for one in module.parameters() if one.requires_grad])
    own, theirs = [], []
    for at in range(steps):
        x, y = batches[at % BATCHES]
        own.append(step(x, y).item())
        optimiser.zero_grad()
        scores = module(torch.tensor(x))
        found = nn.functional.cross_entropy(scores.reshape(-1, CLASSES), torch.tensor(y).reshape(-1).long())
        found.backward()
        optimiser.step()
        theirs.append(found.item())
    state = {name: value.numpy() for name, value in module.state_dict().items()}
    trained = wf.nn.from_torch(state, contest.names, model)
    apart = max(np.abs(ctx.state(model)[label] - value).max() for label, value in trained.items())
    return np.array(own), np.array(theirs), float(apart / max(np.abs(value).max() for value in trained.values()))
