"""The errors of shape inference: what disagrees, both sides, who asked for each, and a way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import prod
from string import ascii_lowercase

from weft.einsum import long_word, show_axis, text_with_commas
from weft.einsum.nodes import AffineAxis
from weft.errors import OpenSizeError, Origin, ShapeError, Span, UnderdeterminedShapeError, said_at
from weft.shape.cells import AxisCell, InferenceStep, RowCell, ShapeVar, Why
from weft.shape.named_sizes import NamedSize
from weft.shape.nodes import MAX_RANK, Dim, Shape, show_rows

#: The title of the steps in which shapes are decided because they are needed.
CLOSING = "closing"


def size_conflict(step: InferenceStep, axis: AxisCell, size: int, why: Why) -> ShapeError:
    old_why = axis.why or (axis.cap.why if axis.cap else None)
    old = axis.size if axis.size is not None else (axis.cap.size if axis.cap else None)
    for found, other, other_size in ((why, old_why, old), (old_why, why, size)):
        given = next((link for link in _chain(found) if link.product is not None), None)
        if given is not None:
            return product(step, given, other_size, other)
    what = f"{name(axis)} cannot be both {_size(old, old_why)} and {_size(size, why)}"
    fix = _other_rows(step) or _size_fix(axis, old, size)
    return _error(step, what, {f"{old}": old_why, f"{size}": why}, fix, disputed=axis)


def out_of_reach(step: InferenceStep, axis: AxisCell, least: int, why: Why, size: int | None = None) -> ShapeError:
    size = axis.size if size is None else size
    if least < 1:
        what = f"{name(axis)} would have size {_size(size, why)}"
        return _error(step, what, {f"{size}": why}, "check the sizes given")
    if not size:
        places = f"{least} place{'s' * (least > 1)} of it {'are' if least > 1 else 'is'} needed"
        reads = [f" that `{step.text[at.start : at.end]}` reads" for at in _spans(step, (why, axis.why)) if step.text]
        what = f"{name(axis)}{next(iter(reads), '')} is empty, and {places}"
        return _error(step, what, {"size 0": axis.why or why}, "give it elements; a window needs some to run along")
    what = f"position {least - 1} is outside {name(axis)}, which has size {_size(size, axis.why or why)}"
    fix = f"name a position from 0 to {size - 1}"
    return _error(step, what, {f"size {size}": axis.why or why}, fix, (why, axis.why))


def bases(step: InferenceStep, axis: AxisCell, basis: str, why: Why) -> ShapeError:
    return _error(
        step,
        f"{name(axis)} cannot be labelled both {axis.basis!r} and {basis!r}",
        {f"{axis.basis!r}": axis.why_basis, f"{basis!r}": why},
        "use one label for both, or leave one side unlabelled",
    )


def labelled_one(step: InferenceStep, axis: AxisCell, basis: str, why: Why) -> ShapeError:
    return _error(
        step,
        f"{name(axis)} is labelled {basis!r}, so its size 1 does not broadcast",
        {"the label": axis.why_basis or why, "broadcasting": axis.why_plain or why},
        f"drop the label {basis!r}, or give the axis its full size",
        (why, axis.why_plain, axis.why_basis),
    )


def ranks(step: InferenceStep, row: RowCell) -> ShapeError:
    if row.hi == MAX_RANK and row.why_hi is None:
        origins = [str(origin) for origin in dict.fromkeys(why.step.origin for why in _chain(row.why_lo)) if origin]
        what = f"{_row_name(row)} would need more than {MAX_RANK} axes: rows that each out-rank the next form a cycle"
        fix = "give one of these tensors its shape, or drop the extra axis on one side"
        error = _error(step, what, {}, fix, (row.why_lo,))
        error.notes += ("the cycle runs through " + ", ".join(origins[:6]),) if origins else ()
        return error
    what = f"{_row_name(row)} needs at least {_axes(row.lo)} but can have at most {_axes(row.hi)}"
    sides = {f"at least {row.lo}": row.why_lo, f"at most {row.hi}": row.why_hi}
    return _error(step, what, sides, _rank_fix(step, row))


def not_a_multiple(step: InferenceStep, axis: AxisCell, stride: int, why: Why) -> ShapeError:
    assert axis.size is not None
    low = axis.size - axis.size % stride
    near = " or ".join(str(size) for size in (low, low + stride) if size > 0)
    what = f"size {_size(axis.size, axis.why)} is not a multiple of the stride {stride}"
    return _error(step, what, {f"{axis.size}": why}, f"make the axis {near} long")


def not_flat(step: InferenceStep, axis: AxisCell, parts: Sequence[AxisCell], known: int, why: Why) -> ShapeError:
    """An axis cannot be split into parts of which these are known."""
    assert axis.size is not None
    sizes = [part for part in parts if part.size is not None]
    given = ", ".join(f"{name(part)} of {part.size}" for part in sizes)
    split = "parts" if len(sizes) == len(parts) else "parts with"
    what = f"an axis of {_size(axis.size, axis.why)} cannot be split into {split} {given}"
    low = axis.size - axis.size % known if known else 0
    near = (low, low + known) if len(sizes) < len(parts) else (known,)
    fix = f"make the axis {' or '.join(str(size) for size in near if size)} long, or give the parts other sizes"
    sides = {f"{cell.size}": cell.why for cell in (axis, *sizes)}
    return _error(step, what, sides, fix, (why,))


def window(
    step: InferenceStep, size: int, term: AffineAxis, over: int | None, kernel: int | None, why: Why
) -> ShapeError:
    """A window that must stay inside its axis does not tile it; one of `over` and `kernel` may still be unknown."""
    assert term.kernel is not None
    stride, dilation, fixed = term.stride, term.kernel.dilation, term.offset + 1
    if kernel is None:
        assert over is not None
        room = size - stride * (over - 1) - fixed
        what = f"{over} windows with stride {stride} and dilation {dilation} do not tile an axis of {size}"
        fix = f"make the axis {size - room % dilation if room >= 0 else size - room} long"
        return _error(step, what, {f"{size}": why}, fix)
    span = dilation * (kernel - 1) + fixed
    if over is not None:
        need = stride * (over - 1) + span
        what = f"{over} windows of {span} with stride {stride} need an axis of {need}, not {size}"
        fix = f"make it {need}"
    elif size < span:
        what, fix = f"a window of {span} does not fit an axis of {size}", f"make the axis at least {span} long"
    else:
        low = size - (size - span) % stride
        gap = f"{size} - {span} is not a multiple of {stride}"
        what = f"windows of {span} with stride {stride} do not tile an axis of {size}: {gap}"
        fix = f"make the axis {low} or {low + stride} long"
    if over is None and not size % stride:
        fix += f", or pad: `{show_axis(replace(term, kernel=replace(term.kernel, padded=True)))}`"
    elif over is None and size > span:
        fix += f", or leave out its end first: `a^{(size - span) % stride} => a`"
    return _error(step, what, {f"{size}": why}, fix)


def parts(step: InferenceStep, axis: AxisCell, known: int, why: Why) -> ShapeError:
    """The known parts do not fit their axis."""
    return _parts(step, axis, f"the parts of {name(axis)} make {known}, but the axis has size {axis.size}", why)


def shares(step: InferenceStep, axis: AxisCell, left: int, times: int, why: Why) -> ShapeError:
    """What the known parts leave does not divide into so many equal ones, or leaves nothing for a parameter."""
    if left == 0:
        return _parts(step, axis, f"the known parts of {name(axis)} leave nothing for the parameter beside them", why)
    return _parts(step, axis, f"the {times} equal parts of {name(axis)} cannot share {left} positions", why)


def _parts(step: InferenceStep, axis: AxisCell, what: str, why: Why) -> ShapeError:
    fix = "the parts of a concatenation must add up to the whole axis"
    return _error(step, what, {f"{axis.size}": axis.why}, fix, (why, axis.why))


def count(step: InferenceStep, what: str, shape: str, elements: int) -> ShapeError:
    fix = "give data of a matching length, or change the sizes it is used with"
    return _error(step, f"{what} has {elements} elements, which cannot fill the shape {shape}", {}, fix)


def product(step: InferenceStep, given: Why, size: int | None = None, why: Why | None = None) -> ShapeError:
    """The size given for a row variable is not what its axes make; what was left for one must be `size`, by `why`."""
    assert given.product is not None
    named, row, whole = given.product
    left = [one.size is None or (one.why is not None and one.why.product is given.product) for one in row.axes or ()]
    found = zip(row.axes or (), left, strict=True)
    axes = [one.cap.size if one.cap else size if open_ else one.size for one, open_ in found]
    shown = ",".join("?" if one is None else str(one) for one in axes)
    known = [one for one in axes if one is not None]
    fits = f"{named}={prod(known)}" if len(known) == len(axes) else f"{named}= the product of its sizes"
    because = why or next((one.why for one in row.axes or () if one.why is not given), None)
    return _error(
        step,
        f"`..{named}..` cannot be {whole}, the product of its sizes, where it is {shown}",
        {f"{named}={whole}": given, shown: because},
        f"give {fits}, or change what it is used with",
        (given,),
    )


def labelled_row(step: InferenceStep, named: str, dim: Dim) -> ShapeError:
    what = f"`..{named}..` stands for any number of axes, so it cannot be labelled {dim.basis!r}"
    return _error(step, what, {}, f"give its size alone, {named}={dim.size}, or name its one axis")


def underdetermined(axis: AxisCell, step: InferenceStep | None) -> UnderdeterminedShapeError:
    """Nothing says how big `axis` is and it must not be guessed; `step` made the demand when it is a spec's label."""
    if step is not None:
        assert axis.label is not None
        return UnderdeterminedShapeError(
            f"nothing says how big {name(axis)} is",
            origin=step.origin,
            text=step.text,
            spans=[axis.label.span],
            notes=_context(step),
            fix=f"give its size, {axis.label.name}=…" + ", or the result's shape" * (step.title == "plan"),
        )
    row = axis.row
    owner = row.owner if row else None
    if row is None or owner is None:
        return UnderdeterminedShapeError(f"nothing says how big {name(axis)} is", fix="give its size")
    letter = row.kind[0]
    kind = "parameter" if row.role == "param" else "tensor"
    return UnderdeterminedShapeError(
        f"nothing says how big {name(axis, kind)} is",
        origin=owner.origin,
        notes=[f"`{owner.name}` is {owner}", *said_at("used", *_uses(owner))],
        fix=f"give it: {letter}=… on `{owner.name}`, or use it with something of a size other than 1, which fits any",
    )


def decided_by_calls(axis: AxisCell) -> OpenSizeError:
    """A size is needed that each call of a function decides."""
    owner = axis.row.owner if axis.row else None
    assert owner is not None
    return OpenSizeError(
        f"the size `{axis.open_name}` of input `{owner.name}` is decided by each call, and is needed before one",
        notes=said_at(f"`{owner.name}` was made", owner.origin),
        fix=f"make a function of it, step = ctx.function({owner.name}, …), and call that with arrays; "
        "print(t) shows a shape as far as it is known",
    )


def decided_before(step: InferenceStep, row: RowCell) -> ShapeError:
    """A varying tensor would have the shape of what it is used with here, had its value not been asked for before."""
    owner = row.owner
    called = f"`{owner.name}`" if owner is not None else "what is drawn"
    return _error(
        step,
        f"{called} varies from place to place, and its shape was decided before it met a larger one",
        {"its shape": row.why_hi},
        "write all that it is used with before asking for a value, or add zeros of the shape it is to have",
        (),
    )


def undetermined_count(step: InferenceStep, what: str, shape: str, elements: int) -> UnderdeterminedShapeError:
    return UnderdeterminedShapeError(
        f"{what} has {elements} elements, and nothing says how they lie in the shape {shape}",
        origin=step.origin,
        fix="give its shape, or use it with something of known size",
    )


def name(axis: AxisCell, kind: str = "") -> str:
    """How a message speaks of an axis."""
    if axis.label is not None:
        return f"`{axis.label.name}`"
    row = axis.row
    if row is None:
        return "the axis"
    owner = f" of {kind} `{row.owner.name}`".replace("  ", " ") if row.owner else ""
    if row.axes is not None and len(row.axes) > 1 and axis in row.axes:
        return f"{row.kind} axis {row.axes.index(axis)}{owner}"
    return f"the {row.kind} axis{owner}"


def _row_name(row: RowCell) -> str:
    return f"the {row.kind} row of `{row.owner.name}`" if row.owner else "a row"


def _axes(number: int) -> str:
    return {0: "no axes", 1: "1 axis"}.get(number, f"{number} axes")


def _size_fix(axis: AxisCell, old: int | None, new: int) -> str:
    if 1 in (old, new) and axis.basis is not None:
        return f"an axis labelled {axis.basis!r} does not broadcast: drop the label, or give it the full size"
    if 1 in (old, new):
        return "an einsum label must match exactly; a size of 1 broadcasts in pointwise operations, if it has no label"
    return f"make both {old} or both {new}; only an unlabelled 1 broadcasts"


def _other_rows(step: InferenceStep) -> str:
    """What to write where two operands have the same sizes in other rows; nothing, where that is not what is wrong."""
    for one, other in combinations(dict.fromkeys(step.slots[1:]), 2):
        left, right = one.closed, other.closed
        if left and right and not step.text and left != right and left.array_shape == right.array_shape:
            turned = f'wf.einsum("{_in_letters(right)} => {_in_letters(left)}", {other.name})'
            return f"their sizes are the same, in other rows: give both the same, or lay one out anew, {turned}"
    return ""


def _in_letters(shape: Shape) -> str:
    """A shape with a letter for each axis, in the order in which they lie in memory."""
    letters = iter(ascii_lowercase)
    batch, output, input = ("".join(islice(letters, len(row))) for row in (shape.batch, shape.output, shape.input))
    return show_rows(batch, input, output)


def _rank_fix(step: InferenceStep, row: RowCell) -> str:
    if step.title == "compose" and row.kind == "input":
        return (
            "`@` feeds the right's outputs to the left's inputs: write `weights @ x`, give the left input axes, or use "
            "`*` for pointwise"
        )
    if step.title == "slice":
        return "`@|` slices the leftmost batch axis: give the data batch axes, wf.data(…, batch=1), or use t[…]"
    if with_commas := text_with_commas(step.text):
        return f"without a comma each letter is an axis: write `{with_commas}`"
    if word := long_word(step.text):
        return f"without a comma each letter is an axis: if `{word}` is the name of one, write `{word},`"
    if step.text and "..." in step.text:
        return "`...` stands for the same axes everywhere and does not broadcast: give every operand those axes"
    if step.text:
        return "write `...` where further axes may stand, or name every axis"
    return "give the tensors rows that broadcast: every axis of the smaller needs a partner in the larger"


def _error(
    step: InferenceStep,
    what: str,
    sides: Mapping[str, Why | None],
    fix: str,
    whys: Sequence[Why | None] | None = None,
    disputed: AxisCell | None = None,
) -> ShapeError:
    """What both sides are, and how each came about; carets are where `whys` are, or else the sides."""
    return ShapeError(
        what,
        origin=step.origin,
        text=step.text,
        spans=_spans(step, sides.values() if whys is None else whys),
        notes=[*_context(step, disputed), *(line for side, why in sides.items() for line in _lines(side, why))],
        fix=fix,
    )


def _context(step: InferenceStep, disputed: AxisCell | None = None) -> list[str]:
    """The shapes the operation relates, and the labels solved so far, but for the one in dispute."""
    operands = [f"{shape.name} is {shape}" for shape in dict.fromkeys(step.slots[1:])]
    known = {label: axis for label, axis in step.labels.items() if axis.size is not None and axis is not disputed}
    solved = " ".join(f"{label}={axis}{_by_name(axis)}" for label, axis in known.items())
    return operands + ([f"solved so far: {solved}"] if solved else [])


def _chain(why: Why | None) -> Iterator[Why]:
    while why is not None:
        yield why
        why = why.before


def _named(why: Why | None) -> NamedSize | None:
    """The size by name that a fact follows from."""
    return next((link.named for link in _chain(why) if link.named is not None), None)


def _size(size: int | None, why: Why | None) -> str:
    """A size as a message speaks of it: by its name, if it has one."""
    named = _named(why)
    return named.spelled if named is not None and named == size else str(size)


def _by_name(axis: AxisCell) -> str:
    named = _named(axis.why)
    return f" (`{named.name}`)" if named is not None and named == axis.size else ""


def _lines(side: str, why: Why | None) -> list[str]:
    """The user's lines that forced one side, the first cause first."""
    steps = [link.step for link in _chain(why) if link.step.origin is not None][::-1]
    origins = list(dict.fromkeys(step.origin for step in steps if step.origin is not None))
    if not origins:
        return []
    shown = origins if len(origins) <= 3 else [origins[0], *origins[-2:]]
    first, *others = shown
    said = "was decided for" if steps[0].title == CLOSING else "comes from"
    through = [f"  through {origin}: {origin.code}" for origin in others]
    named = _named(why)
    return [f"{side} {said} {first}: {first.code}", *through, *([] if named is None else [named.source])]


def _spans(step: InferenceStep, whys: Iterable[Why | None]) -> list[Span]:
    found = (link.span for why in whys for link in _chain(why) if link.step is step and link.span is not None)
    return list(dict.fromkeys(found))


def _uses(owner: ShapeVar) -> list[Origin]:
    """The first lines that use a tensor."""
    rules = (rule for row in owner.rows for rule in row.watchers)
    steps = sorted({rule.step for rule in rules}, key=lambda step: step.order)
    return list(dict.fromkeys(step.origin for step in steps if step.origin is not None))[:3]
