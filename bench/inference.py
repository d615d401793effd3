"""What inference costs: shapes and loops of whole graphs, and whether the cost grows with more than their size.

    python bench/inference.py            a table, a minute or two
    python bench/inference.py --quick    fewer rounds

Operations are counted without the terminals (data, parameters) they read, whose cost is in the figure all the same.
Each round starts with empty caches and runs every graph at every size, so that a disturbance does not hit one size
alone; the best round counts. The status is 1 if the largest size costs more than `LIMIT` times the one before.

Python's garbage collector is off while the phases are timed: a full pass falls into a run or not by the number of
objects alive in the whole process, so that the growth between two sizes would depend on where the passes happen to
fall. What the user pays, with the collector on, is in the last columns.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import process_time
from types import ModuleType

from rich.console import Console
from rich.progress import track
from rich.table import Table

from weft.einsum.parse import parse_spec
from weft.project.coverage import is_injective, is_surjective
from weft.project.plan import project
from weft.shape.cells import ShapeVar
from weft.shape.close import close_all
from weft.shape.infer import Operation, infer
from weft.shape.logic import Compose, Constant, Einsum, Literal, Logic, Parameter, Pointwise
from weft.shape.nodes import Dim, Shape

SIZES = (250, 1000, 4000)
LIMIT = 5.0
PHASES = ("infer", "close", "project", "exact")
ROUNDS, QUICK_ROUNDS = 5, 2


# Graphs


@dataclass(slots=True)
class Graph:
    """The operations applied so far; terminals are not counted among them."""

    operations: list[Operation] = field(default_factory=list)

    def apply(self, logic: Logic, *operands: ShapeVar) -> ShapeVar:
        self.operations.append(infer(logic, operands))
        return self.operations[-1].result

    def pointwise(self, *operands: ShapeVar) -> ShapeVar:
        return self.apply(Pointwise(len(operands)), *operands)

    def compose(self, weight: ShapeVar, operand: ShapeVar) -> ShapeVar:
        return self.apply(Compose(), weight, operand)

    def einsum(self, spec: Einsum, *operands: ShapeVar) -> ShapeVar:
        return self.apply(spec, *operands)


def literal(batch: Sequence[int], output: Sequence[int]) -> ShapeVar:
    return infer(Literal(Shape(dims(*batch), (), dims(*output))), name="data").result


def parameter(*output: int) -> ShapeVar:
    """A parameter; without sizes its outputs are inferred, as its inputs always are."""
    return infer(Parameter(output=dims(*output) if output else None), name="parameter").result


def dims(*sizes: int) -> tuple[Dim, ...]:
    return tuple(map(Dim, sizes))


def biases(count: int) -> Graph:
    """h = f(h + b): every bias takes its shape from h."""
    graph, h = Graph(), literal((32,), (64, 128))
    for _ in range(count):
        h = graph.pointwise(h, parameter())
    return graph


def known_last(count: int) -> Graph:
    """The same chain from a start that fits any shape: nothing is known until the last operation says it."""
    graph, h = Graph(), infer(Constant(), name="start").result
    for _ in range(count - 1):
        h = graph.pointwise(h, parameter())
    graph.pointwise(h, literal((32,), (64, 128)))
    return graph


def dense(count: int) -> Graph:
    """h = relu(w @ h + b), each layer of a width of its own that only the bias knows."""
    graph, h = Graph(), literal((32,), (784,))
    for width in range(16, 16 + count // 2):
        h = graph.pointwise(graph.compose(parameter(), h), parameter(width))
    return graph


SUM = Einsum(parse_spec("...|d=>...|"))
SQUARES = Einsum(parse_spec("...|d;...|d=>...|"))
SCORES = Einsum(parse_spec("...t|he;...s|he=>...t|sh"))
OVER_KEYS = Einsum(parse_spec("...|sh=>...|h"))
ATTEND = Einsum(parse_spec("...t|sh;...s|he=>...t|he"))
LAYER = 21  # operations of one layer of the transformer


@dataclass(frozen=True, slots=True)
class Widths:
    heads: int
    head: int
    hidden: int


def transformer(count: int) -> Graph:
    """A decoder of equal layers: 12 of them at the smallest size."""
    return decoder(Widths(8, 64, 2048) for _ in range(layers(count)))


def uneven_transformer(count: int) -> Graph:
    """A decoder whose layers all differ, so that no cached answer of one serves the next."""
    return decoder(Widths(4 + layer % 5, 32 + layer, 1024 + layer) for layer in range(layers(count)))


def layers(count: int) -> int:
    return 12 * round(count / (12 * LAYER))


def decoder(widths: Iterator[Widths]) -> Graph:
    graph, x, mask = Graph(), literal((4, 128), (512,)), literal((128,), (128, 1))
    for width in widths:
        x = graph.pointwise(x, attention(graph, layer_norm(graph, x), mask, width))
        x = graph.pointwise(x, perceptron(graph, root_norm(graph, x), width))
    return graph


def layer_norm(graph: Graph, x: ShapeVar) -> ShapeVar:
    mean, square = graph.einsum(SUM, x), graph.einsum(SQUARES, x, x)
    return graph.pointwise(x, mean, square, parameter(), parameter())


def root_norm(graph: Graph, x: ShapeVar) -> ShapeVar:
    return graph.pointwise(x, graph.einsum(SQUARES, x, x), parameter())


def attention(graph: Graph, x: ShapeVar, mask: ShapeVar, width: Widths) -> ShapeVar:
    query, key, value = (graph.compose(parameter(width.heads, width.head), x) for _ in range(3))
    scores = graph.pointwise(graph.einsum(SCORES, query, key), mask)
    return graph.compose(parameter(), graph.einsum(ATTEND, softmax(graph, scores), value))


def softmax(graph: Graph, scores: ShapeVar) -> ShapeVar:
    exponentials = graph.pointwise(scores, graph.einsum(OVER_KEYS, scores))
    return graph.pointwise(exponentials, graph.einsum(OVER_KEYS, exponentials))


def perceptron(graph: Graph, x: ShapeVar, width: Widths) -> ShapeVar:
    hidden = graph.pointwise(graph.compose(parameter(), x), parameter(width.hidden))
    return graph.compose(parameter(), hidden)


GRAPHS: dict[str, Callable[[int], Graph]] = {
    "chain of biases": biases,
    "chain, known last": known_last,
    "chain of dense layers": dense,
    "transformer": transformer,
    "transformer, uneven": uneven_transformer,
}


# Measuring


@dataclass(slots=True)
class Figure:
    """The least seconds each phase took, and the operations they were for."""

    operations: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    collected: float = float("inf")  # all phases together, with the garbage collector on

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def add(self, graph: Graph, times: Sequence[float]) -> None:
        self.operations = len(graph.operations)
        for phase, seconds in zip(PHASES, times, strict=True):
            self.seconds[phase] = min(seconds, self.seconds.get(phase, seconds))

    def add_collected(self, times: Sequence[float]) -> None:
        self.collected = min(self.collected, sum(times))


def measure(build: Callable[[int], Graph], count: int) -> tuple[Graph, list[float]]:
    """Build, close and project one graph from a cold start; the processor seconds of each phase."""
    clear_caches()
    gc.collect()
    marks = [process_time()]
    graph = build(count)
    marks.append(process_time())
    close_all(operation.result for operation in graph.operations)
    marks.append(process_time())
    projections = [project(operation) for operation in graph.operations]
    marks.append(process_time())
    for projection in projections:
        is_injective(projection)
        is_surjective(projection)
    marks.append(process_time())
    return graph, [end - start for start, end in pairwise(marks)]


@contextmanager
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def clear_caches() -> None:
    for cached in caches():
        cached.cache_clear()  # type: ignore[attr-defined]


def caches() -> list[object]:
    """Every cached function of the rooms measured, whatever its name."""
    rooms = [module for name, module in sys.modules.items() if name.startswith(("weft.shape", "weft.project"))]
    return [item for module in rooms for item in vars(module).values() if is_cache(item, module)]


def is_cache(item: object, module: ModuleType) -> bool:
    return hasattr(item, "cache_clear") and getattr(item, "__module__", None) == module.__name__


def run(rounds: int) -> dict[tuple[str, int], Figure]:
    figures = {(name, count): Figure() for name in GRAPHS for count in SIZES}
    for _ in track(range(rounds), "measuring", console=Console(stderr=True), transient=True):
        for (name, count), figure in figures.items():
            figure.add_collected(measure(GRAPHS[name], count)[1])
            with uncollected():
                figure.add(*measure(GRAPHS[name], count))
    return figures


# Reporting


def table(figures: dict[tuple[str, int], Figure]) -> Table:
    grid = Table(title="shape and projection inference, µs per operation (×: against the size before)")
    grid.add_column("graph", no_wrap=True)
    for heading in ("ops", *PHASES, "all", "×", "with gc", "×"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for name in GRAPHS:
        before = None
        for count in SIZES:
            figure = figures[name, count]
            cells = row(figure, before)
            grid.add_row(name if before is None else "", *cells, end_section=count == SIZES[-1])
            before = figure
    return grid


def row(figure: Figure, before: Figure | None) -> list[str]:
    seconds = [*(figure.seconds[phase] for phase in PHASES), figure.total, figure.collected]
    *phases, collected = (f"{1e6 * one / figure.operations:.1f}" for one in seconds)
    growth = f"{figure.total / before.total:.2f}" if before else ""
    collected_growth = f"{figure.collected / before.collected:.2f}" if before else ""
    return [str(figure.operations), *phases, growth, collected, collected_growth]


def growth(figures: dict[tuple[str, int], Figure], name: str) -> float:
    """How many times the size before it the largest size costs; it has 4 times the operations."""
    return figures[name, SIZES[-1]].total / figures[name, SIZES[-2]].total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, not {ROUNDS}")
    parser.add_argument("--rounds", type=int, help="as many rounds as this")
    arguments = parser.parse_args()
    figures = run(arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS))
    console = Console(width=120 if not sys.stdout.isatty() else None)
    console.print(table(figures))
    worst = max(GRAPHS, key=lambda name: growth(figures, name))
    times = growth(figures, worst)
    verdict = f"{SIZES[-1]} operations cost at most {times:.2f} times {SIZES[-2]} ({worst}); the limit is {LIMIT:g}"
    console.print(verdict, style="green" if times <= LIMIT else "bold red", highlight=False)
    return 0 if times <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
