"""Every precision on both backends: conversions, each operation, random programs; how far floats may differ.

Whole numbers and truth values agree to the bit. Of floats the table below says what is promised, in units in the last
place (ulp) of the type a value is stored in, or in multiples of the type's epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from loops.programs import EXACT, FLOATS, GIVEN, SIGNED, UNSIGNED, VALUES, Sample, samples
from ops.library import CROSSING, ULPS
from tensor.differences import total
from tensor.exact import BINARY, each, wrapped
from tensor.models import Model, models
from weft.affine import Affine
from weft.assign import Data, closed_buffer, complete, lower, node_of
from weft.assign.nodes import Code, Node, Operand
from weft.backends.cc import Cc
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Program,
    Read,
    Remark,
    Stmt,
    Store,
    Update,
    buffers_of,
    check,
    show,
    typed,
)
from weft.loops.interp import run, run_scalar
from weft.ops import OPS, Call, Num, Op, Scalar, call, typing
from weft.ops.dtypes import ELEMENT_TYPES, is_float, numpy_type
from weft.ops.library import LIBRARY
from weft.optimise.gather import gathered
from weft.schedule import as_kernels

#: How far the two backends may lie apart in one operation, in ulp of single and double precision: everything else is 0.
MOST_ULPS = dict.fromkeys(("exp", "log", "exp2", "log2", "sin", "cos", "tanh", "sigmoid", "erf", "pow"), 4)
MOST_ULPS |= {op.name: 2 * ULPS.get(op.name, 2) for op in LIBRARY if op.typing is typing.reals}
#: An operation on narrow floats is computed in single precision, so it can only round to the neighbour.
MOST_NARROW_ULPS = 1
EPSILON = {
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
}
#: One assignment, from the same memory: so many epsilons of the largest number it reads or writes, and of 1.
MOST_IN_AN_ASSIGNMENT = dict.fromkeys(("float32", "float64"), 32) | dict.fromkeys(FLOATS[:4], 1)
#: A whole program: so many epsilons of the least precise type in it, of its largest result, and of 1.
MOST_IN_A_PROGRAM = dict.fromkeys(("float32", "float64"), 1024) | dict.fromkeys(FLOATS[:4], 4)

NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
WHOLE = tuple(name for name in ELEMENT_TYPES if not is_float(name) and name != "bool")
AT = (Affine(((1, "i"),)),)
RANDOM_BITS = {"uniform", "normal", "threefry4x32"}


PAIRS = {name: meaning for name, (_, meaning) in BINARY.items()}


def compiler(folder: object, command: str | None = None) -> Cc:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder))
        if command:
            patch.setenv("WEFT_CC", command)
        return Cc()


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    return compiler(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def without_halves(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    """A compiler that has no half-precision type of its own."""
    return compiler(tmp_path_factory.mktemp("kernels"), "gcc -U__FLT16_MANT_DIG__")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path_factory.getbasetemp() / "precisions"))


# Conversions


def neighbours(values: np.ndarray) -> np.ndarray:
    """Values with the numbers just below and above them."""
    kind = values.dtype.type
    with np.errstate(all="ignore"):
        return np.concatenate([values, np.nextafter(values, kind(np.inf)), np.nextafter(values, kind(-np.inf))])


def bit_patterns(name: str) -> np.ndarray:
    """Every value of a type of at most 16 bits."""
    if name == "bool":
        return np.array([False, True])
    kind = numpy_type(name)
    return np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}").view(kind)


def boundaries(name: str) -> np.ndarray:
    """Where conversion to a narrow float goes one way or the other: its values, and halfway between and beyond them."""
    with np.errstate(invalid="ignore"):
        values = bit_patterns(name).astype(np.float64)
    finite = np.unique(values[np.isfinite(values)])
    beyond = finite[-1] + (finite[-1] - finite[-2]) * np.array([0.5, 1.0, 4.0])
    return np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, beyond, -beyond])


def ends(kind: np.dtype) -> np.ndarray:
    """Where conversion of floats to whole numbers is cut off, and where it cuts."""
    limits = [float(limit) for name in WHOLE for limit in (np.iinfo(name).min, np.iinfo(name).max)]
    near = [value + step for value in limits for step in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)]
    return np.array([*near, 0.25, 0.5, 0.99, 1.0, 1.5, 2.5, -0.25, -0.5, -0.99, -1.0, -1.5]).astype(kind)


def float_values(name: str) -> np.ndarray:
    """Single or double precision: every boundary of a conversion with its neighbours, the specials, and random bits."""
    kind, numbers = numpy_type(name), np.random.default_rng(0)
    limits = np.finfo(kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, -limits.max, limits.tiny, limits.smallest_subnormal]
    with np.errstate(all="ignore"):
        narrow = np.concatenate([boundaries(one) for one in NARROW]).astype(kind)
        narrow = narrow if name == "float32" else narrow[::5]
        random = numbers.integers(0, 1 << 32, 20_000, np.uint64).astype(np.uint32).view(np.float32).astype(kind)
    return np.concatenate([neighbours(narrow), neighbours(ends(kind)), neighbours(np.array(special, kind)), random])


def whole_values(name: str) -> np.ndarray:
    """Whole numbers of 32 or 64 bits around the ends of every type and what floats hold, and random ones."""
    limits, numbers = np.iinfo(name), np.random.default_rng(0)
    marks = [int(end) for one in WHOLE for end in (np.iinfo(one).min, np.iinfo(one).max)]
    marks += [0, 2**11, 2**24, 2**25 + 2, 2**53, 2**54 + 4, 2**62]
    near = {mark + step for mark in marks for step in (-2, -1, 0, 1, 2) if limits.min <= mark + step <= limits.max}
    random = numbers.integers(limits.min, limits.max, 5_000, name, endpoint=True)
    return np.concatenate([np.array(sorted(near), name), random])


def values_of(name: str) -> np.ndarray:
    if numpy_type(name).itemsize <= 2:
        return bit_patterns(name)
    return float_values(name) if is_float(name) else whole_values(name)


def expected(values: np.ndarray, target: str) -> np.ndarray:
    """The conversion as NumPy and ml_dtypes make it; to whole numbers, as Python's integers do."""
    kind = numpy_type(target)
    with np.errstate(all="ignore"):
        if target == "bool":
            return values.astype(np.float64) != 0 if is_float(values.dtype.name) else values != 0
        if target in NARROW:
            return values.astype(np.float32).astype(kind)
        if is_float(target) or not is_float(values.dtype.name):
            return values.astype(kind)
        wide = values.astype(np.float64)
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    numbers = [0 if math.isnan(x) else high if x >= high else low if x <= low else int(x) for x in wide.tolist()]
    return np.array(numbers, kind)


def bits_but_nan(values: np.ndarray) -> np.ndarray:
    """The bits of numbers; whatever is not a number counts as the same."""
    found = values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
    if is_float(values.dtype.name):
        with np.errstate(invalid="ignore"):
            found[np.isnan(values.astype(np.float64))] = np.uint64(2**64 - 1)
    return found


def converted(backend: Cc | None, values: np.ndarray, targets: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Values stored in other types by a compiled program, or by the interpreter."""
    source = Buffer(0, "x", values.shape, values.dtype.name)
    stores = {name: Buffer(at, name, values.shape, name) for at, name in enumerate(targets, 1)}
    loops = (For("i", len(values), (Store(one, AT, Read(source, AT)),)) for one in stores.values())
    program = check(typed(Program(tuple(loops))))
    memory = {source: values, **{one: np.zeros(one.shape, numpy_type(one.dtype)) for one in stores.values()}}
    if backend is None:
        run(program, memory)
    else:
        backend.compile(as_kernels(program)).bind(memory)({})
    return {name: memory[one] for name, one in stores.items()}


def assert_same(found: np.ndarray, wanted: np.ndarray, values: np.ndarray, what: str) -> None:
    wrong = np.nonzero(bits_but_nan(found) != bits_but_nan(wanted))[0]
    shown = [(values[at], found[at], wanted[at]) for at in wrong[:5]]
    assert not len(wrong), f"{what}: {len(wrong)} differ, such as (value, found, wanted) {shown}"


@pytest.mark.parametrize("source", ELEMENT_TYPES)
def test_conversions_are_numpys_on_both_backends(backend: Cc, source: str) -> None:
    values = values_of(source)
    cc, interp = converted(backend, values, ELEMENT_TYPES), converted(None, values, ELEMENT_TYPES)
    for target in ELEMENT_TYPES:
        few = slice(None) if len(values) < 200_000 or target in NARROW else slice(None, None, 10)
        wanted = expected(values[few], target)
        assert_same(cc[target][few], wanted, values[few], f"{source} to {target} in C")
        assert_same(cc[target], interp[target], values, f"{source} to {target}")


def test_single_precision_is_rounded_to_even_at_every_boundary() -> None:
    assert expected(np.array([2049.0, 2051.0, 65519.0, 65520.0, 2.0**-25], np.float32), "float16").tolist() == [
        *(2048, 2052, 65504, np.inf, 0)
    ]
    values = float_values("float32")
    for name in NARROW:
        with np.errstate(all="ignore"):
            assert np.isin(boundaries(name).astype(np.float32), values).all()
    assert len(values) > 500_000


def test_halves_without_a_type_of_the_compilers_own(backend: Cc, without_halves: Cc) -> None:
    halves, singles = bit_patterns("float16"), float_values("float32")
    for values, targets in [(halves, ELEMENT_TYPES), (singles, ("float16",))]:
        native, portable = (converted(one, values, targets) for one in (backend, without_halves))
        for target in targets:
            assert_same(portable[target], native[target], values, f"{values.dtype} to {target}")


NUMBERS = [0, 1, -1, 300, -300, 2**24 + 1, 2**53 + 1, 2**60 + 2**36 + 1, 2**63, 2**64 - 1, -(2**63), 2**64 + 5, True]
NUMBERS += [0.5, -0.0, 0.1 + 0.2, 1 / 3, math.pi, 2.5, -2.5, 1e9 + 0.5, 65519.99, 1e-45, 5e-324, 1e300, -1e300]
NUMBERS += [3.4028235677973366e38, 10**400, -(10**400), math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_numbers_of_the_program_are_the_same_on_both_backends(backend: Cc, dtype: str) -> None:
    stored = Buffer(0, "y", (len(NUMBERS),), dtype)
    filled = [Buffer(1 + at, "z", (2,), dtype) for at in range(len(NUMBERS))]
    stores = [Store(stored, (Affine((), at),), Num(number)) for at, number in enumerate(NUMBERS)]
    fills = [Fill(one, number) for one, number in zip(filled, NUMBERS, strict=True)]
    program = check(typed(Program((*stores, *fills))))
    ours, meaning = ({one: np.zeros(one.shape, numpy_type(dtype)) for one in (stored, *filled)} for _ in range(2))
    backend.compile(as_kernels(program)).bind(ours)({})
    run_scalar(program, meaning)
    shown = np.array([str(number)[:40] for number in NUMBERS])
    assert_same(ours[stored], meaning[stored], shown, dtype)
    for values in (ours, meaning):
        assert_same(np.array([values[one][1] for one in filled]), values[stored], shown, f"{dtype} filled")


def test_numbers_of_the_program_are_the_nearest_of_their_type(backend: Cc) -> None:
    wide = [math.pi, 0.1 + 0.2, 5e-324, 1e300]
    for dtype in ("float16", "float32", "float64"):
        y = Buffer(0, "y", (len(wide),), dtype)
        memory = {y: np.zeros(y.shape, dtype)}
        stores = (Store(y, (Affine((), at),), Num(number)) for at, number in enumerate(wide))
        backend.compile(as_kernels(typed(Program(tuple(stores))))).bind(memory)({})
        with np.errstate(over="ignore"):
            assert memory[y].tolist() == np.array(wide).astype(dtype).tolist()


# One operation at a time


def ordered(values: np.ndarray) -> np.ndarray:
    """Floats as whole numbers in the same order, one apart for neighbours; both zeros are 0."""
    size = values.dtype.itemsize
    signed = values.view(f"i{size}").astype(np.int64)
    return np.where(signed < 0, np.iinfo(f"i{size}").min - signed, signed)


def ulps(one: np.ndarray, other: np.ndarray) -> int:
    """How many numbers lie between two results at most; what is not a number must be so in both."""
    with np.errstate(invalid="ignore"):
        nan, also = (np.isnan(x.astype(np.float64)) for x in (one, other))
    np.testing.assert_array_equal(nan, also)
    apart = np.where(nan, 0, ordered(one)) - np.where(nan, 0, ordered(other))
    return int(np.abs(apart).max())


def operands(dtype: str, count: int) -> list[np.ndarray]:
    """Numbers to compute with: every pair of special ones, small, large and random ones."""
    kind, numbers = numpy_type(dtype), np.random.default_rng(count)
    limits = np.finfo(kind)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 10.0, -10.0, math.pi, 88.7, -103.9, 709.7, 1e-30, 1e30]
    special += [np.inf, -np.inf, np.nan, limits.max, -limits.max, limits.tiny, limits.smallest_subnormal]
    marks = np.array(special, kind)
    with np.errstate(all="ignore"):
        spread = np.exp(numbers.normal(0, 20, 3_000)) * numbers.choice([-1, 1], 3_000)
        random = np.concatenate([numbers.normal(0, 1, 3_000), numbers.normal(0, 30, 3_000), spread]).astype(kind)
    grids = [*np.meshgrid(*[marks] * min(count, 2), indexing="ij")]
    grids += [numbers.permutation(grids[0])] * (count - 2)
    return [np.concatenate([grid.ravel(), numbers.permutation(random)]) for grid in grids]


def computed(
    backend: Cc | None, dtype: str, ops: list[Op], given: dict[int, list[np.ndarray]]
) -> dict[str, np.ndarray]:
    """Operations on numbers of a type, stored in it."""
    memory: dict[Buffer, np.ndarray] = {}
    reads: dict[int, list[Buffer]] = {}
    for arity, arrays in given.items():
        reads[arity] = [Buffer(10 * arity + at, f"x{arity}{at}", one.shape, dtype) for at, one in enumerate(arrays)]
        memory |= dict(zip(reads[arity], arrays, strict=True))
    results = {op.name: Buffer(100 + at, op.name, reads[op.arity][0].shape, dtype) for at, op in enumerate(ops)}
    memory |= {one: np.zeros(one.shape, numpy_type(dtype)) for one in results.values()}
    loops = (
        For("i", results[op.name].shape[0], (Store(results[op.name], AT, value),))
        for op in ops
        for value in [call(op.name, *(Read(one, AT) for one in reads[op.arity]))]
    )
    program = check(typed(Program(tuple(loops))))
    if backend is None:
        run(program, memory)
    else:
        backend.compile(as_kernels(program)).bind(memory)({})
    return {name: memory[one] for name, one in results.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_how_far_each_operation_may_differ(backend: Cc, dtype: str) -> None:
    ops = [op for op in OPS.values() if op.name not in RANDOM_BITS | CROSSING]
    given = {count: operands(dtype, count) for count in (1, 2, 3, 4)}
    ours, meaning = (computed(one, dtype, ops, given) for one in (backend, None))
    apart = {op.name: ulps(ours[op.name], meaning[op.name]) for op in ops}
    assert {name: found for name, found in apart.items() if found > MOST_ULPS.get(name, 0)} == {}


@pytest.mark.parametrize("dtype", NARROW)
def test_operations_on_every_narrow_float(backend: Cc, dtype: str) -> None:
    ops = [op for op in OPS.values() if op.arity == 1 and op.name not in RANDOM_BITS]
    given = {1: [bit_patterns(dtype)]}
    ours, meaning = (computed(one, dtype, ops, given) for one in (backend, None))
    apart = {op.name: ulps(ours[op.name], meaning[op.name]) for op in ops}
    most = {op.name: MOST_NARROW_ULPS if op.name in MOST_ULPS else 0 for op in ops}
    assert {name: found for name, found in apart.items() if found > most[name]} == {}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_operations_on_every_pair_of_bytes_are_exact(backend: Cc, dtype: str) -> None:
    pairs = [one.ravel() for one in np.meshgrid(bit_patterns(dtype), bit_patterns(dtype))]
    ops = [OPS[name] for name in PAIRS]
    ours, meaning = (computed(one, dtype, ops, {2: pairs}) for one in (backend, None))
    for name, exactly in PAIRS.items():
        wanted = wrapped(each(exactly, *(one.astype(object) for one in pairs)), dtype).astype(dtype)
        np.testing.assert_array_equal(ours[name], wanted, err_msg=name)
        np.testing.assert_array_equal(meaning[name], wanted, err_msg=name)


def test_signs_of_zero_agree(backend: Cc) -> None:
    ops = [op for op in OPS.values() if op.arity == 1 and op.name not in {*RANDOM_BITS, "not", "abs"}]
    given = {1: [np.array([0.0, -0.0, 0.3, -0.3], np.float32)]}
    ours, meaning = (computed(one, "float32", ops, given) for one in (backend, None))
    for op in ops:
        signs = [np.signbit(one[op.name]) & ~np.isnan(one[op.name]) for one in (ours, meaning)]
        np.testing.assert_array_equal(*signs, err_msg=op.name)


def test_an_absolute_value_has_no_sign(backend: Cc) -> None:
    found = computed(backend, "float32", [OPS["abs"]], {1: [np.array([-0.0], np.float32)]})
    assert not np.signbit(found["abs"]).any()


# Random programs of the loop language


def both(backend: Cc, sample: Sample, memory: Mapping[Buffer, np.ndarray], static: int) -> None:
    """The meaning, whole nests at once, and compiled code leave the same behind."""
    walked, whole, native = ({buffer: array.copy() for buffer, array in memory.items()} for _ in range(3))
    at = dict.fromkeys(GIVEN, static)
    run_scalar(sample.program, walked, at)
    run(sample.program, whole, at)
    backend.compile(as_kernels(sample.program)).bind(native)(at)
    for buffer in sample.buffers:
        for how, found in (("whole nests", whole), ("C", native)):
            text = f"{buffer.name} by {how}\n{show(sample.program)}"
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(plain(found[buffer]), plain(walked[buffer]), err_msg=text)


def plain(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if is_float(values.dtype.name) else values


WHOLE_OPS = (*EXACT, "pow")
WHOLE_VALUES = (*VALUES, "floordiv", "pow", "relu_gate", "sat01_gate", "le", "ne", "or", "arg2")


@settings(max_examples=tries(12), derandomize=True)
@given(st.sampled_from([SIGNED, UNSIGNED]).flatmap(lambda types: samples(WHOLE_OPS, types, WHOLE_VALUES)), st.data())
def test_programs_of_whole_numbers(backend: Cc, sample: Sample, data: st.DataObject) -> None:
    memory = sample.wide_memory() if data.draw(st.booleans()) else sample.memory()
    both(backend, sample, memory, data.draw(st.integers(0, GIVEN["s"] - 1)))


@settings(max_examples=tries(12), derandomize=True)
@given(
    st.sampled_from([FLOATS, (*SIGNED, *FLOATS), (*UNSIGNED, *FLOATS)]).flatmap(
        lambda types: samples(dtypes=types, numbers=(0, 1, -2, 0.5, -1.5))
    ),
    st.integers(0, GIVEN["s"] - 1),
)
def test_programs_of_every_type(backend: Cc, sample: Sample, static: int) -> None:
    both(backend, sample, sample.memory(), static)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_place_that_wraps_around_is_found_more_than_once(dtype: str) -> None:
    labels, numbers, y = Buffer(0, "n", (1,), dtype), Buffer(1, "w", (600,), "float32"), Buffer(2, "y", (1,), "float32")
    first = (Affine((), 0),)
    hot = Call("eq", (Read(labels, first), Cast(dtype, AT[0])))
    program = typed(Program((For("i", 600, (Update(y, first, "add", Read(numbers, AT) * hot),)),)))
    found = []
    for body in (program.body, gathered(program.body)):
        memory = {labels: np.array([5], dtype), numbers: np.ones(600, np.float32), y: np.zeros(1, np.float32)}
        run(Program(body), memory)
        found.append(memory[y].tolist())
    assert found == [[3], [3]]


# Random expressions, forward and backward


def precisions(**options: object) -> st.SearchStrategy[tuple[Model, wf.Tensor]]:
    """Models with parameters of every float type, or with data of it that parameters take their type from."""
    made = [models(name, **options) for name in FLOATS]  # type: ignore[arg-type]
    return st.one_of(*made, *(models(None, data=name, **options) for name in FLOATS))  # type: ignore[arg-type]


def update(tensor: wf.Tensor) -> tuple[wf.Tensor, Code]:
    """A loss, and the code that computes it and its gradients, where it has any."""
    loss = total(tensor)
    return loss, wf.grad_update(loss) if loss.differentiable else loss.forward


def lowered(code: Code, model: Model) -> tuple[Program, dict[Buffer, np.ndarray]]:
    """The loops of code, every assignment as it was written, with memory to start from."""
    buffers: dict[Node, Buffer] = {}

    def buffer(operand: Operand) -> Buffer:
        node = node_of(operand)
        if node not in buffers:
            buffers[node] = closed_buffer(node, len(buffers), node.label)
        return buffers[node]

    program = lower(complete(code), buffer, [index.name for index in model.bound])
    memory = {one: np.zeros(one.shape, numpy_type(one.dtype)) for one in buffers_of(program)}
    numbers = np.random.default_rng(0)
    for node, one in buffers.items():
        if node.definition is None and node.gradient_of is None and one in memory:
            values = node.init.array if isinstance(node.init, Data) else numbers.normal(0, 0.8, one.shape)
            memory[one] = values.astype(numpy_type(one.dtype)).reshape(one.shape)
    return program, memory


def assignments(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in body:
        if isinstance(stmt, Remark) and any(isinstance(one, Remark) for one in stmt.body):
            yield from assignments(stmt.body)
        else:
            yield stmt


def moved(stmt: Stmt, to: Mapping[Buffer, Buffer]) -> Stmt:
    """A statement on other buffers."""

    def scalar(one: Scalar) -> Scalar:
        match one:
            case Call(op=op, args=args):
                return Call(op, tuple(map(scalar, args)))
            case Cast(dtype=dtype, value=value):
                return Cast(dtype, scalar(value))
            case Read(buffer=buffer, at=at):
                return Read(to[buffer], tuple(map(scalar, at)))
        return one

    match stmt:
        case For(loop=loop, size=size, body=body):
            return For(loop, size, tuple(moved(one, to) for one in body))
        case Remark(text=text, body=body):
            return Remark(text, tuple(moved(one, to) for one in body))
        case If(tests=tests, body=body):
            held = tuple(Inside(scalar(test.index), test.size) for test in tests)
            return If(held, tuple(moved(one, to) for one in body))
        case Store(buffer=buffer, at=at, value=value):
            return Store(to[buffer], tuple(map(scalar, at)), scalar(value))
        case Update(buffer=buffer, at=at, op=op, value=value):
            return Update(to[buffer], tuple(map(scalar, at)), op, scalar(value))
        case Fill(buffer=buffer, value=value):
            return Fill(to[buffer], value)
    raise AssertionError(stmt)


def largest(*arrays: np.ndarray) -> float:
    """The largest number in some arrays, at least 1."""
    wide = [np.abs(one.astype(np.float64)) for one in arrays]
    return max([1.0, *(float(one[np.isfinite(one)].max(initial=0)) for one in wide)])


def assert_near(found: np.ndarray, wanted: np.ndarray, most: float, what: str) -> None:
    ours, theirs = plain(found), plain(wanted)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=most, err_msg=what)


@settings(max_examples=tries(12), derandomize=True)
@given(precisions())
def test_each_assignment_of_a_gradient_update(backend: Cc, sample: tuple[Model, wf.Tensor]) -> None:
    """Every assignment starts from the same memory on both backends, so nothing but itself can differ."""
    model, tensor = sample
    program, memory = lowered(update(tensor)[1], model)
    bound = {index.name: at for index, at in model.bound.items()}
    start: dict[Buffer, np.ndarray] = {}
    steps, after = [], []
    for stmt in assignments(program.body):
        touched = buffers_of(Program((stmt,)))
        own = {one: Buffer(len(start) + at, one.name, one.shape, one.dtype) for at, one in enumerate(touched)}
        start |= {own[one]: memory[one].copy() for one in touched}
        before = [memory[one].copy() for one in touched]
        run(Program((stmt,)), memory, bound)
        size = largest(*before, *(memory[one] for one in touched))
        after.append((stmt, {own[one]: memory[one].copy() for one in touched}, size))
        steps.append(moved(stmt, own))
    backend.compile(as_kernels(Program(tuple(steps)))).bind(start)(bound)
    for stmt, wanted, size in after:
        for buffer, array in wanted.items():
            most = MOST_IN_AN_ASSIGNMENT[buffer.dtype] * EPSILON[buffer.dtype] * size
            assert_near(start[buffer], array, most, f"{buffer.name} in\n{show(Program((stmt,)))}")


@settings(max_examples=tries(10), derandomize=True)
@given(precisions(kinks=False))
def test_whole_gradient_updates(sample: tuple[Model, wf.Tensor]) -> None:
    model, tensor = sample
    loss, code = update(tensor)
    kept = [tensor, loss, *(param.grad for param in model.params if param in loss.params)]
    found = []
    for name in ("interp", "cc"):
        ctx, numbers = wf.Context(name), np.random.default_rng(0)
        for param in model.params:
            ctx[param] = numbers.normal(0, 0.8, param.dims.array_shape)
        step = ctx.compile(code, bindings=list(model.bound), keep=kept)
        step(**{index.name: at for index, at in model.bound.items()})
        found.append([ctx[one] for one in kept])
    coarsest = max((one.dtype for one in [*kept, *model.params]), key=lambda name: EPSILON[name])
    most = MOST_IN_A_PROGRAM[coarsest] * EPSILON[coarsest]
    for one, meaning, ours in zip(kept, *found, strict=True):
        assert ours.dtype == meaning.dtype == numpy_type(one.dtype)
        assert_near(ours, meaning, most * largest(meaning), f"{one.label} in {model.steps}")
