"""The room as a function: `wf.data(array)` is a tensor of given values, `wf.data.batches` and others feed a step.

What feeds a step is loaded when somebody asks for it, so that a tensor of given values costs no more than that.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from weft.errors import WeftError
from weft.lazy import LOADING
from weft.migration_hints import no_feed
from weft.public import exported, public, theirs
from weft.tensor import leaves

if TYPE_CHECKING:
    import weft.data.batching as _batching
    import weft.data.byte_pair_encoding as _byte_pair_encoding
    import weft.data.characters as _characters
    import weft.data.prefetching as _prefetching
    import weft.data.ragged as _ragged
    import weft.data.sets as _sets
    import weft.data.shuffling as _shuffling
    import weft.data.tokens as _tokens

_given = exported("weft", "data", leaves.data)

#: The names of each module.
_HOMES = {
    "batching": "Batches batches split",
    "characters": "CharacterTokenizer Tokenizer",
    "prefetching": "Prefetch prefetch",
    "shuffling": "permutation",
    "byte_pair_encoding": "BytePairTokenizer byte_pairs load_tokenizer",
    "ragged": "buckets mask",
    "sets": "digits mnist names",
    "tokens": "mapped windows write_tokens",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


class DataRoom(ModuleType):
    """A module that is called."""

    __signature__ = inspect.signature(leaves.data)

    if TYPE_CHECKING:  # what a type checker finds here: to it, modules cannot be called
        __call__ = staticmethod(leaves.data)
        Batches = _batching.Batches
        BytePairTokenizer = _byte_pair_encoding.BytePairTokenizer
        CharacterTokenizer = _characters.CharacterTokenizer
        Prefetch = _prefetching.Prefetch
        Tokenizer = _characters.Tokenizer
        batches = staticmethod(_batching.batches)
        buckets = staticmethod(_ragged.buckets)
        byte_pairs = staticmethod(_byte_pair_encoding.byte_pairs)
        digits = staticmethod(_sets.digits)
        load_tokenizer = staticmethod(_byte_pair_encoding.load_tokenizer)
        mapped = staticmethod(_tokens.mapped)
        mask = staticmethod(_ragged.mask)
        mnist = staticmethod(_sets.mnist)
        names = staticmethod(_sets.names)
        permutation = staticmethod(_shuffling.permutation)
        prefetch = staticmethod(_prefetching.prefetch)
        split = staticmethod(_batching.split)
        windows = staticmethod(_tokens.windows)
        write_tokens = staticmethod(_tokens.write_tokens)
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return _given(*args, **kwargs)
            except WeftError as error:
                error.__traceback__ = theirs(error.__traceback__)
                raise

        @public
        def __getattr__(self, name: str) -> Any:
            if name not in _HOME:
                raise _unknown(name)
            with LOADING:
                found = getattr(import_module(f"{self.__name__}.{_HOME[name]}"), name)
                return self.__dict__.setdefault(name, exported(self.__name__, name, found))

        def __dir__(self) -> list[str]:
            return sorted(_HOME)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)


def _unknown(name: str) -> AttributeError:
    """What to say of a name that there is not; what asks for `__wrapped__` and the like gets a short answer."""
    if name.startswith("__"):
        return AttributeError(name)
    return no_feed(name, _HOME)


#: The room itself, as it is called.
data = cast(DataRoom, sys.modules["weft.data"])
