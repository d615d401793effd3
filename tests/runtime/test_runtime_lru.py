"""What is kept in memory because it was compiled: the last used, and no more than so many."""

from __future__ import annotations

import threading

import numpy as np

import weft as wf
from weft.runtime.lru import LRU
from weft.runtime.weak import Weak


def test_the_least_recently_used_goes_first() -> None:
    kept: LRU[str, int] = LRU(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    kept.drop("a")
    kept.drop("a")
    assert (kept.get("a"), len(kept)) == (None, 1)


def test_what_belongs_to_an_object_goes_with_it() -> None:
    class Key:
        pass

    kept: Weak[Key, list[int]] = Weak()
    one, two = Key(), Key()
    kept.put(one, [1])
    kept.put(two, [2])
    assert (kept.get(one), kept.get(Key()), list(kept)) == ([1], None, [one, two])
    kept.put(one, [3])
    assert (kept.get(one), list(kept)) == ([3], [one, two])
    del one
    assert list(kept) == [two]
    kept.clear()
    del two
    assert list(kept) == []


def test_many_threads_keep_within_the_limit() -> None:
    kept: LRU[int, int] = LRU(5)

    def use() -> None:
        for number in range(2000):
            kept.put(number % 17, number)
            kept.get((number + 3) % 17)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 5


def test_programs_that_compute_single_tensors() -> None:
    with wf.config.using(kept_programs=3):
        ctx = wf.Context("interp")
    x = wf.data(np.ones(2))
    tensors = [x * float(number) for number in range(6)]
    for _ in range(2):
        assert [ctx[one][0] for one in tensors] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(ctx._engine._computing) == 3


def test_calls_of_a_comprehension() -> None:
    with wf.config.using(kept_programs=3):
        f = wf.tc.define("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", backend="interp").f
    chosen = wf.tc.Options(unroll=2)
    f.options(np.ones(1, "float32"), choose=chosen)
    for size in range(1, 8):
        x = np.ones(size, "float32")
        assert f(x).tolist() == [2.0] * size
        assert f.grad(x).tolist() == [2.0] * size
    assert len(f._calls) == len(f._gradients) == 3
    assert f.options(np.ones(1, "float32")) == chosen  # what was chosen is not forgotten with what was compiled
