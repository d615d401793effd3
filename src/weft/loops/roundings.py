"""How often a term of a sum in single precision is rounded at most, by half an ε of all sizes each time.

docs/precisions.md promises 40 ε of the sum of sizes, however many terms there are. Terms are added up in partial
accumulators, those in another, and the rest in double precision, which rounds once more. So are these shared out:

    in a partial accumulator    64     the products of a register, the terms of a lane, of a cell, of a strip
    in what joins them          14     the first of these is exact: it is added to nothing
    at the end                   2     from double precision; to what the sum starts from
"""

from __future__ import annotations

#: So many times a term is rounded on its way into a sum.
ROUNDINGS = 80
#: So many terms a partial accumulator takes, and so many of those sums another.
PARTS = (64, 14)
