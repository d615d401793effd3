"""The oracle: loop programs run directly in NumPy."""

from weft.loops.interp.run import run, run_scalar

__all__ = ["run", "run_scalar"]
