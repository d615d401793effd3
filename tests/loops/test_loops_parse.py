"""Loop programs read back from what is printed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

import weft as wf
from backends.interpreted import OnProcessor
from backends.on_grid import OnGrid
from effort import tries
from loops.programs import ACCUMULATING, FLOATS, GIVEN, SIGNED, UNSIGNED, Sample, samples
from schedule.programs import PROGRAMS
from tensor.differences import total
from tensor.models import Model, models
from weft.affine import Affine
from weft.backends import Backend
from weft.errors import WeftError
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Parallel,
    Product,
    Program,
    Read,
    Remark,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Tile,
    Update,
    Vector,
    buffers_of,
    check,
    declared,
    parse,
    show,
    typed,
)
from weft.loops.interp import run
from weft.loops.show import buffer_names
from weft.loops.walk import retargeted, top_down
from weft.ops import OPS, Call, Num
from weft.schedule.gpu_model import USUAL_GPU

AT_I = Affine.of("i")
X, Y = Buffer(0, "x", (4, 3), "float32"), Buffer(1, "y.grad", (4,), "float16")
EVERYTHING = tuple(name for name in OPS if name not in ("threefry4x32", "uniform", "normal", "type_as"))


def without_remarks(program: Program) -> Program:
    def opened(stmt: Stmt) -> tuple[Stmt, ...] | None:
        return top_down(stmt.body, opened) if isinstance(stmt, Remark) else None

    return Program(top_down(program.body, opened))


def reads_back(program: Program, given: dict[str, int] | None = None) -> None:
    """A program is what its text says: beside its buffers, and with their declarations all by itself."""
    given = given or {}
    back = parse(show(program), buffers_of(program), given)
    assert without_remarks(back) == without_remarks(program), show(program)
    assert show(back) == show(program)
    text = declared(program, given)
    alone = parse(text)
    assert declared(alone, given) == text
    assert without_remarks(alone) == renumbered(without_remarks(program)), text


def renumbered(program: Program) -> Program:
    """A program whose buffers are known by their order alone, as where a text declares them."""
    names = enumerate(buffer_names(buffers_of(program)).items())
    known = {
        one: Buffer(at, name, one.shape, one.dtype, Role.PRIVATE if one.role is Role.PRIVATE else Role.TENSOR)
        for at, (one, name) in names
    }
    return Program(retargeted(program.body, lambda buffer, at: (known[buffer], at)))


def all_read_back(routine: wf.Routine, given: dict[str, int] | None = None) -> None:
    """The loops of a routine and its kernels after every pass, each as often as it changes."""
    bodies = dict.fromkeys(kernel.body for _, kernels in routine.trace() for kernel in kernels)
    for program in (routine.compiled.stages.loops, *map(Program, bodies)):
        reads_back(program, given)


def anything() -> st.SearchStrategy[Sample]:
    """Programs of every operation on every type that meets the others."""
    families = st.sampled_from([(*SIGNED, *FLOATS), (*UNSIGNED, *FLOATS), FLOATS, SIGNED])
    numbers = (0, 1, -2, 0.5, -1.5, True, 1e20, float("inf"))
    return families.flatmap(lambda dtypes: samples(tuple(ACCUMULATING), dtypes, EVERYTHING, numbers))


@settings(max_examples=tries(100))
@given(anything())
def test_random_programs_read_back(sample: Sample) -> None:
    reads_back(sample.program, GIVEN)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("on", ["processor", "GPU"])
def test_kernels_read_back_after_every_pass(name: str, on: str) -> None:
    sample = PROGRAMS[name]()
    ctx = wf.Context(OnProcessor() if on == "processor" else OnGrid())
    all_read_back(ctx.compile(sample.code, keep=sample.keep))  # type: ignore[arg-type]


@pytest.mark.parametrize("masked", [False, True])
def test_sweeps_read_back_after_every_pass(masked: bool) -> None:
    """Attention and its gradient a block of columns at a time, with what each row has for itself."""
    q, k, v = (wf.param(name, o=(24, 3), init=0.5) for name in "qkv")
    scores = wf.einsum("te; se => t | s", q, k)
    seen = wf.where(wf.nn.causal_mask(24), scores, -1e9) if masked else scores
    loss = total(wf.einsum("t | s; se => t | e", wf.softmax(seen), v))
    gpu = replace(USUAL_GPU, swept_columns=8, swept_single=((16, 16, 2),), multiprocessors=1, bytes_per_s=1e6)
    routine = wf.Context(OnGrid()).compile(wf.grad_update(loss), options=wf.CompileOptions(gpu=gpu))
    assert any("private " in declared(Program(kernel.body)) for kernel in routine.kernels)
    all_read_back(routine)


@settings(max_examples=tries(8), suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from([OnProcessor(), OnGrid()]))
def test_models_read_back_after_every_pass(sample: tuple[Model, wf.Tensor], backend: Backend) -> None:
    model, tensor = sample
    loss = total(tensor)
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.01, momentum=0.9))
    routine = wf.Context(backend).compile(code, bindings=list(model.bound))
    given = {index.name: index.size for index in model.bound}
    all_read_back(routine, given)


HAND_MADE = {
    "one name for a variable, a buffer and another buffer": (
        For(
            "i",
            4,
            (
                Let(Local("x", "float32"), Read(X, (AT_I, Affine((), 0)))),
                Let(Local("x_", "float32"), Local("x", "float32")),
                Store(X, (AT_I, Affine((), 1)), Local("x_", "float32")),
                Store(Buffer(7, "x", (4,), "float32"), (AT_I,), Read(X, (AT_I, Affine((), 2)))),
            ),
        ),
    ),
    "constants of another type than their neighbours would give them": (
        Let(Local("t", "float64"), Cast("float64", Call("add", (Cast("float32", Num(0.1)), Cast("float32", Num(2)))))),
        Store(Y, (Affine((), 0),), Cast("float16", Num(0.1))),
        Store(Y, (Cast("int64", Num(1)),), Cast("float16", Num(-0.0))),
    ),
    "operations on indices, and indices": (
        For(
            "i",
            2,
            (
                Let(Local("a", "int64"), Call("add", (AT_I, Cast("int64", Num(1))))),
                Let(Local("b", "int64"), AT_I + 1),
                Let(Local("c", "int64"), Affine((), 3)),
                Let(Local("d", "int64"), Cast("int64", Num(3))),
                Let(Local("e", "int64"), Call("mul", (Cast("int64", Num(2)), AT_I))),
                Let(Local("f", "int64"), Call("mul", (Cast("int64", Num(2)), AT_I * 2 + 1))),
                Let(Local("g", "int64"), Call("neg", (AT_I,))),
                Let(Local("h", "int64"), -AT_I),
                Let(Local("k", "bool"), Call("lt", (AT_I, Affine((), 3)))),
            ),
        ),
    ),
    "an update, and a store that does the same": (
        Update(Y, (Affine((), 0),), "max", Cast("float32", Num(1))),
        Store(
            Y,
            (Affine((), 0),),
            Cast("float16", Call("max", (Cast("float32", Read(Y, (Affine((), 0),))), Cast("float32", Num(1))))),
        ),
    ),
    "names that are no names": (
        Fill(Buffer(3, "for", (2,), "float32"), float("inf")),
        Fill(Buffer(4, "a `b`\n", (2,), "float32"), True),
        Fill(Buffer(5, "inf", (), "float32"), -1),
    ),
    "empty blocks": (For("i", 3, ()), If((Inside(Affine((), 0), 1),), ()), Fill(X, 0)),
    "what schedules say": (
        For("i", 4, (Store(X, (AT_I, Affine((), 0)), Cast("float32", Num(1))),), (Parallel(4), Vector(8))),
        For("i", 4, (Store(X, (AT_I, Affine((), 0)), Cast("float32", Num(1))),), (Vector(),)),
        Staged(
            Product(
                ("i",),
                (),
                ("j",),
                "t",
                Tile(
                    *(3, 2, 16, True, (4, 8), "transposed", 16, True, "rows", True, "rows", 4, (2, 1, 3)),
                    *("copied", 7, 32, 8, 5),
                ),
            ),
            (
                For(
                    "i",
                    4,
                    (
                        Let(Local("t", "float32"), Cast("float32", Num(0))),
                        For("j", 3, (Set(Local("t", "float32"), Local("t", "float32")),)),
                    ),
                ),
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_what_is_hard_to_say_reads_back(name: str) -> None:
    reads_back(Program(HAND_MADE[name]))


def test_remarks() -> None:
    program = Program((Remark("one\ntwo", (Fill(X, 0),)), Remark("three", (Fill(X, 1), Fill(X, 2)))))
    assert show(program) == "# one\n# two\nx[...] = 0\n# three\nx[...] = 1\nx[...] = 2"
    assert parse(show(program), [X]) == program


def test_a_text_alone_can_run() -> None:
    text = """
x: float32[4, 3]
y: float32[4]
s: range(3)
# the largest of each row, from column s on
y[...] = 0
for i in range(4):
    for j in range(3):
        if 0 <= j - s < 3:
            t: float32 = x[i, j] * 2
            y[i] max= t
"""
    program = check(parse(text), {"s": 3})
    x, y = sorted(buffers_of(program), key=lambda one: one.name)
    memory = {x: np.arange(12, dtype=np.float32).reshape(4, 3), y: np.ones(4, np.float32)}
    run(program, memory, {"s": 1})
    assert memory[y].tolist() == [4, 10, 16, 22]
    assert declared(program, {"s": 3}).splitlines()[3:] == text.strip().splitlines()[3:]


MISTAKES = [
    ("x[0, 0] = z[0]", 11, "there is no buffer `z`", "write `z: float32[4, 3]` before the program"),
    ("x[0, 0] = xx[0, 0]", 11, "there is no buffer `xx`", "did you mean `x`?"),
    ("x[0] = 1", 1, "`x` has 2 axes, and 1 subscripts stand here", "write one for each axis"),
    (
        "x[i, 0] = 1",
        3,
        "`i` is neither a loop around this nor a variable",
        "give it a value before, or declare an index: `s: range(4)`",
    ),
    ("t = 1", 1, "`t` is not a variable here", "write `t: float32 = …` where it begins"),
    ("t: float31 = 1", 4, "there is no element type `float31`", "did you mean `float32`?"),
    ("t: float32 = x", 14, "`x` is a buffer", "read a cell of it: `x[…]`"),
    ("t: float32 = tanhh(1)", 14, "there is no operation `tanhh`", "did you mean `tanh`?"),
    ("t: float32 = tanh(1, 2)", 14, "`tanh` takes 1 operand, not 2", "write as many as it takes"),
    ("x[0, 0] maxx= 1", 9, "nothing accumulates with `maxx`", "did you mean `max`?"),
    ("t: float32 = 1 == 2", 16, "`==` is no operator here", "write `eq(a, b)`"),
    ("t: float32 = 2 ** 2", 16, "`**` is no operator here", "write `pow(a, b)`"),
    ("t: float32 = 2 > 1", 16, "`>` is no operator here", "turn it round: `b < a`, `b <= a`"),
    ("for i in range(4)", 17, "a block begins after `:`", "write `:` at the end of the line"),
    (
        "for i in range(4): x[i, 0] = 1",
        20,
        "a line holds one statement, and a block begins on the next",
        "write `x` on a line of its own",
    ),
    ("for i in range(4):\nx[0, 0] = 1", 1, "a block needs a line", "indent what belongs to it, or write `pass` there"),
    ("  x[0, 0] = 1", 3, "the indentation is that of no block", "the blocks here are indented by 0"),
    (
        "for i in range(4):\n    for i in range(3):\n        pass",
        9,
        "`i` is an index here already",
        "give the loop another name",
    ),
    ("if 1 <= 2 < 3:\n    pass", 4, "a test asks whether an index is inside an axis", "write `0 <= i < n`"),
    ("x: float32[4]", 1, "`x` is declared twice", "declare every buffer once, before the program"),
    ("x[0, 0] = $", 11, "`$` has no meaning in a loop program", "remove it"),
    (
        "x[...] = t",
        10,
        "`t` is neither a loop around this nor a variable",
        "give it a value before, or declare an index: `s: range(4)`",
    ),
    ("while x:", 1, "there is no `while` here", "there are `for i in range(n):`, `if 0 <= i < n:` and assignments"),
    (
        "for i in range(4) on 4 horses:\n    pass",
        19,
        "`on 4 horses` does not say how a loop runs",
        "write `collapsed by 4`, `on threads by 4`, `on a grid by 4 with 4 warps`, `in lanes by 4`, `by owners in "
        "blocks of 4 by 1 with 4 warps`, `on simt threads by 4`, "
        "`jammed by 4`, `on vectors`, `in registers of 4`, `unrolled by 4`, `prefetching 4 ahead`, "
        "`non-temporal`, `cold`",
    ),
    (
        "product of sums i in tiles of 4:\n    pass",
        19,
        "this does not say how a product is tiled",
        "for example `in tiles of 4 rows by 2 vectors of 8, then along columns`",
    ),
    (
        "product of left i:\n    pass\nx[...] = 0",
        1,
        "this is no product",
        "write its loops, and first inside them the variable that it adds to",
    ),
    ("t: float32 = " + "(" * 200 + "1" + ")" * 200, 114, "the value is nested too deeply", "give a part of it a name"),
    ("t: float32 = " + "1 + " * 200 + "1", 14, "a value is nested deeper than 64 levels", "give a part of it a name"),
    ("for i in range(99999999999999999999):", 16, "a size is a whole number below 10**18", "for example `range(4)`"),
]


@pytest.mark.parametrize(("text", "column", "what", "fix"), MISTAKES)
def test_a_mistake_is_shown_and_answered(text: str, column: int, what: str, fix: str) -> None:
    with pytest.raises(WeftError) as told:
        parse("y: float32[4]\n\n" + text, [X])
    place, _, said = told.value.what.partition(": ")
    assert said == what
    assert told.value.fix == fix
    assert place.endswith(f", column {column}"), place
    assert "^" in str(told.value)


PIECES = [
    *(
        "for i in range(3):",
        "if 0 <= i < 3:",
        "x",
        "y",
        "i",
        "t",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        "=",
        "+=",
        "max=",
        "+",
        "-",
    ),
    *(
        "*",
        "/",
        "<",
        "<=",
        "0",
        "1.5",
        "2*i",
        "tanh(",
        "float32",
        "index(",
        "\n",
        "\n    ",
        "\n        ",
        "# a",
        "pass",
        " ",
    ),
    *(
        "x[i, 0] = 1",
        "t: float32 = ",
        "for j in range(2) on threads by 4:",
        "product of left i:",
        "...",
        "`",
        "é",
        "\0",
        "\t",
        "inf",
    ),
]


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
@example("\n" * 1000 + "x[")
@example("".join(f"{'    ' * at}for i{at} in range(2):\n" for at in range(300)))
@example("t: float32 = " + "-" * 5000 + "x[0, 0]")
def test_any_text_is_a_program_or_a_mistake(text: str) -> None:
    answer = read(text)
    if isinstance(answer, Program):
        assert parse(show(answer), buffers_of(answer)) == answer
    else:
        assert answer.what.startswith("line ")
        assert answer.fix


def read(text: str) -> Program | WeftError:
    try:
        return parse(text, [X])
    except WeftError as error:
        return error


def test_types_are_made_explicit() -> None:
    program = parse("x[0, 0] = 1 + i * 0.5\n", [X], {"i"})
    (stmt,) = program.body
    assert isinstance(stmt, Store)
    assert program == typed(program)
    assert stmt.value == Call(
        "add", (Cast("float32", Num(1)), Call("mul", (Cast("float32", AT_I), Cast("float32", Num(0.5)))))
    )
