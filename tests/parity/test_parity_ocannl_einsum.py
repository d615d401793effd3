"""Specifications that OCANNL's tests of einsum use, on consecutive numbers, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import weft as wf
from weft.shape import as_shape

Array = npt.NDArray[np.float64]


def counting(shape: str) -> wf.Tensor:
    """0, 1, 2, … in the order of memory: batch, output, input."""
    rows = as_shape(shape)
    values = np.arange(float(rows.count)).reshape(rows.array_shape)
    return wf.data(values, batch=len(rows.batch), input=len(rows.input))


def ask(*tensors: wf.Tensor) -> list[Array]:
    ctx = wf.Context("interp")
    return [ctx[one] for one in tensors]


# Specs

SEVEN = "2,3|4,5->6,7"  # in memory a b e f c d
#: A spec, the shapes of its operands, and the same in NumPy's words, over memory.
SPECS: list[tuple[str, list[str], str]] = [
    ("b|i->o => o|b->i", ["2|3->4"], "boi->oib"),
    ("ab|cd->ef => cf|ae->db", [SEVEN], "abefcd->cfdbae"),
    ("b|i->o => b|i", ["2|3->4"], "boi->bi"),
    ("ab|cd->ef => c|a->d", [SEVEN], "abefcd->cda"),
    ("i; j => i->j", ["2", "3"], "i,j->ji"),
    ("i|j->k; l|m->n => il|jm->kn", ["2|3->4", "5|6->7"], "ikj,lnm->ilknjm"),
    ("b|i->o; b|i->o => b|i->o", ["2|3->4", "2|3->4"], "boi,boi->boi"),
    ("b|h->o; b|i->h => b|i->o", ["2|4->5", "2|3->4"], "boh,bhi->boi"),
    ("a|i->h; b|h->o => ab|i->o", ["2|3->4", "2|4->5"], "ahi,boh->aboi"),
    ("b|i->h; b|h->o => i->o", ["2|3->4", "2|4->5"], "bhi,boh->oi"),
    ("a|i->h; b|h->o => i->o", ["2|3->4", "2|4->5"], "ahi,boh->oi"),
    ("...|i->o => ...|o->i", ["2|3->4"], "boi->bio"),
    ("b|...->o => o|...->b", ["2|3->4"], "boi->obi"),
    ("...b|...i->...o => ...i|...o->...b", [SEVEN], "abefcd->adebcf"),
    ("...b|...i->...o => i|o->b", [SEVEN], "abefcd->dbf"),
    ("...|...->...o => o", ["2|3->4"], "boi->o"),
    ("...|...->...o => o", ["3,4"], "ab->b"),
    ("i->...o => ...io", ["2->3,4"], "abi->aib"),
    ("...|i->...; ...|...->i => ...|i", ["3|4->2", "3|1->4"], "boi,bix->bi"),
    ("i->...;j->... => ...ij", ["2->3", "4->3"], "oi,oj->oij"),
    ("i, f; j, f => i, j, f", ["3,4", "3,4"], "if,jf->ijf"),
    ("..g..|i, f; ..g..|j, f => ..g..|i, j, f", ["2|3,4", "2|3,4"], "gif,gjf->gijf"),
    ("..g..|v, u; ..g..|u, f => ..g..|v, f", ["2|3,3", "2|3,4"], "gvu,guf->gvf"),
    ("a, ..row1.., b; ..row2.., c => a, ..row1.., c", ["2,3,4", "3,5"], "arb,sc->arc"),
]


@pytest.mark.parametrize(("spec", "shapes", "numpy"), SPECS)
def test_axes_are_moved_multiplied_and_summed_as_in_numpy(spec: str, shapes: list[str], numpy: str) -> None:
    operands = [counting(shape) for shape in shapes]
    result, *arrays = ask(wf.einsum(spec, *operands), *operands)
    np.testing.assert_array_equal(result, np.einsum(numpy, *arrays))


POSITIONS: list[tuple[str, list[str], Callable[..., Array]]] = [
    ("...|1->... => ...|...", ["2|3->4"], lambda a: a[:, :, 1]),
    ("...|...->... => ...|...->0", ["2|3->4"], lambda a: a.sum(1, keepdims=True)),
    ("i->j => i0j", ["2->3"], lambda a: a.T[:, None]),
    ("...|i->1; ...|...->i => ...|i", ["3|4->2", "3|1->4"], lambda a, b: a[:, 1] * b[:, :, 0]),
    ("...|i->1; ...|j...->i => ...|ij", ["3|4->2", "3|2,3->4"], lambda a, b: np.einsum("bi,bijk->bij", a[:, 1], b)),
    ("i->1; ij...->0 => ...->ji", ["2->2", "2,3,4->2"], lambda a, b: np.einsum("i,ijk->jik", a[1], b[0])),
]


@pytest.mark.parametrize(("spec", "shapes", "numpy"), POSITIONS)
def test_positions_beside_axes(spec: str, shapes: list[str], numpy: Callable[..., Array]) -> None:
    operands = [counting(shape) for shape in shapes]
    result, *arrays = ask(wf.einsum(spec, *operands), *operands)
    np.testing.assert_array_equal(result, numpy(*arrays))


def test_a_position_in_a_result_grows_by_what_else_is_said_of_it() -> None:
    """`i0` alone is one column; a spec that nobody computes asks for a third."""
    column = wf.einsum("i => i0", counting("4"))
    wf.einsum("i2 => i", column)
    (found,) = ask(column)
    np.testing.assert_array_equal(found, np.arange(4)[:, None] * [1, 0, 0])


def test_coordinates_as_a_sum_of_columns() -> None:
    """Each range is written into a column of its own; sums over all pairs put the columns side by side."""
    rows, columns, layers = counting("4"), counting("5"), counting("6")
    first, second, third = (
        wf.einsum(spec, one) for spec, one in (("i => i0", rows), ("j => j1", columns), ("k => k2", layers))
    )
    for part in (first, second):
        wf.einsum("i2 => i", part)
    pairs = wf.einsum("il; jl => ijl", first, second, op="+")
    (found,) = ask(wf.einsum("ijl; kl => ijkl", pairs, third, op="+"))
    np.testing.assert_array_equal(found, np.stack(np.meshgrid(*map(np.arange, (4, 5, 6)), indexing="ij"), -1))


# Sizes as values, and said of each other


def test_sizes_of_axes_and_rows_of_several_einsums_in_one_number() -> None:
    product = wf.einsum("ab; bc => ac", counting("2,3"), counting("3,4"))
    turned = wf.einsum("ij => ji", counting("5,7"))
    rows = wf.einsum("a..r..; ..r..b => ab", counting("2,3,4"), counting("3,4,5"))
    (found,) = ask(wf.number(0.0) + wf.dim(product, "a") + wf.dim(turned, "j") + wf.dim(rows, "r"))
    assert found.tolist() == [2 + 7 + 12]


def test_sizes_given_by_name_shape_all_parameters_of_a_chain() -> None:
    base, last = wf.param("base"), wf.param("last")
    turned = wf.einsum("ab => ba", base, a=6, b=8)
    assert str(wf.einsum("ba; bc => ac", turned, last, c=10).dims) == "6,10"
    assert [str(one.dims) for one in (base, last)] == ["6,8", "8,10"]


def test_two_sizes_are_made_equal_by_a_spec_nobody_computes() -> None:
    left, right = wf.param("left", o=(4, 6)), wf.param("right")
    product = wf.einsum("ij; jk => ik", left, right)
    wf.einsum("ii => i", product)
    assert (str(right.dims), str(product.dims)) == ("6,4", "4,4")
    with pytest.raises(wf.ShapeError, match="cannot be both"):
        wf.einsum("ii => i", wf.einsum("ij; jk => ik", left, wf.data(np.ones((6, 5)))))


@pytest.mark.parametrize(("known", "sizes"), [("hidden", ("16", "8")), ("input", ("16", "8"))])
def test_one_size_is_a_multiple_of_another_by_a_spec_nobody_computes(known: str, sizes: tuple[str, str]) -> None:
    hidden = wf.param("hidden", o=16 if known == "hidden" else None)
    inputs = wf.param("input", o=8 if known == "input" else None)
    wf.einsum("2*i; i => i", hidden, inputs)
    assert (str(hidden.dims), str(inputs.dims)) == sizes
    with pytest.raises(wf.ShapeError):
        wf.einsum("2*i; i => i", wf.data(np.ones(17)), inputs)


# Windows


def test_a_padded_maximum_and_a_padded_sum_of_one_input_in_one_routine() -> None:
    """What lies outside is nothing to either: least for the maximum, zero for the sum, at every run."""
    values = np.arange(16.0).reshape(4, 4) - 16
    x = wf.data(values)
    pooled = wf.einsum("oh=+wh, ow=+ww => oh, ow", x, accum="max", wh=3, ww=3)
    summed = wf.einsum("oh=+kh, ow=+kw => oh, ow", x, kh=3, kw=3)
    ctx = wf.Context("interp")
    run = ctx.compile(wf.seq(pooled.forward, summed.forward), keep=[pooled, summed])
    around = np.pad(np.ones((4, 4), bool), 1)
    padded = np.pad(values, 1)
    windows = [(slice(at, at + 3), slice(by, by + 3)) for at in range(4) for by in range(4)]
    for _ in range(2):
        run()
        assert ctx[pooled].ravel().tolist() == [padded[at][around[at]].max() for at in windows]
        assert ctx[summed].ravel().tolist() == [padded[at].sum() for at in windows]
    assert (ctx[pooled][0, 0], ctx[pooled][1, 1], ctx[summed][0, 0], ctx[summed][1, 1]) == (-11, -6, -54, -99)


def test_a_padded_window_over_a_slice_enlarges_nothing() -> None:
    images, i = wf.data(np.arange(24.0).reshape(2, 4, 3), batch=1, label="images"), wf.index("i", 2)
    smooth = wf.einsum("...|h=+k, w => ...|h, w", images[i], k=3)
    ctx = wf.Context("interp")
    run = ctx.compile(smooth.forward, bindings=[i])
    run(i=1)
    padded = np.pad(np.arange(12.0, 24.0).reshape(4, 3), ((1, 1), (0, 0)))
    np.testing.assert_array_equal(ctx[smooth], padded[:-2] + padded[1:-1] + padded[2:])
    assert str(images.dims) == "2|4,3"


@pytest.mark.parametrize(("factors", "sizes", "injective", "surjective"), [
    ((3, 4), (4, 3), True, False),
    ((3, 4), (5, 4), False, False),
    ((1, 1), (3, 3), False, True),
    ((2, 1), (3, 2), True, True),
    ((5, 1), (3, 4), True, False),
])  # fmt: skip
def test_places_of_two_loops_are_told_apart_exactly(
    factors: tuple[int, int], sizes: tuple[int, int], injective: bool, surjective: bool
) -> None:
    planned = wf.plan(f"ab => {factors[0]}*a<+{factors[1]}*b", sizes)
    assert (planned.injective, planned.surjective) == (injective, surjective)


def test_a_sparse_tensor_read_twice() -> None:
    sparse = wf.einsum("i => i1", counting("3"))
    found, both = ask(sparse + sparse, wf.einsum("ij; ij => i", sparse, sparse))
    np.testing.assert_array_equal(found, np.arange(3)[:, None] * [0, 2])
    np.testing.assert_array_equal(both, np.arange(3.0) ** 2)
