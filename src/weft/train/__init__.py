"""Training: what goes around a step."""

from weft.train.parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
