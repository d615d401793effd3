"""Training: what goes around a step."""

from weft.public import open_door
from weft.train.parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]

open_door(globals(), __all__)
