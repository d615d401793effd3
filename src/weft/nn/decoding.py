"""Decoding: a model of sequences, applied to the next tokens alone.

Where `current_decoding` finds one, layers are given the tokens that follow, and those that mix positions keep what they
need of the tokens before in nodes: attention has a cache of keys and values, a recurrence its carry. All other layers
work on one token at a time and need not know. So the model is written once, for whole sequences.

Tokens are in slots 0, 1, … of the caches. Sequences of different lengths end in the same slot: each has a slot where it
starts, and what lies before is hidden from it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

from weft.dynamic_scope import temporarily
from weft.errors import WeftError
from weft.tensor.assignments import node
from weft.tensor.creation import arange
from weft.tensor.einsum import einsum
from weft.tensor.functions import maximum
from weft.tensor.scope import current_application
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Decoding:
    """`count` tokens, the first of them in slot `at`, of `batch` sequences whose first slots are `starts`.

    `nodes` are what layers keep by name: applied to other numbers of tokens, they find the same. Where the source of a
    sequence is not `read`, it was before, and what layers made of it is kept.
    """

    at: StaticIndex
    count: int
    slots: int
    batch: int
    starts: Tensor
    nodes: dict[str, Tensor]
    read: bool = True
    applied: Counter[str] = field(default_factory=Counter)

    def cached(self, name: str, rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """What was in all slots of something that each position has, now that `rows` are in the new ones."""
        cache = self.kept(name, b=(self.batch, self.slots), o=sizes)
        cache[:, self.at : self.at + self.count] = rows
        return cache

    def of_source(self, name: str, made: Tensor) -> Tensor:
        """What a layer makes of a source, which all its tokens share: made where that is read, and found later."""
        kept = self.kept(name)
        if self.read:
            kept[:] = made
        return kept

    def kept(self, name: str, b: tuple[int, ...] | None = None, o: tuple[int, ...] | None = None) -> Tensor:
        """A node of the layer that is applied, by its name; counted where the layer is applied several times."""
        around = current_application()
        full = around.scope.within(name) if around else name
        self.applied[full] += 1
        number = self.applied[full]
        full = full if number == 1 else f"{full}{number}"
        return self.nodes.setdefault(full, node(full, init=0.0, b=b, o=o))

    @property
    def positions(self) -> Tensor:
        """The positions of the new tokens in their sequences, as `batch, t|1`; 0 for what lies before these."""
        found: Tensor = maximum(self._since_start, 0, label="position")
        return found

    @property
    def seen(self) -> Tensor:
        """1 for each new token, as `batch, t|1`; 0 for what lies before its sequence."""
        return self._since_start >= 0

    @property
    def _since_start(self) -> Tensor:
        slots = einsum("t => t|0", arange(self.count, dtype="int32") + self.at)
        return slots - einsum("...|0 => ..., 0|0", self.starts)


_decoding: ContextVar[Decoding | None] = ContextVar("weft_decoding", default=None)


def current_decoding() -> Decoding | None:
    """Which tokens layers are being applied to, if not to whole sequences."""
    return _decoding.get()


def decoding(mode: Decoding | None) -> AbstractContextManager[Decoding | None]:
    """Apply layers to the tokens that follow; None for a layer of whole sequences in such a model, as an encoder is."""
    return temporarily(_decoding, mode)


def refuse_decoding(what: str, fix: str) -> None:
    """Refuse to apply a layer token by token, that needs to see those that follow."""
    if current_decoding() is not None:
        around = current_application()
        name = around.scope.label if around else "a layer"
        raise WeftError(f"`{name}` {what}: it cannot be applied token by token", fix=fix)
