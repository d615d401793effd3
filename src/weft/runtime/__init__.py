"""Where code runs."""

from weft.runtime.context import Context
from weft.runtime.routine import Routine

__all__ = ["Context", "Routine"]
