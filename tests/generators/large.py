"""Programs of the sizes that people have: whatever these are, and however many cores there are, they compile.

Caches overflow, rows are long, there is work for threads: lines that small programs never cross. What is compiled is
checked after every pass, with its gradient, and not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import weft as wf
from backends.interpreted import OnProcessor
from weft.loops import MalformedLoops

#: What keeps the axis that it works along, and what ends with it.
KEEPING: dict[str, Callable[[wf.Tensor], wf.Tensor]] = {
    "softmax": wf.softmax,
    "log_softmax": wf.log_softmax,
    "cumsum": wf.cumsum,
    "layer_norm": lambda x: wf.nn.layer_norm(label="norm")(x),
    "rms_norm": lambda x: wf.nn.rms_norm(label="norm")(x),
    "gelu": wf.gelu,
    "linear": lambda x: wf.nn.linear(o=200, label="linear")(x),
}
ENDING: dict[str, Callable[[wf.Tensor], wf.Tensor]] = {
    "var": wf.var,
    "logsumexp": wf.logsumexp,
    "top_k": lambda x: wf.top_k(x, 3)[0],
    "max": wf.max,
    "turned": lambda x: wf.einsum("...|i => i|...", x),
}


def check(rng: np.random.Generator) -> None:
    sizes = [int(one) for one in rng.choice([1, 3, 8, 33, 64, 128], int(rng.choice([0, 1, 2, 2, 3, 3])))]
    shape = (*sizes, int(rng.choice([7, 200, 513, 1024, 4096])))
    x: wf.Tensor = wf.param("x", b=sizes, o=shape[-1], init=0.5)
    names = [str(one) for one in rng.choice(list(KEEPING), int(rng.integers(0, 3)))]
    names.append(str(rng.choice([*KEEPING, *ENDING])))
    for name in names:
        x = (KEEPING | ENDING)[name](x)
    loss = wf.sum(wf.sin(x), "...|... => 0")
    machine = replace(wf.Machine(), cores=int(rng.integers(1, 5)))
    options = wf.config.options.but(machine=machine, verify=True)
    for code, kept in ((x.forward, [x]), (wf.grad_update(loss), [loss])):
        try:
            wf.Context(OnProcessor()).compile(code, keep=kept, options=options)
        except (wf.WeftError, MalformedLoops) as error:
            raise AssertionError(f"{' '.join(names)} of {list(shape)} on {machine.cores} cores") from error
