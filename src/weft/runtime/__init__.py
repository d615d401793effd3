"""Where code runs."""

from weft.runtime.context import Context
from weft.runtime.device import Device, Stream
from weft.runtime.events import Event
from weft.runtime.function import Function, Pending
from weft.runtime.routine import Routine

__all__ = ["Context", "Device", "Event", "Function", "Pending", "Routine", "Stream"]
