"""Optimisers, written as code, and what stands around them: schedules, clipping, accumulation, averages."""

from __future__ import annotations

from typing import NoReturn

from weft.migration_hints import no_optimiser
from weft.optim.accumulation import accumulate
from weft.optim.adam_family import adam, adam_one, adamw, adamw_one, lamb, lamb_one
from weft.optim.averaging import Average, ema
from weft.optim.clipping import clip_by_norm, clip_by_value
from weft.optim.gradient_descent import lion, lion_one, sgd, sgd_one
from weft.optim.orthogonal_momentum import muon, muon_one
from weft.optim.rmsprop_adagrad import adagrad, adagrad_one, rmsprop, rmsprop_one
from weft.optim.schedules import constant, cosine, join, linear, one_cycle, step, warm_up
from weft.public import open_door, public

_OPTIMISERS = ("sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "lamb", "muon")

__all__ = [
    "Average",
    "accumulate",
    "adagrad",
    "adagrad_one",
    "adam",
    "adam_one",
    "adamw",
    "adamw_one",
    "clip_by_norm",
    "clip_by_value",
    "constant",
    "cosine",
    "ema",
    "join",
    "lamb",
    "lamb_one",
    "linear",
    "lion",
    "lion_one",
    "muon",
    "muon_one",
    "one_cycle",
    "rmsprop",
    "rmsprop_one",
    "sgd",
    "sgd_one",
    "step",
    "warm_up",
]


@public
def __getattr__(name: str) -> NoReturn:
    raise no_optimiser(name, _OPTIMISERS, __all__)


open_door(globals(), __all__)
