"""Random specifications with shapes that fit them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hypothesis import strategies as st

LABELS = "abcde"


@dataclass(frozen=True)
class Case:
    """A specification, shapes for its operands, and the size of every label."""

    text: str
    operands: tuple[str, ...]
    labels: tuple[tuple[str, int], ...]

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.labels)


@dataclass(frozen=True)
class Term:
    """One axis as written, and its size."""

    text: str
    size: int


@st.composite
def terms(draw: st.DrawFn, sizes: dict[str, int], kinds: str, in_result: bool = False) -> Term:
    label = st.sampled_from(sorted(sizes))
    kind = draw(st.sampled_from(kinds))
    one, other = draw(label), draw(label)
    if kind == "l":
        return Term(one, sizes[one])
    if kind == "_":
        return Term("_", 1 if in_result else draw(st.integers(1, 3)))
    if kind == "p":
        at = draw(st.integers(0, 2))
        return Term(str(at), at + 1 + (0 if in_result else draw(st.integers(0, 2))))
    if kind == "s":
        stride = draw(st.integers(2, 3))
        offset = draw(st.integers(0, stride - 1))
        return Term(f"{stride}*{one}+{offset}", stride * sizes[one])
    if kind == "c":
        return draw(concatenations(sizes))
    if kind == "f" and len(sizes) > 1:
        parts = draw(st.lists(label, min_size=2, max_size=3, unique=True))
        return Term("&".join(parts), prod(sizes[part] for part in parts))
    if kind == "f":
        return Term(one, sizes[one])
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    offset = draw(st.integers(0, stride - 1))
    text = f"{stride}*{one}{'<+' if kind == 'v' else '=+'}{dilation}*{other}+{offset}"
    window = dilation * (sizes[other] - 1) + 1 + offset
    return Term(text, stride * sizes[one] if kind == "w" else stride * (sizes[one] - 1) + window)


@st.composite
def concatenations(draw: st.DrawFn, sizes: dict[str, int]) -> Term:
    labels = draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3, unique=True))
    parts = [Term(label, sizes[label]) for label in labels]
    if len(parts) == 1 or draw(st.integers(0, 3)) == 0:
        skipped = draw(st.integers(0, 2))
        parts.insert(draw(st.integers(0, len(parts))), Term(str(skipped), skipped))
    return Term("^".join(part.text for part in parts), sum(part.size for part in parts))


@st.composite
def cases(draw: st.DrawFn, kinds: str = "lll_psvwf", operands: int = 3, points: int = 1500) -> Case:
    """`kinds`: l label, _ hole, p position, s strided, v window inside, w padded, f flattened, c concatenation."""
    sizes = {label: draw(st.integers(1, 4)) for label in LABELS[: draw(st.integers(1, len(LABELS)))]}
    while prod(sizes.values()) > points:
        largest = max(sizes, key=lambda label: sizes[label])
        sizes[largest] -= 1
    tracked = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)) if draw(st.booleans()) else None
    written = [draw(_shapes(sizes, kinds, tracked, False)) for _ in range(draw(st.integers(1, operands)))]
    result, _ = draw(_shapes(sizes, kinds, tracked, True))
    return Case(
        "; ".join(text for text, _ in written) + " => " + result,
        tuple(shape for _, shape in written),
        tuple((label, size) for label, size in sizes.items() if label in "".join([result, *(t for t, _ in written)])),
    )


@st.composite
def _shapes(
    draw: st.DrawFn, sizes: dict[str, int], kinds: str, tracked: list[int] | None, in_result: bool
) -> tuple[str, str]:
    """One shape as the specification writes it, and its sizes."""
    spec, shape = "", ""
    carrier = draw(st.sampled_from(["batch", "input", "output", ""])) if tracked is not None else ""
    for kind, most, end in (("batch", 1, "|"), ("input", 1, "->"), ("output", 2, "")):
        row = draw(st.lists(terms(sizes, kinds, in_result), max_size=most))
        axes = [str(term.size) for term in row]
        names = [term.text for term in row]
        if carrier == kind and tracked is not None:
            at = draw(st.integers(0, len(row)))
            names.insert(at, "..v..")
            axes[at:at] = map(str, tracked)
        elif not in_result and draw(st.integers(0, 5)) == 0:
            axes.insert(0, str(draw(st.integers(1, 3))))
        if end and not axes and not names:
            continue
        spec += ",".join(names) + ("," if names and names[-1] != "..v.." else "") + end
        shape += ",".join(axes) + end
    return spec if "," in spec else spec + " ", shape
