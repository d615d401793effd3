"""A transformer of images."""

from __future__ import annotations

from weft.nn.attention import head_size
from weft.nn.checks import whole
from weft.nn.linear import linear
from weft.nn.transformer import PRE_NORM, TransformerStyle, transformer_encoder
from weft.tensor.einsum import einsum
from weft.tensor.layers import op
from weft.tensor.params import normal, param
from weft.tensor.tensor import Tensor


@op
def vit(
    x: Tensor,
    *,
    num_classes: int,
    patch_size: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    d_ff: int | None = None,
    style: TransformerStyle = PRE_NORM,
) -> Tensor:
    """Scores of classes of images `...|h,w,c`: a sequence of patches, and a token before them that gathers the answer.

    >>> images = wf.data(np.ones((5, 8, 12, 3)), batch=1)
    >>> print(wf.nn.vit(images, num_classes=10, patch_size=4, d_model=8, num_layers=1, num_heads=2).dims)
    5|10
    """
    whole("vit", num_classes=num_classes, patch_size=patch_size, d_model=d_model, num_layers=num_layers)
    d_k = head_size("vit", d_model, num_heads)
    spec = "...|h&p, w&q, c; p, q, c -> f => ..., h&w|f"
    patches = einsum(spec, x, param("patches"), p=patch_size, q=patch_size, f=d_model) + param(
        "bias", o=d_model, init=0.0
    )
    x = einsum("k, d; ..., t|d => ..., k^t|d", param("token", o=(1, d_model), init=normal(0.0, 0.02)), patches)
    x = einsum("..., t|d; t, d => ..., t|d", x, param("positions", init=normal(0.0, 0.02)), op="+")
    encoder = transformer_encoder(
        num_layers=num_layers,
        num_heads=num_heads,
        d_k=d_k,
        d_ff=d_ff or 4 * d_model,
        style=style,
        label="encoder",
    )
    return linear(o=num_classes, label="head")(einsum("..., 0|d => ...|d", encoder(x)))  # type: ignore[no-any-return]
