"""What `mixtures.py` does with where numbers stand: orders, positions, recurrences, windows, parts, joins."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

import numpy as np

import weft as wf
from generators._named_axes import NAMES, Array, Drawing, Step, Value, along, folded, lined, part_of


def _prefix(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.output) > 0)
    if not x:
        return None
    axis, name = d.pick(x.axes), d.pick(["cumsum", "cummax", "cumprod"])
    if x.output == axis and x.batch:
        return None
    spec = f"{x.part} => {part_of(x.batch.replace(axis, ''), x.output.replace(axis, ''))}"
    ours = {"cumsum": np.cumsum, "cummax": np.maximum.accumulate, "cumprod": np.cumprod}[name]
    return d.make(
        f"{name} {spec}",
        getattr(wf, name)(x.tensor, spec),
        (x.batch, x.output),
        lambda a: along(a, x.axes, axis, lambda b: ours(b, axis=-1)),
        x,
    )


def _sorted(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.output) > 0)
    if not x:
        return None
    axis = d.pick(x.axes)
    spec = f"{x.part} => {part_of(x.batch.replace(axis, ''), x.output.replace(axis, ''))}"
    how = d.pick(["sort", "sort", "argsort"])
    if how == "sort":
        return d.make(
            f"sort {spec}",
            wf.sort(x.tensor, spec),
            (x.batch, x.output),
            lambda a: along(a, x.axes, axis, lambda b: np.sort(b, axis=-1)),
            x,
        )
    return d.make(
        f"argsort {spec}",
        wf.argsort(x.tensor, spec),
        (x.batch, x.output),
        lambda a: along(a, x.axes, axis, lambda b: np.argsort(b, axis=-1, kind="stable")),
        x,
        limit=d.sizes[axis],
    )


def _argmax(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.output) > 0)
    if not x:
        return None
    kept = d.some(x.axes, share=0.6)
    kept = kept if len(kept) < len(x.axes) else kept[1:]
    rows, name = d.rows(kept), d.pick(["argmax", "argmin"])
    spec = f"{x.part} => {part_of(*rows)}"
    tensor = getattr(wf, name)(x.tensor, spec) if d.chance(0.5) else wf.einsum(spec, x.tensor, accum=name)
    limit = d.size("".join(one for one in x.axes if one not in kept))
    return d.make(
        f"{name} {spec}",
        tensor,
        rows,
        lambda a: folded(a, x.axes, kept, partial(getattr(np, name), axis=-1)),
        x,
        limit=limit,
    )


def _places(d: Drawing) -> Value | None:
    """Positions computed from numbers, or data."""
    limit = int(d.rng.integers(1, 7))
    if d.chance(0.5):
        x = d.any()
        assert x
        return d.make(
            "places",
            wf.cast(wf.abs(x.tensor) * 3.7, "int32") % limit,
            (x.batch, x.output),
            lambda a: np.trunc(np.abs(a) * 3.7) % limit,
            x,
            limit=limit,
        )
    axes = d.some("".join(one for one in d.sizes if d.sizes[one] < 20), least=1, share=0.3)[:2]
    if not axes:
        return None
    array = d.rng.integers(0, limit, [d.sizes[one] for one in axes])
    dtype = d.pick(["int32", "int64", "uint8", "uint32"])
    batch = int(d.rng.integers(0, len(axes) + 1))
    return d.make(
        f"data {dtype}",
        wf.data(array.astype(dtype), batch=batch, label="ids"),
        (axes[:batch], axes[batch:]),
        lambda: array,
        limit=limit,
    )


def _positions(d: Drawing) -> Value | None:
    found = [one for one in d.values if one.limit]
    return d.pick(found) if found and d.chance(0.7) else _places(d)


def _counted(d: Drawing) -> Value | None:
    p = _positions(d)
    return p and d.make(
        "as numbers", wf.cast(p.tensor, "float64") * 0.3 - 0.5, (p.batch, p.output), lambda a: a * 0.3 - 0.5, p
    )


def _gather(d: Drawing) -> Value | None:
    p = _positions(d)
    x = d.any(lambda one: len(one.axes) > 0)
    if not p or not x:
        return None
    v = d.pick(x.axes)
    if v in p.axes:
        return None
    offset = d.pick([0, 0, 0, -1, 2])
    size, outside = d.sizes[v], d.pick(["clip", "skip"])
    union = "".join(dict.fromkeys(x.axes.replace(v, "") + p.axes))
    kept = d.some(union, share=0.85)
    if d.size(union) > d.loops or d.size(kept) > d.largest:
        return None
    given = {} if p.limit + offset <= size and offset >= 0 and d.chance(0.5) else {"outside": outside}
    spec = f"{x.part}; {part_of(p.batch, p.output)}@{v} => {part_of(*(rows := d.rows(kept)))}"

    def meaning(a: Array, at: Array) -> Array:
        at = at.astype(int) + offset
        a = np.moveaxis(a, x.axes.index(v), 0)
        rest = x.axes.replace(v, "")
        found = a[np.clip(at, 0, size - 1)] if size else np.zeros((*at.shape, *a.shape[1:]))
        if given.get("outside") == "skip":
            found = found * ((at >= 0) & (at < size)).reshape(at.shape + (1,) * len(rest))
        if set(rest) & set(p.axes):
            return np.einsum(found, [*map(NAMES.index, p.axes), *map(NAMES.index, rest)], [*map(NAMES.index, kept)])
        return np.einsum(f"{p.axes + rest}->{kept}", found)

    places = p.tensor + offset if offset else p.tensor
    if offset and p.tensor.dtype.startswith("uint"):
        return None
    return d.make(f"gather {spec} {offset} {given}", wf.einsum(spec, x.tensor, places, **given), rows, meaning, x, p)


def _one_hot(d: Drawing) -> Value | None:
    """What stands at positions along an axis, by comparing these with all there are."""
    p, x = _positions(d), d.any(lambda one: len(one.axes) > 0)
    if not p or not x or (v := d.pick(x.axes)) in p.axes:
        return None
    union = "".join(dict.fromkeys(x.axes + p.axes))
    kept = d.some(union.replace(v, ""), share=0.85)
    if d.size(union) > d.largest:
        return None
    sizes = {one: d.sizes[one] for one in union}
    places = wf.einsum(f"{p.part} => {union}", p.tensor, **sizes)
    every = wf.einsum(f"{v} => {union}", wf.arange(d.sizes[v], dtype="int32"), **sizes)
    values = wf.einsum(f"{x.part} => {union}", x.tensor, **sizes)
    spec = f"{union} => {part_of(*(rows := d.rows(kept)))}"

    def meaning(a: Array, at: Array) -> Array:
        hot = lined(at, p.axes, union) == lined(np.arange(d.sizes[v]), v, union)
        return np.einsum(
            f"{union}->{kept}", np.where(hot, lined(a, x.axes, union), 0.0) * np.ones(list(sizes.values()))
        )

    tensor = wf.sum(wf.where(wf.equal(places, every), values, 0.0), spec)
    return d.make(f"one-hot {spec} along {v}", tensor, rows, meaning, x, p)


def _scatter(d: Drawing) -> Value | None:
    p, x = _positions(d), d.any()
    if not p or not x:
        return None
    size = int(d.rng.integers(1, 8))
    union = "".join(dict.fromkeys(x.axes + p.axes))
    inner = d.some(union, share=0.4)
    if d.size(union) * size > d.loops:
        return None
    v = d.axis(size)
    at = int(d.rng.integers(0, len(inner) + 1))
    kept = inner[:at] + v + inner[at:]
    accum = d.pick(["+", "+", "max", "min"]) if d.size(union) < 200 else "+"  # others' gradients are quadratic
    if d.size(kept) > d.largest:
        return None
    rows, outside = d.rows(kept), d.pick(["clip", "skip"])
    spec = f"{x.part}; {part_of(p.batch, p.output)}@{v} => {part_of(*rows)}"

    def meaning(a: Array, places: Array) -> Array:
        full = np.broadcast_to(lined(a, x.axes, union), [d.sizes[one] for one in union])
        where = np.broadcast_to(lined(places, p.axes, union), full.shape).astype(int)
        start, join = {"+": (0.0, np.add), "max": (-inf, np.maximum), "min": (inf, np.minimum)}[accum]
        found = np.full([d.sizes[one] for one in kept], start)
        for point in np.ndindex(full.shape):
            place = where[point]
            if outside == "clip":
                place = min(max(place, 0), size - 1)
            if not 0 <= place < size:
                continue
            cell = tuple(place if one == v else point[union.index(one)] for one in kept)
            found[cell] = join(found[cell], full[point])
        return found if accum == "+" else np.where(np.isfinite(found), found, 0.0)

    tensor = wf.einsum(spec, x.tensor, p.tensor, outside=outside, accum=accum, **{v: size})
    if accum != "+":
        tensor = wf.where(wf.isfinite(tensor), tensor, 0.0)
    return d.make(f"scatter {spec} {accum} {outside}", tensor, rows, meaning, x, p)


def _scan(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.axes) > 0)
    if not x:
        return None
    axis, reverse = d.pick(x.axes), d.chance(0.4)
    if d.sizes[axis] > 40:
        return None
    rest = x.axes.replace(axis, "")
    batch = axis + "".join(one for one in rest if d.chance(0.3))
    output = "".join(one for one in rest if one not in batch)
    batch = "".join(d.rng.permutation(list(batch)))
    if not output:
        return None
    moved = wf.einsum(f"{x.part} => {part_of(batch, output)}", x.tensor)
    spec = f"{part_of(batch, output)} => {part_of(batch.replace(axis, ''), output)}"
    kind = int(d.rng.integers(0, 4))
    recompute = d.pick([False, False, True, 1, 2])

    def cell(h: Any, e: Any) -> Any:
        w = wf if isinstance(h, wf.Tensor) else np
        if kind == 0:
            return w.tanh(h + e)
        if kind == 1:
            return h * 0.5 + e
        if kind == 2:
            return w.where(e > 0, h, e)
        new = w.sin(h * e) + 0.5 * h
        return new, new * e

    def meaning(a: Array) -> Array:
        a = np.moveaxis(a, x.axes.index(axis), 0)
        h, out = np.zeros(a.shape[1:]), np.zeros(a.shape)
        for t in range(len(a))[:: -1 if reverse else 1]:
            found = cell(h, a[t])
            h, out[t] = found if isinstance(found, tuple) else (found, found)
        return np.transpose(out, [0 if one == axis else 1 + rest.index(one) for one in batch + output])

    init = wf.constant(0.0)
    outputs, _ = wf.scan(cell, moved, init=init, reverse=reverse, recompute=recompute, spec=spec)
    return d.make(f"scan {kind} {spec} {reverse=} {recompute=}", outputs, (batch, output), meaning, x)


def _subscripts(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.axes) > 0 and len(one.output) > 0)
    if not x:
        return None
    keys: list[Any] = []
    batch = output = ""
    for name in x.axes:
        size, way = d.sizes[name], d.rng.random()
        kept = name
        if way < 0.15 and (len(x.output) > 1 or name in x.batch) and size:
            keys.append(int(d.rng.integers(-size, size)))
            continue
        if way < 0.6:
            keys.append(slice(None))
        else:
            start, stop = sorted(int(one) for one in d.rng.integers(0, size + 1, 2))
            key = slice(start, stop, d.pick([1, 1, 2])) if way < 0.85 else slice(None, None, -1)
            length = len(range(size)[key])
            if not length:
                keys.append(slice(None))
            else:
                keys.append(key)
                kept = name if length == size and key.step != -1 else d.axis(length)
                kept = name if key.step == -1 else kept
        if name in x.batch:
            batch += kept
        else:
            output += kept
    if not output or all(one == slice(None) for one in keys):
        return None
    key = tuple(keys)
    return d.make(f"[{key}]", x.tensor[key], (batch, output), lambda a: a[key], x)


def _rearranged(d: Drawing) -> Value | None:
    """Parts, padding, repetition, several axes as one and apart again, by a spec."""
    x = d.any(lambda one: len(one.axes) > 0)
    if not x:
        return None
    i = d.pick(x.axes)
    n, rest = d.sizes[i], x.axes.replace(i, "")
    way = d.pick(["pad", "roll", "repeat", "every", "merge", "apart", "diagonal", "spread", "behind"])
    given: dict[str, int] = {}
    mine, theirs = i, i
    if way == "pad":
        low, high = (int(one) for one in d.rng.integers(0, 4, 2))
        theirs = "^".join([*([str(low)] if low else []), i, *([str(high)] if high else [])])
        size, act = n + low + high, lambda a: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(low, high)])
    elif way == "roll" and n > 1:
        cut = int(d.rng.integers(1, n))
        y = next(one for one in NAMES if one not in x.axes)
        z = next(one for one in NAMES if one not in x.axes + y)
        mine, theirs, given = f"{y}^{z}", f"{z}^{y}", {y: cut}
        size, act = n, lambda a: np.roll(a, -cut, -1)
    elif way == "repeat":
        k = next(one for one in NAMES if one not in x.axes)
        theirs, given = f"{i}&{k}", {k: 2}
        size, act = 2 * n, lambda a: np.repeat(a, 2, -1)
    elif way == "every" and n > 1 and n % 2 == 0:
        mine = f"2*{i}"
        size, act = n // 2, lambda a: a[..., ::2]
    elif way == "spread":
        theirs = f"2*{i}"
        size, act = 2 * n, lambda a: np.stack([a, np.zeros_like(a)], -1).reshape(*a.shape[:-1], -1)
    elif way == "behind" and n > 1:
        mine = f"1^{i}"
        size, act = n - 1, lambda a: a[..., 1:]
    elif way == "merge" and rest and len(rest) < 3:
        j = d.pick(rest)
        left = rest.replace(j, "")
        new = d.axis(n * d.sizes[j])
        spec = f"{x.part} => {left}{i}&{j}"

        def merged(a: Array) -> Array:
            b = a.transpose([x.axes.index(one) for one in left + i + j])
            return b.reshape(*b.shape[:-2], -1)

        return d.make(f"merged {spec}", wf.einsum(spec, x.tensor), ("", left + new), merged, x)
    elif way == "apart" and n % 2 == 0 and n:
        k = next(one for one in NAMES if one not in x.axes)
        spec = f"{part_of(x.batch.replace(i, f'{i}&{k}'), x.output.replace(i, f'{i}&{k}'))} => {rest}{i}{k}"
        first, last = d.axis(n // 2), d.axis(2)

        def apart(a: Array) -> Array:
            b = np.moveaxis(a, x.axes.index(i), -1)
            return b.reshape(*b.shape[:-1], n // 2, 2)

        return d.make(f"apart {spec}", wf.einsum(spec, x.tensor, **{k: 2}), ("", rest + first + last), apart, x)
    elif way == "diagonal":
        found = [one for one in rest if d.sizes[one] == n]
        if not found or i in x.batch or found[0] in x.batch:
            return None
        j = found[0]
        spec = f"{part_of(x.batch, x.output.replace(j, i))} => {part_of(x.batch, x.output.replace(j, ''))}"

        def diagonal(a: Array) -> Array:
            return np.einsum(f"{x.axes.replace(j, i)}->{x.axes.replace(j, '')}", a)

        return d.make(f"diagonal {spec}", wf.einsum(spec, x.tensor), (x.batch, x.output.replace(j, "")), diagonal, x)
    else:
        return None
    if d.size(rest) * size > d.largest:
        return None
    new = d.axis(size)
    first, second = (part_of(x.batch.replace(i, one), x.output.replace(i, one)) for one in (mine, theirs))
    spec = f"{first} => {second}"
    rows = x.batch.replace(i, new), x.output.replace(i, new)
    return d.make(
        f"{way} {spec} {given}", wf.einsum(spec, x.tensor, **given), rows, lambda a: along(a, x.axes, i, act), x
    )


def _joined(d: Drawing) -> Value | None:
    """Two tensors of the same axes but one, end to end along that."""
    x = d.any(lambda one: len(one.axes) > 0)
    y = x and d.any(lambda one: len(one.axes) == len(x.axes))
    if not x or not y:
        return None
    i = d.pick(x.axes)
    rest = x.axes.replace(i, "")
    extra = [one for one in y.axes if one not in rest]
    if len(extra) != 1 or len(set(rest) & set(y.axes)) != len(rest):
        return None
    j, other = extra[0], next(one for one in NAMES if one not in x.axes + y.axes)
    left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    if d.size(rest) * (d.sizes[i] + d.sizes[j]) > d.largest:
        return None
    new = d.axis(d.sizes[i] + d.sizes[j])
    spec = f"{x.part}; {part_of(y.batch.replace(j, other), y.output.replace(j, other))} => {left}{i}^{other}{right}"

    def meaning(a: Array, b: Array) -> Array:
        first, second = lined(a, x.axes, left + i + right), lined(b, y.axes, left + j + right)
        return np.concatenate([first, second], len(left))

    return d.make(f"joined {spec}", wf.einsum(spec, x.tensor, y.tensor), ("", left + new + right), meaning, x, y)


def _window(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.axes) > 0)
    if not x:
        return None
    i = d.pick(x.axes)
    n, padded, stride = d.sizes[i], d.chance(0.5), d.pick([1, 1, 2])
    width = int(d.rng.integers(1, 5))
    count = -(-n // stride) if padded else (n - width) // stride + 1
    if count < 1 or n < 1 or (not padded and (n - width) % stride):
        return None
    if padded and n % stride:
        return None
    k = next(one for one in NAMES if one not in x.axes)
    place = (f"{stride}*" if stride > 1 else "") + f"{i}{'=' if padded else '<'}+{k}"
    way = d.pick(["kernel", "kernel", "max", "sum", "seen"])
    rest = x.axes.replace(i, "")
    if d.size(rest) * count * width > d.loops:
        return None

    def cut(a: Array, empty: float) -> Array:
        """Windows along a last axis."""
        a = np.moveaxis(a, x.axes.index(i), -1)
        if not padded:
            return np.stack([a[..., at * stride : at * stride + width] for at in range(count)], -2)
        begin = width // 2  # how far before its place a window begins
        wide = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(width, 2 * width + stride * count)], constant_values=empty)
        return np.stack([wide[..., width + at * stride - begin :][..., :width] for at in range(count)], -2)

    operand = part_of(x.batch.replace(i, place), x.output.replace(i, place))
    new = d.axis(count)
    if way == "kernel":
        kernel = next(
            (
                one
                for one in d.values
                if one.axes and len(one.axes) == 1 and d.sizes[one.axes] == width and not one.limit
            ),
            None,
        )
        if kernel is None or d.chance(0.5):
            kernel = d.leaf("", d.axis(width))
        part = part_of(k if kernel.batch else "", k if kernel.output else "")
        spec = f"{operand}; {part} => {rest}{i}"
        return d.make(
            f"window {spec}",
            wf.einsum(spec, x.tensor, kernel.tensor),
            ("", rest + new),
            lambda a, w: cut(a, 0.0) @ w,
            x,
            kernel,
        )
    if way == "seen":
        if padded or d.size(rest) * count * width > d.largest:
            return None
        last = d.axis(width)
        spec = f"{operand} => {rest}{i}{k}"
        return d.make(
            f"window {spec}", wf.einsum(spec, x.tensor, **{k: width}), ("", rest + new + last), lambda a: cut(a, 0.0), x
        )
    accum = {"max": "max", "sum": "+"}[way]
    spec = f"{operand} => {rest}{i}"

    def meaning(a: Array) -> Array:
        return cut(a, -inf).max(-1) if way == "max" else cut(a, 0.0).sum(-1)

    return d.make(
        f"window {spec} {accum}", wf.einsum(spec, x.tensor, accum=accum, **{k: width}), ("", rest + new), meaning, x
    )


def _begin(n: int, width: int, stride: int) -> int:
    """How far before its place a padded window begins."""
    return width // 2


#: How often each is drawn.
PLACES: dict[Step, float] = {
    _prefix: 1,
    _sorted: 1,
    _argmax: 1,
    _counted: 0.5,
    _gather: 2,
    _one_hot: 0.7,
    _scatter: 1.5,
    _scan: 1,
    _subscripts: 1.5,
    _rearranged: 2.5,
    _joined: 1.5,
    _window: 1.5,
}
