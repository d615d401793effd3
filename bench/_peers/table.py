"""The table: works in groups, and what is wanted of each: how many times as fast as the best peer.

Of some groups something is wanted in the geometric mean, and less of each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# Each of these adds its kinds.
from _peers import (
    KINDS,
    attention,
    comprehensions,
    convolutions,
    elementwise,
    models,
    products,
    reductions,
    usage,
    work,
)

__all__ = [
    "KINDS",
    "MEANS",
    "Row",
    "attention",
    "comprehensions",
    "convolutions",
    "elementwise",
    "models",
    "products",
    "reductions",
    "usage",
    "work",
]

#: The products that are drawn: how many, and by which seed.
DRAWN, SEED = 20, 14


#: What is wanted in the geometric mean of a group.
MEANS = {"awkward products": 1.0, "awkward layers": 1.05}
#: What is wanted of a row where a mean is.
_LEAST = 0.9
#: What is wanted of comprehensions that are tuned, or so much of the machine's peak where a peer is too near to that.
_TUNED, _BOUNDED = 1.3, 0.9


@dataclass(frozen=True, slots=True)
class Row:
    """A work, the group it is in, and what is wanted of it.

    weft may tune it for some seconds before. Of one that is `bounded` no more is wanted than so much of what the
    machine could do at its peak: the best peer may be too near to that.
    """

    text: str
    group: str
    wanted: float
    tuned: float = 0.0
    bounded: float = 0.0

    @property
    def title(self) -> str:
        return f"{self.text}, tuned {self.tuned:g} s" if self.tuned else self.text


def _group(name: str, wanted: float, *texts: str) -> list[Row]:
    return [Row(text, name, wanted) for text in texts]


_NARROW = ("", " int8")
AWKWARD = ("333×517×261", "96×768×768", "100×300×200", "32×1024×1024", "1×1024×1024", "2000×64×10")
IMAGES = ("64×1×28×16×5", "16×64×30×64×3", "16×32×28×64×3 padded", "16×64×31×64×3 strided")


def rows(seed: int = SEED, tuned: float = 0.0) -> list[Row]:
    """Every row, with products drawn by a seed; comprehensions a second time, tuned for so many seconds, if any."""
    awkward = [*AWKWARD, *products.drawn(DRAWN, seed)]
    found = [
        *_group("products", 1.15, "product 256×256×256", "product 512×128×512", "product 64×784×256"),
        *_group(
            "large products",
            1.0,
            *(
                f"product {size}×{size}×{size}{option}"
                for size in (1024, 2048)
                for option in ("", " left_transposed", " right_transposed")
            ),
        ),
        *_group("awkward products", _LEAST, *(f"product {one}" for one in awkward)),
        *_group(
            "long sums",
            1.0,
            "product 32×100000×32",
            "product 8×100000×8 left_transposed",
            "product 10×50000×64 left_transposed",
            "product 784×8192×10 left_transposed",
        ),
        # Processors have instructions for these, of two or four times the speed of single precision.
        *_group("narrow products", 1.0, *(f"narrow-product {n}×{n}×{n}{of}" for n in (256, 1024) for of in _NARROW)),
        *_group("layers", 1.05, *(f"layer {one}" for one in ("256×256×256", "64×784×256", "1024×1024×1024"))),
        *_group("awkward layers", _LEAST, *(f"layer {one}" for one in awkward)),
        *_group("contractions", 1.2, "batched 64×64×64×64", "permuted 24×24×24×24×16×16"),
        *_group("training", 5.0, "perceptron 32×2×16×16×2"),
        *_group("training", 1.3, "perceptron 64×784×256×128×10"),
        *_group("training", 1.0, "perceptron 256×1024×2048×2048×1024"),
        *_group("memory", 1.1, "chain 4194304", "sum 4194304", "max 4194304", "argmax 4194304", "transpose 4096×2048"),
        *_group("normalisation", 1.1, "softmax 4096×1024", "softmax 4096×1024 gradient"),
        *_group("normalisation", 1.1, "layer-norm 4096×1024", "layer-norm 4096×1024 gradient"),
        *_group(
            "attention",
            1.0,
            *(f"attention 6×{length}×64{more}" for length in (256, 512, 1024, 2048) for more in ("", " gradients")),
            "attention 6×1024×64 causal",
            "attention 6×1024×64 causal gradients",
        ),
        *_group("convolutions", 1.0, *(f"convolution {one}{more}" for one in IMAGES for more in ("", " gradients"))),
        *_group("transformers", 1.5, "transformer 4×128×64×8"),
        *_group("transformers", 1.2, "transformer 4×384×128×4", "transformer 4×384×512×1"),
        *_group("embedding", 1.2, "embedding 50000×256×4096", "embedding 50000×256×4096 gradient"),
        *_group("embedding", 1.0, "scatter 100000×64×65536", "scatter 50000×768×2048"),
        *_group("reductions", 1.0, *(f"{one} 1024×1000" for one in ("columns", "logsumexp", "variance", "sort"))),
        *_group("reductions", 1.0, "top 1024×1000×4"),
        *_group(
            "comprehensions",
            1.0,
            "tmm 128×1024×1024",
            "tbmm 500×26×72×26",
            "group-convolution 8×16×4×28×4×3",
            "lut1 10000×64×128×50",
            "lut2 10000×20000×64×128×50×40",
            "mlp1 128×2000×128",
            "mlp3 128×128×64×32×2",
            "moments 128×4096",
            "group-norm 8×32×4×28",
        ),
        # A pair of `max` and `+` takes at least as long as a multiplication with an addition.
        Row("max-plus 512×512×512", "semirings", 20.0, bounded=_BOUNDED),
    ]
    again = [one for one in found if tuned and one.group == "comprehensions"]
    return [
        *found,
        *(replace(one, group="tuned comprehensions", wanted=_TUNED, tuned=tuned, bounded=_BOUNDED) for one in again),
    ]
