"""Training: what goes around a step."""

from typing import NoReturn

from weft.migration_hints import no_training
from weft.public import open_door, public
from weft.train.evaluation import accuracy, evaluate, predict
from weft.train.fitting import fit
from weft.train.history import EpochRecord, History
from weft.train.parallel import DataParallel, data_parallel
from weft.train.stepping import TrainStep, step

__all__ = [
    "DataParallel",
    "History",
    "EpochRecord",
    "TrainStep",
    "accuracy",
    "data_parallel",
    "evaluate",
    "fit",
    "predict",
    "step",
]

open_door(globals(), __all__)


@public
def __getattr__(name: str) -> NoReturn:
    raise no_training(name, __all__)
