"""Training: what goes around a step."""

from weft.public import open_door
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
