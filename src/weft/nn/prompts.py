"""What generation begins with: prompts, and sources of models that go from one sequence to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError

Tokens: TypeAlias = npt.NDArray[np.int32]

_BEGINNING = "give it a token to begin with, such as one that stands for the start of a text"


def prompts_of(prompt: Any, lengths: Any = None, what: str = "prompt") -> tuple[list[Tokens], bool]:
    """Prompts of ids, and whether one was given by itself; of those that are padded, the first `lengths` tokens."""
    if isinstance(prompt, str) or (isinstance(prompt, list | tuple) and any(isinstance(one, str) for one in prompt)):
        fix = "encode the text first: model.generate(tokenizer.encode(text), max_new=20), and decode what comes"
        raise WeftError(f"a {what} is of ids, whole numbers, not of text", fix=fix)
    single = len(prompt) > 0 and np.ndim(prompt[0]) == 0
    prompts = _cut([np.asarray(one) for one in ([prompt] if single else prompt)], lengths, what)
    for one in prompts:
        if one.ndim != 1 or not one.size:
            raise WeftError(f"a {what} has at least one token, and this one is of shape {one.shape}", fix=_BEGINNING)
        if one.dtype.kind not in "iu":
            raise WeftError(f"a {what} is of ids, whole numbers, not {one.dtype}", fix="encode the text first")
    if not prompts:
        raise WeftError(f"there is no {what} to go on with", fix=_BEGINNING)
    return [one.astype(np.int32) for one in prompts], single


def _cut(prompts: list[Any], lengths: Any, what: str) -> list[Any]:
    """Prompts without what they are padded with, on the right."""
    if lengths is None:
        return prompts
    counts = np.atleast_1d(np.asarray(lengths))
    if counts.shape != (len(prompts),) or counts.dtype.kind not in "iu":
        fix = f"give a whole number for each, {len(prompts)} of them"
        raise WeftError(f"lengths say how many tokens each {what} has, and are of shape {counts.shape}", fix=fix)
    for one, count in zip(prompts, counts.tolist(), strict=True):
        if not 0 <= count <= len(one):
            told = f"a {what} of {len(one)} tokens, the rest of them padding, cannot have the length {count}"
            raise WeftError(told, fix="pad on the right, and give how many tokens come before that")
    return [one[:count] for one, count in zip(prompts, counts.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class SourceTokens:
    """Sequences that others are generated from, padded on the right, and how long each is."""

    ids: Tokens
    lengths: Tokens

    @staticmethod
    def of(sources: Sequence[Tokens]) -> SourceTokens:
        lengths = np.array([len(one) for one in sources], np.int32)
        longest = int(lengths.max())
        return SourceTokens(np.stack([np.pad(one, (0, longest - len(one))) for one in sources]), lengths)

    @property
    def padded(self) -> bool:
        """Are they of several lengths? Only then does a model need to know."""
        return bool((self.lengths < self.ids.shape[1]).any())

    def inputs(self, whole: bool) -> Mapping[str, Any]:
        """What a step is given of them: all, or what it needs where they were read before."""
        found = {"source": self.ids} if whole else {}
        return {**found, "source_lengths": self.lengths} if self.padded else found


def paired_sources(prompts: list[Tokens], single: bool, source: Any) -> tuple[list[Tokens], bool, SourceTokens | None]:
    """Prompts, and a source for each: one prompt is that of all sources."""
    if source is None:
        return prompts, single, None
    sources, alone = prompts_of(source, what="source")
    if single and not alone:
        prompts, single = prompts * len(sources), False
    if len(sources) != len(prompts):
        what = f"there are {len(prompts)} prompts and {len(sources)} sources"
        raise WeftError(what, fix="give a source for each prompt, or one prompt for all sources")
    return prompts, single, SourceTokens.of(sources)
