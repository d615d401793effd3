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

from weft.config import config
from weft.errors import WeftError, is_own
from weft.nn.checks import whole
from weft.nn.decoding import Decoding, decoding
from weft.nn.prompts import SourceTokens, Tokens, paired_sources, prompts_of
from weft.nn.sampling import GREEDY, Draw, Sampling, Structure, next_token
from weft.public import public_methods
from weft.runtime import Context, Function
from weft.runtime.context import listed
from weft.runtime.lru import LRU
from weft.schedule import CompileOptions
from weft.schedule.compile_options import checked_options
from weft.tensor.assignments import cd, node
from weft.tensor.einsum import einsum
from weft.tensor.inputs import input
from weft.tensor.layers import Layer, op
from weft.tensor.slices import index
from weft.tensor.tensor import Tensor

Scores: TypeAlias = npt.NDArray[np.float32]
_Drawn: TypeAlias = Callable[[int], Mapping[str, Any]]
_Steps: TypeAlias = Iterator[tuple[Tokens, Scores]]

#: Caches have a multiple of so many slots, so that prompts of about one length share what is compiled.
_SLOTS = 64


#: So many tokens of a prompt, and after it, are read in both ways to compare them, and how near the scores are then.
_TRIED, _NEAR = 3, 1e-2
#: So many generators a model keeps.
_KEPT = 8


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What a generator is compiled for: how many sequences, of at most how many tokens, and how they go on.

    `source` is how many tokens the sequences have that these are generated from, some of them perhaps `padded`.
    """

    batch: int
    slots: int
    sampling: Structure = GREEDY
    chunk: int = 32
    cache: bool = True
    source: int = 0
    padded: bool = False
    options: CompileOptions | None = None


class Generator:
    """A model compiled to go on with sequences.

    A prompt is read `chunk` tokens at a time, and what is left of it one by one. Without a `cache` the model is applied
    to whole sequences at every step.
    """

    def __init__(self, model: Layer, context: Context, plan: GenerationPlan) -> None:
        self.model, self.ctx, self.plan = model, context, plan
        self._nodes: dict[str, Tensor] = {}
        self._compiled: dict[tuple[int, bool], Function] = {}

    def __repr__(self) -> str:
        return f"<generator of {self.model.label}: {self.plan.batch} sequences of up to {self.plan.slots} tokens>"

    def steps(
        self, prompts: Sequence[Tokens], numbers: Sampling, seed: int, source: SourceTokens | None = None
    ) -> _Steps:
        """The token that follows each prompt and all its scores, then the one that follows that, as long as asked."""
        run = self._cached if self.plan.cache else self._whole
        yield from run(prompts, lambda step: self._draw(numbers, seed, step), source)

    def _cached(
        self, prompts: Sequence[Tokens], draw: _Drawn, source: SourceTokens | None
    ) -> Iterator[tuple[Tokens, Scores]]:
        longest, chunk = max(map(len, prompts)), self.plan.chunk
        starts = np.array([longest - len(one) for one in prompts], np.int32)
        ids = np.stack([np.pad(one, (longest - len(one), 0)) for one in prompts])
        at = 0
        while longest - at > chunk > 1:  # the last token is left: what follows it is asked for
            self._read(ids[:, at : at + chunk], starts, at, draw(0), source)
            at += chunk
        step = 0
        while at < self.plan.slots:
            count = chunk if longest - at == chunk else 1
            token, scores = self._read(ids[:, at : at + count], starts, at, draw(step), source)
            at += count
            if at >= longest:
                yield token[:, 0], scores
                ids, step = np.concatenate([ids, token], 1), step + 1

    def _read(
        self, ids: Tokens, starts: Tokens, at: int, drawn: Mapping[str, Any], source: SourceTokens | None
    ) -> tuple[Tokens, Scores]:
        """Read tokens that begin in slot `at`, of which a model that forgets all but the last one need not know."""
        first = at == 0 and source is not None
        run = self._step(ids.shape[1], first)
        indices: dict[str, Any] = {"at": at} if run.signature.indices else {}
        given = source.inputs(whole=first) if source else {}
        found: tuple[Tokens, Scores] = run(ids, starts, **given, **drawn, **indices)
        return found

    def _whole(self, prompts: Sequence[Tokens], draw: _Drawn, source: SourceTokens | None) -> _Steps:
        ends = np.array([len(one) - 1 for one in prompts], np.int32)
        ids = np.stack([np.pad(one, (0, self.plan.slots - len(one))) for one in prompts])
        given = source.inputs(whole=True) if source else {}
        for step in range(self.plan.slots - int(ends.max())):
            token, scores = self._step(self.plan.slots)(ids, ends, **given, **draw(step))
            yield token[:, 0], scores
            ends = ends + 1
            if ends.max() < self.plan.slots:
                ids[np.arange(self.plan.batch), ends] = token[:, 0]

    def _draw(self, numbers: Sampling, seed: int, step: int) -> dict[str, Any]:
        """The inputs of a draw, where there is one."""
        given = {"temperature": numbers.temperature, "top_p": numbers.top_p, "seed": seed, "step": step}
        return {name: given[name] for name in self.plan.sampling.inputs}

    def _step(self, count: int, first: bool = False) -> Function:
        """The model applied to `count` tokens of each sequence, the `first` of a source, and the next token chosen."""
        if (count, first) not in self._compiled:
            self._compiled[count, first] = self._made(count, first)
        return self._compiled[count, first]

    def _made(self, count: int, first: bool) -> Function:
        plan = self.plan
        ids = input("ids", b=(plan.batch, count), dtype="int32")
        where = input("starts" if plan.cache else "ends", b=plan.batch, dtype="int32")
        source = input("source", b=(plan.batch, plan.source), dtype="int32") if plan.source else None
        lengths = input("source_lengths", b=plan.batch, dtype="int32") if plan.padded else None
        draw = Draw(*(input(name) for name in ("temperature", "top_p")), *(_counted(name) for name in ("seed", "step")))
        at = index("at", plan.slots - count + 1)
        chosen, scores = node("chosen", dtype="int32"), node("scores")

        @cd
        def forward() -> None:
            if plan.cache:
                mode = Decoding(at, count, plan.slots, plan.batch, where, self._nodes, first or not plan.source)
                with decoding(mode):
                    last = einsum(f"..., {count - 1}|v => ...|v", self._applied(ids, source, lengths))
            else:
                last = einsum("..., t|v; ...|@t => ...|v", self._applied(ids, source, lengths), where)
            scores[:] = last
            chosen[:] = next_token(scores, plan.sampling, draw)

        read = [source] if source is not None and (first or not plan.cache) else []
        drawn = [getattr(draw, name) for name in plan.sampling.inputs]
        inputs = [ids, where, *read, *([lengths] if lengths is not None else []), *drawn]
        return self.ctx.function(*inputs, code=forward(), returns=(chosen, scores), options=plan.options)

    def _applied(self, ids: Tensor, source: Tensor | None, lengths: Tensor | None) -> Tensor:
        known = {} if lengths is None else {"source_lengths": lengths}
        logits = self.model(ids) if source is None else self.model(source, ids, **known)
        if not isinstance(logits, Tensor):
            what = f"`{self.model.label}` gives a {type(logits).__name__}, and what goes on is chosen by scores"
            raise WeftError(what, fix="let the model return the scores of all tokens, `...,t|vocab_size`")
        return logits


def _counted(name: str) -> Tensor:
    return input(name, dtype="int64")


def generate(
    model: Layer,
    prompt: Any,
    *,
    max_new: int,
    lengths: Any = None,
    source: Any = None,
    context: Context | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: int | None = None,
    max_len: int | None = None,
    chunk: int = 32,
    cache: bool = True,
    options: CompileOptions | None = None,
) -> Any:
    """The tokens with which a language model goes on after a prompt of ids; of several prompts, a list of them.

    A model is any layer from ids `batch,time|1` to scores `batch,time|vocab_size` that is built of layers of `wf.nn`,
    whose positions see those before them. Prompts are lists of any lengths, or rows of an array that are padded on the
    right, of which the first `lengths` tokens count. Of a model from one sequence to another, `wf.nn.transformer`,
    `source` has the ids to begin from, one sequence for each prompt.

    At `temperature` 0 the best token is taken; above, one is drawn, among the `top_k` best, and the fewest best that
    have a probability of `top_p`. The same `seed` draws the same. It goes on for `max_new` tokens, or up to the token
    `stop`, which is left out, or up to `max_len` tokens with the prompt. Without `context`, the parameters are those of
    the context that holds them. The prompt is read `chunk` tokens at a time; `cache=False` applies the model to whole
    sequences at every step, which any model allows that looks back only. `options` are those of `wf.config` if not
    given.

    >>> model = wf.nn.gpt(vocab_size=50, max_len=16, d_model=8, num_layers=2, num_heads=2)
    >>> tokens = wf.nn.generate(model, [3, 14, 15], max_new=5, context=ctx)
    >>> print(len(tokens), tokens.dtype)
    5 int32
    """
    sampling = Sampling(temperature, top_k, top_p)
    whole("generate", max_new=max_new, chunk=chunk)
    prompts, single, given = paired_sources(*prompts_of(prompt, lengths), source)
    slots = _slots(max(map(len, prompts)), max_new, max_len, cache)
    held = context or listed.holder(model.params if model.scope.applied else (), f"`{model.label}`")
    if held is None:
        raise WeftError(f"there is no context that holds parameters of `{model.label}`", fix="create a wf.Context")
    size, padded = (given.ids.shape[1], given.padded) if given else (0, False)
    chosen = checked_options(options) or config.options
    plan = GenerationPlan(len(prompts), slots, sampling.structure, chunk, cache, size, padded, chosen)
    if cache:
        _check_by_token(model, held, prompts[0], min(max_new, slots - len(prompts[0])), given)
    found = _collected(_generator(model, held, plan).steps(prompts, sampling, seed, given), len(prompts), max_new, stop)
    return found[0] if single else found


@public_methods
class LanguageModel(Layer):
    """A layer from ids to scores of the tokens that follow, which goes on with a prompt. It keeps what it compiles."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.generators: LRU[tuple[Context, GenerationPlan], Generator] = LRU(_KEPT)
        self.checked = False

    generate = generate


def language_model(function: Callable[..., Any]) -> Callable[..., Any]:
    """`@wf.op` for a function from ids `batch,time|1` to scores `batch,time|vocab_size`: its layers can `generate`.

    >>> @wf.nn.language_model
    ... def bigrams(ids, *, vocab_size):
    ...     return wf.take(wf.param("table", o=(vocab_size, vocab_size)), ids)
    >>> print(bigrams(vocab_size=9).generate([4], max_new=3, context=ctx).shape)
    (3,)
    """
    return op(function, kind=LanguageModel)


def _generator(model: Layer, ctx: Context, plan: GenerationPlan) -> Generator:
    if not isinstance(model, LanguageModel):
        return Generator(model, ctx, plan)
    return model.generators.get((ctx, plan)) or model.generators.put((ctx, plan), Generator(model, ctx, plan))


def _check_by_token(model: Layer, ctx: Context, prompt: Tokens, more: int, source: SourceTokens | None) -> None:
    """Refuse a model of a user that mixes positions by itself: what it makes of a token alone is then something else.

    A few tokens are read one by one and as a whole, once, and the scores compared.
    """
    code = getattr(model.body.function, "__code__", None)
    if (code and is_own(code.co_filename)) or (isinstance(model, LanguageModel) and model.checked):
        return
    prompt, more = prompt[:_TRIED], min(more, _TRIED)
    first = source and SourceTokens(source.ids[:1], source.lengths[:1])
    size, padded = (first.ids.shape[1], first.padded) if first else (0, False)
    both = [
        Generator(model, ctx, GenerationPlan(1, len(prompt) + more, GREEDY, 1, cache, size, padded)).steps(
            [prompt], Sampling(), 0, first
        )
        for cache in (True, False)
    ]
    for step, ((token, scores), (other, wanted)) in enumerate(islice(zip(*both, strict=False), more)):
        apart, spread = float(np.abs(scores - wanted).max()), float(np.ptp(wanted))
        if not apart <= _NEAR * spread and np.isfinite(spread):
            raise WeftError(
                f"`{model.label}` mixes tokens in a way that is not known token by token: its scores after "
                f"{len(prompt) + step} tokens differ by {apart:.3g} from those of the whole sequence",
                fix="give cache=False, if it looks back only; or let layers of wf.nn mix positions: causal attention, "
                "recurrences",
            )
        if token[0] != other[0]:
            return
    if isinstance(model, LanguageModel):
        model.checked = len(prompt) + more > 2


def _collected(steps: _Steps, batch: int, max_new: int, stop: int | None) -> list[Tokens]:
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


def _slots(longest: int, max_new: int, max_len: int | None, cache: bool) -> int:
    """How many tokens there is room for."""
    if max_len is None:
        needed = longest + max_new
        return -(-needed // _SLOTS) * _SLOTS if cache else needed
    if max_len <= longest:
        what = f"a prompt of {longest} tokens leaves none to be generated of max_len = {max_len}"
        raise WeftError(what, fix="cut the prompt, or give a greater max_len=")
    return max_len
