"""The next token, chosen by its score: the best, or one drawn among the best."""

from __future__ import annotations

from dataclasses import dataclass

from weft.einsum import parse_spec
from weft.errors import WeftError
from weft.nn.masks import HIDDEN
from weft.ops import Scalar, call
from weft.tensor.creation import arange
from weft.tensor.einsum import einsum
from weft.tensor.functions import where
from weft.tensor.groups import related
from weft.tensor.leaves import offsets
from weft.tensor.reductions import argmax, softmax, sum
from weft.tensor.scan import scan
from weft.tensor.sorting import top_k
from weft.tensor.tensor import Tensor

#: So often is the interval halved in which the least probability of a nucleus lies.
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Structure:
    """Whether tokens are drawn, among how many, and whether among a nucleus."""

    drawn: bool = False
    top_k: int | None = None
    nucleus: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The numbers that a draw takes, by name."""
        return ("temperature", *["top_p"] * self.nucleus, "seed", "step") if self.drawn else ()


#: The best token.
GREEDY = Structure()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen: the one of the best score, or drawn by the scores divided by a `temperature`.

    Drawn among the `top_k` best, and among the fewest best ones that together have a probability of `top_p`.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise WeftError(f"a temperature is 0, for the best token, or above, not {self.temperature}")
        if self.top_k is not None and (isinstance(self.top_k, bool) or self.top_k < 1):
            raise WeftError(f"top_k= is how many tokens to draw among, 1 or more, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise WeftError(f"top_p= is a probability above 0, at most 1, not {self.top_p}")
        if not self.temperature and (self.top_k is not None or self.top_p is not None):
            what = "top_k= and top_p= say among which tokens to draw, and at temperature 0 the best one is taken"
            raise WeftError(what, fix="give a temperature as well, temperature=1.0")

    @property
    def structure(self) -> Structure:
        """What code depends on: the numbers come with each call."""
        return Structure(self.temperature > 0, self.top_k, self.top_p is not None)


@dataclass(frozen=True, slots=True)
class Draw:
    """What a draw depends on, each one number: the temperature, the probability of the nucleus, a seed, which draw."""

    temperature: Tensor
    top_p: Tensor
    seed: Tensor
    step: Tensor


def next_token(scores: Tensor, how: Structure, draw: Draw) -> Tensor:
    """The next token of each sequence, `batch|1`, from scores `batch|v`."""
    if not how.drawn:
        return argmax(scores)
    if how.top_k is not None:
        scores = _best(scores, how.top_k)
    scores = scores / draw.temperature
    if how.nucleus:
        scores = _nucleus(scores, draw.top_p)
    return argmax(_with_noise(scores, draw))


def _best(scores: Tensor, k: int) -> Tensor:
    """The scores of the `k` best, and of those that are as good as the last of them."""
    if scores.dims.output[-1].size <= k:
        return scores
    values, _ = top_k(scores, k)
    last = einsum(f"..., b|{k - 1} => ..., b|0", values)  # with a comma, or 19 is a 1 and a 9
    found: Tensor = where(last <= scores, scores, HIDDEN)
    return found


def _nucleus(scores: Tensor, top_p: Tensor) -> Tensor:
    """The scores of the fewest tokens that together have a probability of `top_p`, and those as likely as the last.

    Above `low`, what is more likely has that probability together; above `high` it has not.
    """
    likely = softmax(scores)

    def halve(ends: tuple[Tensor, Tensor], _: Tensor) -> tuple[Tensor, Tensor]:
        low, high = ends
        middle = (low + high) * 0.5
        enough = top_p <= sum(where(middle < likely, likely, 0.0))
        return where(enough, middle, low), where(enough, high, middle)

    times = einsum("t => t|0", arange(_HALVINGS, dtype="float32"))
    ends = sum(likely) * 0.0  # of the batch's shape
    _, (low, _) = scan(halve, times, init=(ends, ends + 1.0))
    found: Tensor = where(low < likely, scores, HIDDEN)
    return found


def _with_noise(scores: Tensor, draw: Draw) -> Tensor:
    """Scores plus Gumbel noise, the greatest of which is a draw by their softmax."""

    def noisy(score: Scalar, row: Scalar, place: Scalar, seed: Scalar, step: Scalar) -> Scalar:
        counter = (row * (1 << 24) + step) * (1 << 24) + place
        unit = call("uniform", call("threefry4x32", seed, counter), 24)
        return score - call("log", -call("log", unit + 2.0**-25))

    spec = parse_spec("b|v; b; v; 0; 0 => b|v")
    operands = [scores, offsets(dtype="int64"), offsets(dtype="int64"), draw.seed, draw.step]
    return related("noisy", noisy, list(zip(spec.operands, operands, strict=True)), spec.result)
