"""The roofline of a GPU: the least time a kernel needs for its products, other operations, or memory traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from weft.loops import Staged, Stmt
from weft.loops.staged import every_sum, parts_of
from weft.loops.walk import scoped
from weft.schedule.cost import cost
from weft.schedule.gpu.gpu_products import product_width
from weft.schedule.gpu_model import Gpu
from weft.schedule.nodes import Kernel


def gpu_bound(kernel: Kernel, gpu: Gpu) -> float:
    """The least seconds for a kernel, each unit at its full speed; what the second cache holds is there already."""
    found, products = cost(kernel), _product_flops(kernel.body, gpu)
    plain = Counter({gpu.flops_per_s: max(found.flops - products.total(), 0)})
    near = found.footprint <= gpu.cache_bytes
    memory = found.footprint / (gpu.bytes_per_s * (gpu.cache_speed if near else 1.0))
    return max(memory, *(flops / speed for speed, flops in (plain + products).items()), 0.0)


def _product_flops(body: Sequence[Stmt], gpu: Gpu) -> Counter[float]:
    """The flops of products in blocks, by the speed of the units that do them."""
    found: Counter[float] = Counter()
    for stmt, scope in scoped(body):
        if isinstance(stmt, Staged) and stmt.what.blocks is not None:
            for parts in every_sum(parts_of(stmt)):
                speed = gpu.product_flops_per_s(product_width(parts), stmt.what.blocks.precision)
                found[speed] += 2 * prod(size for _, size in (*scope.loops, *parts.left, *parts.right, *parts.sums))
    return found
