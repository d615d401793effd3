"""Which kernels of a graph wait for which."""

from __future__ import annotations

from hypothesis import given, strategies as st

from weft.backends.cuda.graph_dependences import ByteSpan, TouchedBytes, waits

X, Y, Z = (0, 8), (8, 16), (16, 24)


def test_what_shares_no_bytes_does_not_wait() -> None:
    kernels = [TouchedBytes((), (X,)), TouchedBytes((X,), (Y,)), TouchedBytes((X,), (Z,)), TouchedBytes((Y, Z), (X,))]
    assert waits(kernels, 8) == [(), (0,), (0,), (2, 1)]
    assert waits(kernels, 1) == [(), (0,), (1,), (2,)]


def test_parts_of_bytes_are_waited_for() -> None:
    kernels = [TouchedBytes((), ((0, 16),)), TouchedBytes((), ((32, 48),)), TouchedBytes((Y,), ())]
    assert waits(kernels, 8) == [(), (), (0,)]


def conflict(one: TouchedBytes, other: TouchedBytes) -> bool:
    def meet(some: tuple[ByteSpan, ...], others: tuple[ByteSpan, ...]) -> bool:
        return any(a[0] < b[1] and b[0] < a[1] for a in some for b in others)

    return meet(one.writes, other.writes) or meet(one.writes, other.reads) or meet(one.reads, other.writes)


spans = st.tuples(st.integers(0, 12), st.integers(1, 5)).map(lambda one: (one[0], one[0] + one[1]))
some = st.lists(spans, max_size=3, unique=True).map(tuple)


@given(st.lists(st.builds(TouchedBytes, some, some), max_size=12), st.integers(1, 12))
def test_two_kernels_that_conflict_run_in_their_order(kernels: list[TouchedBytes], at_once: int) -> None:
    found = waits(kernels, at_once)
    behind: list[set[int]] = []
    for before in found:
        behind.append(set(before).union(*(behind[one] for one in before)))
        assert all(one < len(behind) - 1 for one in before)
    for later, kernel in enumerate(kernels):
        for earlier in range(later):
            if conflict(kernels[earlier], kernel) or later - earlier == at_once:
                assert earlier in behind[later]
        for one in found[later]:
            assert not any(one in behind[other] for other in found[later])
