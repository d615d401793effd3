"""What a change costs: this tree against another revision, in one run.

    python bench/versus.py REV                    a table, some ten minutes
    python bench/versus.py REV --quick            fewer rounds
    python bench/versus.py REV --only product     figures whose names contain that

The sources of the revision are laid out beside this tree, and the same benchmarks run on both: importing, building
and closing shapes, compiling cold and warm, calling, products and sums. Both are asked for one figure after the other,
in turns, so that a disturbance does not hit one alone; the best round counts. Imports and compilations are each a
process of its own, of which processor time is counted, also that of the C compiler. The status is 1 if anything takes
more than `LIMIT` times as long as before.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, process_time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HERE = Path(__file__).resolve().parent
LIMIT = 1.05
ROUNDS, QUICK_ROUNDS = 15, 3
#: How long one kernel runs, in seconds, to be timed.
WHILE_S = 0.01

PRODUCTS = (
    "product 128×512×512",
    "product 512×512×512",
    "product 1024×1024×1024",
    "product 64×784×256 right_transposed",
    "product 256×64×784 left_transposed",
    "layer 64×784×256",
    "layer 32×1024×1024",
)
SUMS = {"rows": "i,j=>i", "columns": "i,j=>j", "all": "i,j=>0"}
MODELS = ("mlp", "cnn", "gpt")

#: A figure by name: seconds, measured once.
Figures = dict[str, Callable[[], float]]


# In a process that has one of the two


def kept_figures() -> Figures:
    """What one process measures again and again."""
    import overhead
    from _peers import numbers
    from _peers.contestants import made_ready
    from _peers.table import work

    import weft as wf

    found: Figures = {
        "shapes of 100 layers": _shapes,
        "a small step": _calls(overhead.weft_step(overhead.problem()).run),
    }
    one = wf.data(numbers(4), label="x") + 1
    found["a call"] = _repeated(wf.Context("cc").compile(one.forward))
    for text in PRODUCTS:
        ready = made_ready("weft", work(text))
        assert ready is not None
        found[text] = _repeated(ready.run)
    for name, spec in SUMS.items():
        for size in (256, 1000):
            total = wf.einsum(spec, wf.data(numbers(size, size), label="x"))
            found[f"sum of {name} of {size}x{size}"] = _repeated(wf.Context("cc").compile(total.forward))
    return found


def _shapes() -> float:
    import numpy as np

    import weft as wf

    start = process_time()
    h = wf.data(np.ones((32, 64), "float32"), batch=1, label="x")
    for layer in range(100):
        h = wf.relu(wf.param(f"w{layer}", o=64 + layer % 7) @ h + wf.param(f"b{layer}"))
    assert h.dims.output[0].size == 65
    return process_time() - start


def _repeated(work: Callable[[], object]) -> Callable[[], float]:
    def run(times: int) -> None:
        for _ in range(times):
            work()

    return _calls(run)


def _calls(run: Callable[[int], None]) -> Callable[[], float]:
    """The time of one call, of as many as take a while."""

    def measured() -> float:
        start = perf_counter()
        run(3)
        times = max(1, int(3 * WHILE_S / (perf_counter() - start)))
        start = perf_counter()
        run(times)
        return (perf_counter() - start) / times

    return measured


def answer() -> None:
    """Measure what standard input asks for, line by line."""
    known = kept_figures()
    print(json.dumps([*known]), flush=True)
    for line in sys.stdin:
        print(known[line.strip()](), flush=True)


# In the process that compares


@contextmanager
def worker(sources: Path) -> Iterator[tuple[list[str], Callable[[str], float]]]:
    """A process with these sources: what it can measure, and how to ask."""
    with (
        tempfile.TemporaryDirectory() as cache,
        subprocess.Popen(
            [sys.executable, str(HERE / "versus.py"), "--answer"],
            env=environment(sources, cache),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(name: str) -> float:
            print(name, file=process.stdin, flush=True)
            return float(process.stdout.readline())  # type: ignore[union-attr]

        yield json.loads(process.stdout.readline()), ask
        process.stdin.close()


def environment(sources: Path, cache: str) -> dict[str, str]:
    """What a process runs in: modules are compiled once, as installed ones are, and not in each process again."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PYTHONPATH": str(sources), "WEFT_CACHE": cache, "OMP_NUM_THREADS": "1"}


def imported(sources: Path) -> dict[str, float]:
    """What importing costs beyond NumPy's own import."""
    code = "import numpy; from time import process_time as t; a = t(); import weft; print(t() - a)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(sources, ""), capture_output=True, text=True, check=True
    )
    return {"import": float(done.stdout)}


def compiled(sources: Path, model: str) -> dict[str, float]:
    """Processor time until a model has made its first step, with empty caches and with full ones."""
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for state in ("cold", "warm"):
            command = [sys.executable, str(HERE / "compile.py"), "--one", "weft", model]
            done = subprocess.run(command, env=environment(sources, cache), capture_output=True, text=True, check=True)
            figure = json.loads(done.stdout.splitlines()[-1])
            found[f"compile {model}, {state}"] = figure["python"] + figure["compiler"]
    return found


def laid_out(revision: str, folder: Path) -> Path:
    """The sources of a revision in a folder."""
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=HERE.parent, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def measure(trees: dict[str, Path], rounds: int, only: str) -> dict[str, dict[str, float]]:
    """The best of all rounds, by figure and tree."""
    best: dict[str, dict[str, float]] = {}

    def note(tree: str, found: dict[str, float]) -> None:
        for name, seconds in found.items():
            if only in name:
                best.setdefault(name, {})[tree] = min(seconds, best.get(name, {}).get(tree, seconds))

    with ExitStack() as stack:
        bar = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        asked = {tree: stack.enter_context(worker(sources)) for tree, sources in trees.items()}
        names = [name for name in asked["now"][0] if only in name]
        fresh = [model for model in MODELS if only in f"compile {model}, cold warm" or only in f"compile {model}, warm"]
        task = bar.add_task("", total=rounds)
        for turn in range(rounds):
            order = sorted(trees, reverse=turn % 2 == 1)
            for name in names:
                bar.update(task, description=name)
                for tree in order:
                    note(tree, {name: asked[tree][1](name)})
            for tree in order if only in "import" else ():
                note(tree, imported(trees[tree]))
            for model in fresh if turn < (rounds + 2) // 3 else ():
                bar.update(task, description=f"compile {model}")
                for tree in order:
                    note(tree, compiled(trees[tree], model))
            bar.advance(task)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare this tree's figures with those of another revision.")
    parser.add_argument("revision", nargs="?", default="HEAD", help="what to compare with; HEAD if not given")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, not {ROUNDS}")
    parser.add_argument("--only", default="", help="figures whose names contain this")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        trees = {"before": laid_out(arguments.revision, Path(folder)), "now": HERE.parent / "src"}
        best = measure(trees, QUICK_ROUNDS if arguments.quick else ROUNDS, arguments.only)
    table = Table("figure", "before, µs", "now, µs", "ratio")
    ratios = {name: found["now"] / found["before"] for name, found in best.items()}
    for name, found in best.items():
        style = "red" if ratios[name] > LIMIT else ""
        table.add_row(name, *(f"{1e6 * found[tree]:,.2f}" for tree in trees), f"{ratios[name]:.3f}", style=style)
    Console().print(table)
    return int(any(ratio > LIMIT for ratio in ratios.values()))


if __name__ == "__main__":
    sys.exit(main())
