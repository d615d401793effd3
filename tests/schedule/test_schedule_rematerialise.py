"""Values computed again late: which are, at what price, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as every
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import weft as wf
import weft.schedule as schedule
from backends.interpreted import Fusing
from effort import tries
from schedule.kernels import add, at, floats, loop, read, store
from schedule.test_schedule_random import agree
from tensor.models import Model, models
from weft.loops import Buffer, Program, Stmt
from weft.loops.nests import Nest, nests
from weft.ops import call
from weft.runtime import Routine
from weft.schedule.fusion.fuse import fused
from weft.schedule.fusion.min_cut import SINK, Network
from weft.schedule.fusion.rematerialise import rematerialised
from weft.schedule.nodes import as_kernels

N = 64
NAMES = "XWUGHYZDEF"
X, W, U, G, H, Y, Z, D, E, F = (floats(number, name, N, N) for number, name in enumerate(NAMES))


#: Compute all that can be computed again, wherever that saves a byte, past any sum.
EAGER = {"large_contraction_points": 1, "reuse": 0, "recompute_share": 0.0, "recompute_operations": 1 << 20}


@pytest.fixture
def eager() -> Iterator[None]:
    with wf.config.using(**EAGER):
        yield


def product(target: Buffer, left: Buffer, right: Buffer) -> list[Stmt]:
    clear = loop("i", N, loop("j", N, store(target, at("i", "j"), 0.0)))
    term = call("mul", read(left, "i", "k"), read(right, "k", "j"))
    return [clear, loop("i", N, loop("j", N, loop("k", N, add(target, at("i", "j"), term))))]


def pointwise(target: Buffer, op: str, *sources: Buffer, size: int = N) -> list[Stmt]:
    value = call(op, *(read(one, "i", "j") for one in sources))
    return [loop("i", size, loop("j", N, store(target, at("i", "j"), value)))]


#: U, then G and H from it, two products, and G and H again.
PARTS: Mapping[str, list[Stmt]] = {
    "u": product(U, X, W),
    "g": pointwise(G, "sqrt", U),
    "h": pointwise(H, "mul", U, G),
    "y": product(Y, H, W),
    "z": product(Z, Y, W),
    "d": pointwise(D, "mul", Z, G),
    "e": pointwise(E, "mul", D, H),
    "f": product(F, E, W),
}


def written(**changes: list[Stmt]) -> list[Nest]:
    """The program with some of its parts replaced; what is new comes before `d`."""
    parts = {**PARTS, **changes}
    order = [*[name for name in "ughyz" if name in PARTS], *(name for name in changes if name not in PARTS), *"def"]
    return nests(Program(tuple(stmt for name in order for stmt in parts[name])))


def copied(parts: list[Nest], *outside: Buffer) -> set[str]:
    return {buffer.name for buffer in rematerialised(parts, {F, *outside}, wf.config.options).copies}


# What is computed again


def test_what_follows_cheaply_from_what_is_held_is_computed_again() -> None:
    before = written()
    found = rematerialised(before, {F}, wf.config.options)
    assert {copy.name: of.name for copy, of in found.copies.items()} == {"G.again": "G", "H.again": "H"}
    assert {copy.name: why for copy, why in found.why.items()} == {
        "G.again": "recomputed, not kept alive: 1 operation on `U`",
        "H.again": "recomputed, not kept alive: 1 operation on `U` and `G.again`",
    }
    order = [nest.target.name for nest in found.nests]
    assert order == [*"UUGHYYZZ", "G.again", "D", "H.again", *"EFF"]  # each just before it is read
    assert list(found.nests[:8]) == list(before[:8])
    reads = {nest.target.name: {one.buffer.name for one in nest.reads} for nest in found.nests}
    assert (reads["D"], reads["E"]) == ({"Z", "G.again"}, {"D", "H.again"})
    assert {one.name for one in found.late} == {"G.again", "H.again", "D", "E"}


def test_nothing_is_computed_again_for_memory_that_is_free() -> None:
    held = sum(4 * N * N for _ in "GH")  # past both products; U comes in their place
    for free_bytes, copies in ((held - 1, 2), (held, 0)):
        assert len(rematerialised(written(), {F}, wf.config.options, free_bytes).copies) == copies


def test_what_is_in_memory_anyway_costs_nothing() -> None:
    parts = written(e=pointwise(E, "mul", D, D))
    assert copied(parts) == set()  # U or G must be held, and to hold G takes no operations
    assert copied(parts, U) == {"G.again"}
    assert copied(written(), G, H) == set()


def test_a_copy_of_what_is_given_costs_nothing() -> None:
    """Whoever reads it may read what is given; one of what is written holds that, or is held."""
    for source, copies in ((X, set()), (U, {"G.again", "H.again"})):
        g = [loop("i", N, loop("j", N, store(G, at("i", "j"), read(source, "i", "j"))))]
        assert copied(written(g=g)) == copies


def test_what_is_not_held_past_products_stays() -> None:
    v, w = floats(20, "V", N, N), floats(21, "V2", N, N)
    near = {"v": pointwise(v, "neg", Z), "w": pointwise(w, "sqrt", Z)}  # Z could be held instead of both
    parts = written(**near, d=pointwise(D, "fma", v, G, v), e=pointwise(E, "fma", D, H, w))
    assert copied(parts) == {"G.again", "H.again"}


def test_every_place_where_much_is_held_is_relieved() -> None:
    more = dict(zip(NAMES, (floats(100 + n, f"{name}2", N, N) for n, name in enumerate(NAMES)), strict=True))
    second = [*product(more["U"], F, W), *pointwise(more["G"], "sqrt", more["U"])]
    second += pointwise(more["H"], "mul", more["U"], more["G"])
    second += [*product(more["Y"], more["H"], W), *product(more["Z"], more["Y"], W)]
    second += [*pointwise(more["D"], "mul", more["Z"], more["G"]), *pointwise(more["E"], "mul", more["D"], more["H"])]
    second += product(more["F"], more["E"], W)
    both = [*written(), *nests(Program(tuple(second)))]
    assert copied(both, more["F"]) == {"G.again", "H.again", "G2.again", "H2.again"}


CHANGES: dict[str, dict[str, list[Stmt]]] = {
    "from what has changed": {"late": pointwise(U, "neg", U)},
    "sums": {"g": product(G, U, W)},
    "what is written in parts": {"g": pointwise(G, "sqrt", U, size=N - 1)},
    "what is written twice": {"h": [*pointwise(H, "mul", U, G), *pointwise(H, "sqrt", H)]},
    "what saves nothing": {"d": pointwise(D, "mul", Z, H)},
    "what no products come between": {"y": pointwise(Y, "neg", H), "z": pointwise(Z, "neg", Y)},
}


@pytest.mark.parametrize("what", CHANGES)
def test_not_computed_again(what: str) -> None:
    assert copied(written()) == {"G.again", "H.again"}
    assert copied(written(**CHANGES[what])) == set()


def test_what_takes_many_operations_is_held() -> None:
    chain = [*pointwise(G, "sqrt", U), *(stmt for _ in range(4) for stmt in pointwise(G, "sqrt", G))]
    value = read(U, "i", "j")
    for _ in range(9):
        value = call("sqrt", value)  # type: ignore[assignment]
    costly = [loop("i", N, loop("j", N, store(G, at("i", "j"), value)))]
    assert copied(written(g=costly)) == set()  # they count for 72, for a number of 4 bytes
    assert copied(written(g=chain)) == set()


def test_what_a_change_comes_after_is_computed_before_it() -> None:
    """A parameter that is updated once nobody needs its old value any more does not hinder."""
    assert copied([*written(), *nests(Program(tuple(pointwise(U, "neg", U))))]) == {"G.again", "H.again"}


def test_copies_are_stored_only_where_that_saves_work() -> None:
    """Products read stored copies; other readers compute them, unless they cost more than a few operations."""
    parts = Program(tuple(stmt for name in "ughyzdef" for stmt in PARTS[name]))
    more = [*pointwise(Y, "add", D, H), *product(X, H, W)]
    verdicts = schedule.schedule(
        Program((*parts.body, *more)), schedule.Task({F: "kept", X: "kept", Y: "kept"})
    ).verdicts
    found = {one.name: verdict for one, verdict in verdicts.items() if one.name.endswith(".again")}
    assert {name: verdict.stored for name, verdict in found.items()} == {"G.again": True, "H.again": True}
    light = schedule.schedule(Program((*parts.body, *more[:1])), schedule.Task({F: "kept", Y: "kept"})).verdicts
    found = {one.name: verdict for one, verdict in light.items() if one.name.endswith(".again")}
    assert {name: verdict.stored for name, verdict in found.items()} == {"G.again": True, "H.again": False}
    assert {one.why.split(";")[0] for one in found.values()} == {"read 3 times", "read 2 times"}


# Where it runs


def test_what_is_late_joins_nothing_early() -> None:
    a, b, c = (floats(number, name, N) for number, name in enumerate("abc"))
    body = [loop("i", N, store(to, at("i"), read(a, "i"))) for to in (b, c)]
    parts = as_kernels(Program(tuple(body)))
    assert [len(fused(parts, late)) for late in ((), (b,), (c,), (b, c))] == [1, 1, 2, 1]


# Cuts


@given(
    st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 9), max_size=12),
    st.dictionaries(st.integers(0, 4), st.integers(1, 9), max_size=5),
)
def test_a_cut_is_the_cheapest(edges: dict[tuple[int, int], int], ends: dict[int, int]) -> None:
    prices = {(one, other): price for (one, other), price in edges.items() if one < other}
    prices |= {(one, SINK): price for one, price in ends.items()}
    network = Network()
    network.edge(0, 1, 0)
    for (one, other), price in prices.items():
        network.edge(one, other, price)

    def price_of(source_side: set[int]) -> int:
        return sum(price for (one, other), price in prices.items() if one in source_side and other not in source_side)

    sides = [{0, *(n for n, chosen in enumerate(choice, 1) if chosen)} for choice in every((0, 1), repeat=4)]
    least = min(map(price_of, sides))
    source_side = network.source_side([0])
    assert price_of(source_side) == least
    assert all(source_side <= side for side in sides if price_of(side) == least)  # of the cheapest, the closest


# Models


def gelu_step(share: float = wf.config.recompute_share) -> tuple[wf.Context, Routine, wf.Tensor]:
    wf.seed(0)
    x = wf.data(np.linspace(-1, 1, N * N, dtype="float32").reshape(N, N), batch=1, label="x")
    for number in range(3):
        u = (wf.param(f"up{number}", o=2 * N) @ x).named(f"u{number}")
        x = x + wf.param(f"down{number}", o=N) @ (0.5 * u * (1.0 + wf.erf(u * 0.5**0.5)))
    loss = wf.einsum("...|... => 0", x * x, label="loss") * (1.0 / N**3)
    ctx = wf.Context("cc")
    options = wf.config.options.but(recompute_share=share)
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1))
    return ctx, ctx.compile(code, keep=[loss], options=options), loss


def test_a_model_holds_little_for_each_activation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    found = []
    for share in (wf.config.recompute_share, 2.0):  # nothing saves twice what is held
        ctx, step, loss = gelu_step(share)
        losses = []
        for _ in range(3):
            step()
            losses.append(ctx[loss].item())
        found.append((step.memory(), step.show("virtual"), losses))
    (ours, verdicts, losses), (plain, others, meant) = found
    assert ours.size < 0.8 * plain.size
    long = [one for one, life in ours.lives.items() if one.shape == (N, 2 * N) and life[0] < 6 and life[1] > 9]
    assert len(long) <= 6  # of each activation what its function is of, and its value
    assert "erf.again" not in verdicts  # it takes too long
    assert "mul.again" in verdicts
    assert ".again" not in others
    assert "; recomputed, not kept alive: 1 operation on `" in verdicts
    np.testing.assert_allclose(losses, meant, rtol=1e-5)


def test_what_is_to_be_computed_again_anyway_stays_so() -> None:
    """With `recompute`, copies are not stored either."""
    late = [*(stmt for name in "ughyzdef" for stmt in PARTS[name]), *product(X, H, W)]
    for recompute in ((), (H,)):
        found = schedule.schedule(
            Program(tuple(late)), schedule.Task({F: "kept", X: "kept"}, recompute=recompute)
        ).verdicts
        assert [verdict.stored for one, verdict in found.items() if one.name == "H.again"] == [not recompute]


@pytest.mark.usefixtures("eager")
@settings(
    deadline=None,
    max_examples=tries(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(models(), st.sampled_from(["sgd", "adam"]))
def test_computing_again_changes_nothing(sample: tuple[Model, wf.Tensor], optimiser: str) -> None:
    agree(sample, optimiser, Fusing(), 1)
