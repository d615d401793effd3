"""Where code runs."""

from weft.runtime.context import Context
from weft.runtime.device import Device, Stream
from weft.runtime.events import Event
from weft.runtime.function import Function, Pending
from weft.runtime.routine import Routine
from weft.runtime.state import Restored

__all__ = ["Context", "Device", "Event", "Function", "Pending", "Restored", "Routine", "Stream"]
