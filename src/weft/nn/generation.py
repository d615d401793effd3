"""Generation: a language model applied to its own tokens, one after another.

A `Generator` is a model compiled for so many sequences of at most so many tokens. A prompt is read some tokens at a
time, and then one token at a time is read and the next one chosen; both by the model as it was written for whole
sequences, whose layers keep what they need of the tokens before (`decoding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.nn.checks import whole
from weft.nn.decoding import Decoding, decoding
from weft.nn.sampling import GREEDY, Draw, Sampling, Structure, next_token
from weft.public import public_methods
from weft.runtime import Context, Function
from weft.runtime.context import listed
from weft.runtime.lru import LRU
from weft.tensor.assignments import cd, node
from weft.tensor.einsum import einsum
from weft.tensor.inputs import input
from weft.tensor.layers import Layer, op
from weft.tensor.slices import index
from weft.tensor.tensor import Tensor

Tokens: TypeAlias = npt.NDArray[np.int32]
Scores: TypeAlias = npt.NDArray[np.float32]
_Drawn: TypeAlias = Callable[[int], Mapping[str, Any]]

#: Caches have a multiple of so many slots, so that prompts of about one length share what is compiled.
_SLOTS = 64


#: So many generators a model keeps.
_KEPT = 8
_BEGINNING = "give it a token to begin with, such as one that stands for the start of a text"


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What a generator is compiled for: how many sequences, of at most how many tokens, and how they go on."""

    batch: int
    slots: int
    sampling: Structure = GREEDY
    chunk: int = 32
    cache: bool = True


class Generator:
    """A model compiled to go on with sequences.

    A prompt is read `chunk` tokens at a time, and what is left of it one by one. Without a `cache` the model is applied
    to whole sequences at every step.
    """

    def __init__(self, model: Layer, ctx: Context, plan: GenerationPlan) -> None:
        self.model, self.ctx, self.plan = model, ctx, plan
        self._nodes: dict[str, Tensor] = {}
        self._compiled: dict[int, Function] = {}

    def __repr__(self) -> str:
        return f"<generator of {self.model.label}: {self.plan.batch} sequences of up to {self.plan.slots} tokens>"

    def steps(self, prompts: Sequence[Tokens], numbers: Sampling, seed: int) -> Iterator[tuple[Tokens, Scores]]:
        """The token that follows each prompt and all its scores, then the one that follows that, as long as asked."""
        run = self._cached if self.plan.cache else self._whole
        yield from run(prompts, lambda step: self._draw(numbers, seed, step))

    def _cached(self, prompts: Sequence[Tokens], draw: _Drawn) -> Iterator[tuple[Tokens, Scores]]:
        longest, chunk = max(map(len, prompts)), self.plan.chunk
        starts = np.array([longest - len(one) for one in prompts], np.int32)
        ids = np.stack([np.pad(one, (longest - len(one), 0)) for one in prompts])
        at = 0
        while longest - at > chunk > 1:  # the last token is left: what follows it is asked for
            self._read(ids[:, at : at + chunk], starts, at, draw(0))
            at += chunk
        step = 0
        while at < self.plan.slots:
            count = chunk if longest - at == chunk else 1
            token, scores = self._read(ids[:, at : at + count], starts, at, draw(step))
            at += count
            if at >= longest:
                yield token[:, 0], scores
                ids, step = np.concatenate([ids, token], 1), step + 1

    def _read(self, ids: Tokens, starts: Tokens, at: int, drawn: Mapping[str, Any]) -> tuple[Tokens, Scores]:
        """Read tokens that begin in slot `at`, of which a model that forgets all but the last one need not know."""
        run = self._step(ids.shape[1])
        indices: dict[str, Any] = {"at": at} if run.signature.indices else {}
        found: tuple[Tokens, Scores] = run(ids, starts, **drawn, **indices)
        return found

    def _whole(self, prompts: Sequence[Tokens], draw: _Drawn) -> Iterator[tuple[Tokens, Scores]]:
        ends = np.array([len(one) - 1 for one in prompts], np.int32)
        ids = np.stack([np.pad(one, (0, self.plan.slots - len(one))) for one in prompts])
        for step in range(self.plan.slots - int(ends.max())):
            token, scores = self._step(self.plan.slots)(ids, ends, **draw(step))
            yield token[:, 0], scores
            ends = ends + 1
            if ends.max() < self.plan.slots:
                ids[np.arange(self.plan.batch), ends] = token[:, 0]

    def _draw(self, numbers: Sampling, seed: int, step: int) -> dict[str, Any]:
        """The inputs of a draw, where there is one."""
        given = {"temperature": numbers.temperature, "top_p": numbers.top_p, "seed": seed, "step": step}
        return {name: given[name] for name in self.plan.sampling.inputs}

    def _step(self, count: int) -> Function:
        """The model applied to `count` tokens of each sequence, and the next token chosen."""
        if count not in self._compiled:
            self._compiled[count] = self._made(count)
        return self._compiled[count]

    def _made(self, count: int) -> Function:
        ids = input("ids", b=(self.plan.batch, count), dtype="int32")
        where = input("starts" if self.plan.cache else "ends", b=self.plan.batch, dtype="int32")
        draw = Draw(*(input(name) for name in ("temperature", "top_p")), *(_counted(name) for name in ("seed", "step")))
        at = index("at", self.plan.slots - count + 1)
        chosen, scores = node("chosen", dtype="int32"), node("scores")

        @cd
        def forward() -> None:
            if self.plan.cache:
                with decoding(Decoding(at, count, self.plan.slots, self.plan.batch, where, self._nodes)):
                    last = einsum(f"..., {count - 1}|v => ...|v", self._applied(ids))
            else:
                last = einsum("..., t|v; ...|@t => ...|v", self._applied(ids), where)
            scores[:] = last
            chosen[:] = next_token(scores, self.plan.sampling, draw)

        drawn = [getattr(draw, name) for name in self.plan.sampling.inputs]
        return self.ctx.function(ids, where, *drawn, code=forward(), returns=(chosen, scores))

    def _applied(self, ids: Tensor) -> Tensor:
        logits = self.model(ids)
        if not isinstance(logits, Tensor):
            what = f"`{self.model.label}` gives a {type(logits).__name__}, and what goes on is chosen by scores"
            raise WeftError(what, fix="let the model return the scores of all tokens, `...,t|vocabulary`")
        return logits


def _counted(name: str) -> Tensor:
    return input(name, dtype="int64")


def generate(
    model: Layer,
    prompt: Any,
    *,
    max_new: int,
    context: Context | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: int | None = None,
    max_len: int | None = None,
    chunk: int = 32,
    cache: bool = True,
) -> Any:
    """The tokens with which a language model goes on after a prompt of ids; of several prompts, a list of them.

    A model is any layer from ids `batch,time|1` to scores `batch,time|vocabulary` that is built of layers of `wf.nn`,
    whose positions see those before them. At `temperature` 0 the best token is taken; above, one is drawn, among the
    `top_k` best, and the fewest best that have a probability of `top_p`. The same `seed` draws the same. It goes on for
    `max_new` tokens, or up to the token `stop`, which is left out, or up to `max_len` tokens with the prompt. Without
    `context`, the parameters are those of the context that holds them. The prompt is read `chunk` tokens at a time;
    `cache=False` applies the model to whole sequences at every step, which any model allows that looks back only.

    >>> model = wf.nn.gpt(vocabulary=50, max_len=16, width=8, num_layers=2, num_heads=2)
    >>> tokens = wf.nn.generate(model, [3, 14, 15], max_new=5, context=ctx)
    >>> print(len(tokens), tokens.dtype)
    5 int32
    """
    sampling = Sampling(temperature, top_k, top_p)
    whole("generate", max_new=max_new, chunk=chunk)
    prompts, single = _prompts(prompt)
    slots = _slots(max(map(len, prompts)), max_new, max_len, cache)
    held = context or listed.holder(model.params if model.scope.applied else (), f"`{model.label}`")
    if held is None:
        raise WeftError(f"there is no context that holds parameters of `{model.label}`", fix="create a wf.Context")
    generator = _generator(model, held, GenerationPlan(len(prompts), slots, sampling.structure, chunk, cache))
    found = _collected(generator.steps(prompts, sampling, seed), len(prompts), max_new, stop)
    return found[0] if single else found


@public_methods
class LanguageModel(Layer):
    """A layer from ids to scores of the tokens that follow, which goes on with a prompt. It keeps what it compiles."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.generators: LRU[tuple[Context, GenerationPlan], Generator] = LRU(_KEPT)

    generate = generate


def language_model(function: Callable[..., Any]) -> Callable[..., Any]:
    """`@wf.op` for a function from ids `batch,time|1` to scores `batch,time|vocabulary`: its layers can `generate`.

    >>> @wf.nn.language_model
    ... def bigrams(ids, *, vocabulary):
    ...     return wf.take(wf.param("table", o=(vocabulary, vocabulary)), ids)
    >>> print(bigrams(vocabulary=9).generate([4], max_new=3, context=ctx).shape)
    (3,)
    """
    return op(function, kind=LanguageModel)


def _generator(model: Layer, ctx: Context, plan: GenerationPlan) -> Generator:
    if not isinstance(model, LanguageModel):
        return Generator(model, ctx, plan)
    return model.generators.get((ctx, plan)) or model.generators.put((ctx, plan), Generator(model, ctx, plan))


def _collected(steps: Iterator[tuple[Tokens, Scores]], batch: int, max_new: int, stop: int | None) -> list[Tokens]:
    """The tokens of each sequence, up to the one where it stops."""
    found: list[list[int]] = [[] for _ in range(batch)]
    going = set(range(batch))
    for tokens, _ in islice(steps, max_new):
        going -= {row for row in going if tokens[row] == stop}
        for row in going:
            found[row].append(int(tokens[row]))
        if not going:
            break
    return [np.array(one, np.int32) for one in found]


def _prompts(prompt: Any) -> tuple[list[Tokens], bool]:
    """Prompts of ids, and whether one was given by itself."""
    if isinstance(prompt, str) or (isinstance(prompt, list | tuple) and any(isinstance(one, str) for one in prompt)):
        fix = "encode the text first: model.generate(tokenizer.encode(text), max_new=20), and decode what comes"
        raise WeftError("a prompt is of ids, whole numbers, not of text", fix=fix)
    single = len(prompt) > 0 and np.ndim(prompt[0]) == 0
    prompts = [np.asarray(one) for one in ([prompt] if single else prompt)]
    for one in prompts:
        if one.ndim != 1 or not one.size:
            raise WeftError(f"a prompt has at least one token, and this one is of shape {one.shape}", fix=_BEGINNING)
        if one.dtype.kind not in "iu":
            raise WeftError(f"a prompt is of ids, whole numbers, not {one.dtype}", fix="encode the text first")
    if not prompts:
        raise WeftError("there is no prompt to go on with", fix=_BEGINNING)
    return [one.astype(np.int32) for one in prompts], single


def _slots(longest: int, max_new: int, max_len: int | None, cache: bool) -> int:
    """How many tokens there is room for."""
    if max_len is None:
        needed = longest + max_new
        return -(-needed // _SLOTS) * _SLOTS if cache else needed
    if max_len <= longest:
        what = f"a prompt of {longest} tokens leaves none to be generated of max_len = {max_len}"
        raise WeftError(what, fix="cut the prompt, or give a greater max_len=")
    return max_len
