"""Generators of random programs, each with what must hold of every program it draws.

A generator is a module of this folder with one public function, `check(rng)`: it draws a program from a NumPy random
generator, runs it and raises an AssertionError that shows the program where something does not hold. The suite tries
a few draws of each; a campaign tries as many as one likes:

    python -m generators --seed 1 --count 5000            # from tests/, every generator
    python -m generators --only shapes --draw 1:4711      # one draw of one generator again
    python -m generators --simt --count 25                # on the SIMT threads of a GPU, which run on the host
    python -m generators --grid --count 25                # cut into launches of a GPU, which are interpreted
    python -m generators --triton --count 25              # and run as Triton's text, in Triton's interpreter
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

import numpy as np

import weft as wf
from generators._settings import drawn

Check = Callable[[np.random.Generator], None]


def generators() -> dict[str, Check]:
    """Every generator by name."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: import_module(f"{__name__}.{name}").check for name in names}


def draw(seed: int, number: int) -> np.random.Generator:
    """The random numbers of one draw: independent of all other draws, and the same at every run."""
    return np.random.default_rng([seed, number])


def attempt(check: Check, seed: int, number: int) -> None:
    """Check one draw: every other one with what weft chooses, the others with the lines that passes draw drawn too."""
    settings = drawn(np.random.default_rng([seed, number, 1])) if number % 2 else {}
    with wf.config.using(verify=True, **settings):
        check(draw(seed, number))
