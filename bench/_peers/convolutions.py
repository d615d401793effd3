"""Convolutions of images, channels before their rows and columns."""

from __future__ import annotations

from _peers import Work, kind, numbers


@kind("convolution")
def convolution(
    batch: int,
    channels: int,
    size: int,
    filters: int,
    kernel: int,
    *,
    padded: bool = False,
    strided: bool = False,
    gradients: bool = False,
) -> Work:
    """Padded to the size of the image, or not at all; every row and column, or every other; with both gradients."""
    step, padding = 2 if strided else 1, kernel // 2 if padded else 0
    window = ("=+" if padded else "<+").join
    spec = f"b, c, {step}*{window('ok')}, {step}*{window('pl')}; d, c, k, l => b, d, o, p"
    left = (size + 2 * padding - kernel) // step + 1
    return Work(
        inputs={"x": numbers(batch, channels, size, size), "w": numbers(filters, channels, kernel, kernel, seed=1)},
        torch=lambda torch, x, w: torch.nn.functional.conv2d(x, w, stride=step, padding=padding),
        jax=lambda jax, x, w: jax.lax.conv_general_dilated(x, w, (step, step), [(padding, padding)] * 2),
        weft=lambda wf, x, w: wf.einsum(spec, x, w),
        gradients=("x", "w") if gradients else (),
        flops=2 * batch * filters * left**2 * channels * kernel**2 * (3 if gradients else 1),
    )
