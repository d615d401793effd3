"""Loops whose iterations may run in any order, or at the same time."""

from weft.loops.sites import independent as independent
