"""How long it takes until a model has made its first training step: weft, jax.jit and torch.compile.

    python bench/compile.py               a table, several minutes; most of them torch.compile's
    python bench/compile.py --layers      and how weft's time and everyone's memory grow with a transformer's layers
    python bench/compile.py --quick       one round, without torch.compile

Three models: a perceptron of 784-256-128-10 (Adam), two convolutions and a dense layer (gradient descent), a
transformer of 6 layers (gradient descent). The clock runs from arrays of data and first values to the end of the first
step: writing the model down or tracing it, differentiating, compiling, running. Imports are timed apart; so is what a
library does once, such as finding its devices. weft and jax.jit compile the whole step, torch.compile the loss and its
gradient, while its optimiser runs as it is. All must find the same losses in the first two steps.

Each figure is from a process of its own. A cold one has empty caches; a warm one has those a cold one before it left:
weft's kernels, jax's persistent cache (of everything, however quick to compile), torch's FX graph and gradient caches.
Peers take turns within a round, and the best round counts. On a busy machine processor time (CPU) tells more; what
torch's pool of compiling processes uses is not in it.

With `--layers`, Python's time is processor time of weft's process, and the C compiler's is that of the processes it
started: neither depends on what else the machine does. Memory is what training needs beyond code, in bytes:

    weft    all buffers of the routine: parameters, data, and the piece of memory for everything else
    jax     arguments, results and temporaries of the compiled step, less what shares memory because it is donated
    torch   parameters, data, gradients and state before a step, and the most that its allocator had given out more
            during it; memory that its libraries take by other ways is not counted, in its favour

The status is 1 if weft is not at least as fast as the faster peer cold, or three times as fast warm; or, with
`--layers`, if 48 layers cost the C compiler more than 1.5 times 6, or Python more than 10 times, or memory more than a
peer's. It is 2 if the peers are not installed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

MODELS = ("mlp", "cnn", "gpt")
PEERS = {"weft": "weft", "jax": "jax.jit", "torch": "torch.compile"}
QUICK_PEERS = ("weft", "jax")
DEPTHS = (6, 12, 24, 48)
ROUNDS = 3
TIME_LIMIT_S = 1800

#: Where each peer keeps what it compiled.
CACHES = {"weft": "WEFT_CACHE", "jax": "JAX_COMPILATION_CACHE_DIR", "torch": "TORCHINDUCTOR_CACHE_DIR"}
SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
}

WARM_FACTOR, COMPILER_GROWTH, PYTHON_GROWTH = 3.0, 1.5, 10.0


@dataclass(slots=True)
class Figure:
    """One process: seconds to import and to the end of the first step, and what came of it.

    `python` and `compiler` are processor seconds of the process and of those it started.
    """

    imports: float
    first: float
    python: float
    compiler: float
    losses: list[float]
    memory: int = 0
    stages: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    different: int = 0

    @property
    def processor(self) -> float:
        return self.python + self.compiler


#: Cold or warm figures of all rounds, by peer and model.
Figures = dict[tuple[str, str], list[Figure]]

#: Whether weft passes, and that in words.
Verdict = tuple[bool, str]


# One process


def one(peer: str, model: str, layers: int) -> Figure:
    """Make a training step in this process; with a number of layers, weigh it and say more, too."""
    start = perf_counter()
    module = import_module(f"_models.of_{peer}")
    module.prepare()
    imports = perf_counter() - start
    problem = import_module("_models").problem(model, layers)
    marks = perf_counter(), process_time(), children()
    ready = module.ready(model, problem)
    first, python, compiler = perf_counter() - marks[0], process_time() - marks[1], children() - marks[2]
    losses = [ready.loss()]
    ready.step()
    found = Figure(imports, first, python, compiler, [*losses, ready.loss()])
    if layers:
        found.memory = ready.memory()
        found.stages, found.kernels, found.different = asdict(ready.details()).values()
    return found


def children() -> float:
    """Processor seconds of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def started(peer: str, model: str, cache: Path, layers: int = 0) -> Figure:
    """The figure of a fresh process with its caches in a folder."""
    command = [sys.executable, str(Path(__file__)), "--one", peer, model, "--depth", str(layers)]
    environment = {**os.environ, **SETTINGS, CACHES[peer]: str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
    if done.returncode:
        raise SystemExit(f"{peer} failed on {model}:\n{done.stderr[-2000:]}")
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


# Measuring


def measure(peers: Sequence[str], rounds: int) -> tuple[Figures, Figures]:
    """Cold and warm figures of all peers on all models."""
    cold: Figures = {(peer, model): [] for model in MODELS for peer in peers}
    warm: Figures = {key: [] for key in cold}
    with progress() as bar:
        task = bar.add_task("", total=2 * rounds * len(cold))
        for _ in range(rounds):
            for key in cold:
                with tempfile.TemporaryDirectory() as cache:
                    for name, found in (("cold", cold), ("warm", warm)):
                        bar.update(task, description=f"{' '.join(key)} {name}")
                        found[key].append(started(*key, Path(cache)))
                        bar.advance(task)
    return cold, warm


def measure_layers(peers: Sequence[str], depths: Sequence[int], rounds: int) -> dict[tuple[str, int], list[Figure]]:
    """Figures of transformers of several depths, cold: of weft at every depth and round, of peers for their memory."""
    wanted = [("weft", depth) for depth in depths] * rounds
    wanted += [(peer, depth) for peer in peers if peer != "weft" for depth in (depths[0], depths[-1])]
    found: dict[tuple[str, int], list[Figure]] = {key: [] for key in wanted}
    with progress() as bar:
        task = bar.add_task("", total=len(wanted))
        for peer, depth in wanted:
            bar.update(task, description=f"{peer}, {depth} layers")
            with tempfile.TemporaryDirectory() as cache:
                found[peer, depth].append(started(peer, "gpt", Path(cache), depth))
            bar.advance(task)
    return found


def progress() -> Progress:
    return Progress(console=Console(stderr=True), transient=True)


def check(figures: Figures) -> None:
    """All find the same losses, or there is nothing to compare."""
    for (peer, model), rounds in figures.items():
        for figure in rounds:
            ours = figures["weft", model][0].losses
            pairs = zip(figure.losses, ours, strict=True)
            assert all(map(math.isfinite, figure.losses)), f"{peer} on {model}: losses {figure.losses}"
            assert all(math.isclose(*pair, rel_tol=1e-3) for pair in pairs), (
                f"the losses of {peer} on {model} are not weft's: {figure.losses}, {ours}"
            )


# Judging


def best(rounds: Iterable[Figure], what: str = "first") -> float:
    return min(getattr(figure, what) for figure in rounds)


def judge_first(figures: Figures, kind: str, factor: float) -> list[Verdict]:
    """Is weft so many times as fast to the first step as the fastest peer?"""
    return [_first(figures, model, kind, factor) for model in dict.fromkeys(model for _, model in figures)]


def _first(figures: Figures, model: str, kind: str, factor: float) -> Verdict:
    seconds = {peer: best(rounds) for (peer, of), rounds in figures.items() if of == model}
    ours = seconds.pop("weft")
    peer = min(seconds, key=seconds.__getitem__)
    times = seconds[peer] / ours
    wanted = f"{factor:g} times as fast" if factor != 1 else "at least as fast"
    text = f"{model}, {kind}: weft {ours:.2f} s, {PEERS[peer]} {seconds[peer]:.2f} s: {times:.1f} times as fast"
    return times >= factor, text if times >= factor else f"{text}, NOT {wanted}"


def judge_growth(figures: Mapping[int, Sequence[Figure]]) -> list[Verdict]:
    """Does the C compiler see layers that are alike once, and is Python's work linear?"""
    few, many = min(figures), max(figures)

    def verdict(what: str, name: str, limit: float) -> Verdict:
        small, large = best(figures[few], name), best(figures[many], name)
        text = f"{what}: {few} layers {small:.2f} s, {many} layers {large:.2f} s: {large / small:.2f} times"
        return large <= limit * small, text if large <= limit * small else f"{text}, OVER THE LIMIT of {limit:g}"

    return [verdict("C compiler", "compiler", COMPILER_GROWTH), verdict("Python", "python", PYTHON_GROWTH)]


def judge_memory(bytes_of: Mapping[tuple[str, int], int]) -> list[Verdict]:
    """Does weft need no more memory than each peer?"""
    verdicts = []
    for (peer, depth), theirs in bytes_of.items():
        if peer != "weft":
            ours = bytes_of["weft", depth]
            word = "no more than" if ours <= theirs else "MORE THAN"
            text = f"memory of {depth} layers: weft {size(ours)}, {word} {PEERS[peer]}'s {size(theirs)}"
            verdicts.append((ours <= theirs, text))
    return verdicts


# Reporting


def table(cold: Figures, warm: Figures) -> Table:
    grid = Table(title="seconds to the end of the first training step (×: against weft)")
    for heading in ("model", "peer"):
        grid.add_column(heading, no_wrap=True)
    for heading in ("imports", "cold", "×", "CPU", "warm", "×", "CPU", "first loss"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for peer, model in cold:
        times = [found[peer, model] for found in (cold, warm)]
        ours = [found["weft", model] for found in (cold, warm)]
        imports = best([*times[0], *times[1]], "imports")
        cells = [
            f"{value:.2f}"
            for one, own in zip(times, ours, strict=True)
            for value in (best(one), best(one) / best(own), best(one, "processor"))
        ]
        loss = f"{times[0][0].losses[0]:.4f}"
        grid.add_row(model if peer == "weft" else "", PEERS[peer], f"{imports:.2f}", *cells, loss)
    return grid


def layer_table(figures: Mapping[int, Sequence[Figure]]) -> Table:
    grid = Table(title="weft on a transformer: processor seconds to the first step; where a compilation's time goes")
    stages = list(next(iter(figures.values()))[0].stages)
    for heading in ("layers", "kernels", "different", "C compiler", "Python", *stages):
        grid.add_column(heading, justify="right", no_wrap=True)
    for depth, rounds in figures.items():
        figure = min(rounds, key=lambda one: one.python)
        seconds = [best(rounds, "compiler"), figure.python, *figure.stages.values()]
        grid.add_row(*map(str, (depth, figure.kernels, figure.different)), *(f"{one:.2f}" for one in seconds))
    return grid


def memory_table(bytes_of: Mapping[tuple[str, int], int]) -> Table:
    grid = Table(title="memory of a training step")
    depths = list(dict.fromkeys(depth for _, depth in bytes_of))
    grid.add_column("layers", justify="right")
    peers = list(dict.fromkeys(peer for peer, _ in bytes_of))
    for peer in peers:
        grid.add_column(PEERS[peer], justify="right")
    for depth in depths:
        grid.add_row(str(depth), *(size(bytes_of[peer, depth]) for peer in peers))
    return grid


def size(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def report(console: Console, verdicts: Iterable[Verdict]) -> bool:
    """Print what was judged; has all passed?"""
    passes = []
    for passed, text in verdicts:
        console.print(text, style="green" if passed else "bold red", highlight=False)
        passes.append(passed)
    return all(passes)


def report_first(console: Console, peers: Sequence[str], rounds: int) -> bool:
    cold, warm = measure(peers, rounds)
    check(cold)
    check(warm)
    console.print(table(cold, warm))
    return report(console, [*judge_first(cold, "cold", 1.0), *judge_first(warm, "warm", WARM_FACTOR)])


def report_layers(console: Console, peers: Sequence[str], depths: Sequence[int], rounds: int) -> bool:
    found = measure_layers(peers, depths, rounds)
    ours = {depth: rounds for (peer, depth), rounds in found.items() if peer == "weft"}
    weighed = [key for key in found if key[1] in (depths[0], depths[-1])]
    bytes_of = {key: found[key][0].memory for key in weighed}
    console.print(layer_table(ours))
    console.print(memory_table(bytes_of))
    return report(console, [*judge_growth(ours), *judge_memory(bytes_of)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="one round, without torch.compile; with --layers two depths"
    )
    parser.add_argument("--rounds", type=int, help=f"as many rounds as this, not {ROUNDS}")
    parser.add_argument("--layers", action="store_true", help="transformers of several depths, too")
    parser.add_argument("--layers-only", action="store_true", help="only those")
    parser.add_argument("--one", nargs=2, metavar=("PEER", "MODEL"), help="one first step in this process, as JSON")
    parser.add_argument("--depth", type=int, default=0, help="layers of the transformer with --one")
    arguments = parser.parse_args()
    if arguments.one:
        print("\n" + json.dumps(asdict(one(*arguments.one, arguments.depth))))
        return 0
    peers = QUICK_PEERS if arguments.quick else tuple(PEERS)
    if missing := [name for name in peers if find_spec(name) is None]:
        print(f'{" and ".join(missing)} not installed: pip install "weft[bench]"', file=sys.stderr)
        return 2
    rounds = arguments.rounds or (1 if arguments.quick else ROUNDS)
    depths = (DEPTHS[0], DEPTHS[-1]) if arguments.quick else DEPTHS
    console = Console(width=120 if not sys.stdout.isatty() else None)
    passed = arguments.layers_only or report_first(console, peers, rounds)
    if arguments.layers or arguments.layers_only:
        passed &= report_layers(console, peers, depths, rounds)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
