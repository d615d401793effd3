"""Data: a tensor of given values, and what feeds a step.

    x = wf.data(array, batch=1)                                     a tensor of given values
    for x, y in wf.data.batches(images, labels, batch_size=32, shuffle=True): …   arrays, batch by batch
    for x, y in wf.data.windows(tokens, 256, batch_size=16): …            windows of a row of tokens

`wf.data(x, *, batch=0, input=0, b=None, i=None, o=None, label="data", copy=None)` takes an array of NumPy or of a
library that speaks DLPack, a buffer, or nested lists. The first `batch` axes are batch axes, the last `input` input
axes, the rest output; `b`, `i` and `o` give their sizes instead.
"""

import sys
from typing import TYPE_CHECKING

from weft.data.namespace import DataRoom

if TYPE_CHECKING:  # `namespace.py` loads them when somebody asks for one
    from weft.data.batching import Batches, batches, split
    from weft.data.byte_pair_encoding import BytePairTokenizer, byte_pairs, load_tokenizer
    from weft.data.characters import CharacterTokenizer, Tokenizer
    from weft.data.prefetching import Prefetch, prefetch
    from weft.data.ragged import buckets, mask
    from weft.data.sets import digits, mnist, names
    from weft.data.shuffling import permutation
    from weft.data.tokens import mapped, windows, write_tokens

__all__ = [
    "Batches",
    "BytePairTokenizer",
    "CharacterTokenizer",
    "Prefetch",
    "Tokenizer",
    "batches",
    "buckets",
    "byte_pairs",
    "digits",
    "load_tokenizer",
    "mapped",
    "mask",
    "mnist",
    "names",
    "permutation",
    "prefetch",
    "split",
    "windows",
    "write_tokens",
]

sys.modules[__name__].__class__ = DataRoom
