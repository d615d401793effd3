"""What a piece of code reads and writes, and where."""

from weft.loops.effects import found_through as found_through
from weft.loops.effects import read_in as read_in
from weft.loops.effects import written_in as written_in
from weft.loops.walk import Access as Access
from weft.loops.walk import Cell as Cell
from weft.loops.walk import accesses as accesses
from weft.loops.walk import own_accesses as own_accesses
