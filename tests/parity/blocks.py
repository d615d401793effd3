"""Blocks of neural networks as OCANNL's library has them, each in a few lines and with no more sizes than there."""

from __future__ import annotations

import weft as wf


@wf.op
def mlp_layer(x: wf.Tensor, *, width: int) -> wf.Tensor:
    return wf.relu("w" @ x + wf.param("b", o=width, init=0.0))


@wf.op
def mlp(x: wf.Tensor, *, widths: tuple[int, ...]) -> wf.Tensor:
    for at, width in enumerate(widths):
        x = mlp_layer(width=width, label=f"L{at}")(x)
    return "w_out" @ x


def softmax(x: wf.Tensor, *, spec: str) -> wf.Tensor:
    """Over the axes that `spec` reduces."""
    above = wf.exp(x - wf.einsum(spec, x, accum="max"))
    return above / wf.einsum(spec, above)


def rope(x: wf.Tensor, frequencies: wf.Tensor, positions: wf.Tensor) -> wf.Tensor:
    """Pairs of the last axis turned by an angle that grows with the position."""
    cos, sin = wf.cos(positions * frequencies), wf.sin(positions * frequencies)
    even, odd = (wf.einsum(f"...|...,2*i{offset} => ...|...,i", x) for offset in ("", "+1"))
    return wf.einsum("...|...,i => ...|...,2*i", even * cos - odd * sin) + wf.einsum(
        "...|...,i => ...|...,2*i+1", even * sin + odd * cos
    )


@wf.op
def attention(
    x: wf.Tensor,
    source: wf.Tensor | None = None,
    *,
    heads: int,
    d: int,
    mask: wf.Tensor | None = None,
    turn: tuple[wf.Tensor, wf.Tensor] | None = None,
) -> wf.Tensor:
    source = x if source is None else source
    q, k, v = "w_q" @ x, "w_k" @ source, "w_v" @ source
    if turn is not None:
        q, k = rope(q, *turn), rope(k, *turn)
    scores = wf.einsum("... s|h d; ... t|h d => ... s|t -> h", q, k, h=heads, d=d)
    scores = scores / wf.sqrt(wf.dim(scores, "d"))
    if mask is not None:
        scores = wf.where(mask, scores, -1e9)
    weights = softmax(scores, spec="...|t -> ... => ...|0 -> ...")
    return "w_o" @ wf.einsum("... s|t -> h; ... t|h e => ... s|h e", weights, v, e=d)


@wf.op
def layer_norm(x: wf.Tensor) -> wf.Tensor:
    total = wf.einsum("...|..d.. => ...|0", x)
    centred = x - total / wf.dim(total, "d")
    variance = wf.einsum("...|... => ...|0", centred * centred) / wf.dim(total, "d")
    return wf.param("gamma", init=1.0) * (centred / wf.sqrt(variance + 1e-5)) + wf.param("beta", init=0.0)


@wf.op
def decoder_block(
    x: wf.Tensor,
    encoded: wf.Tensor | None = None,
    *,
    heads: int,
    d: int,
    d_ff: int,
    mask: wf.Tensor | None = None,
) -> wf.Tensor:
    x = layer_norm(label="ln1")(x + attention(heads=heads, d=d, mask=mask, label="self")(x))
    if encoded is not None:
        x = layer_norm(label="ln2")(x + attention(heads=heads, d=d, label="cross")(x, encoded))
    return layer_norm(label="ln3")(x + mlp(widths=(d_ff,), label="ffn")(x))


@wf.op
def transformer(source: wf.Tensor, target: wf.Tensor, *, length: int, d: int, mask: wf.Tensor) -> wf.Tensor:
    """Logits of what follows, one layer deep on either side."""
    encoded = decoder_block(heads=2, d=d // 2, d_ff=8, label="encoder")(wf.param("source_embed", o=d) @ source)
    entered = wf.param("target_embed", o=d) @ target + wf.param("place", b=length)
    return "w_out" @ decoder_block(heads=2, d=d // 2, d_ff=8, mask=mask, label="decoder")(entered, encoded)


@wf.op
def conv2d(x: wf.Tensor, *, size: int = 5, stride: int = 1, channels: int | None = None) -> wf.Tensor:
    """Without `channels` there are as many as the use of the result asks for."""
    spec = f"...|{stride}*oh=+kh, {stride}*ow=+kw, ..ic..; kh, kw, ..ic.. -> ..oc.. => ...|oh, ow, ..oc.."
    sizes = {} if channels is None else {"oc": channels}
    return wf.einsum(spec, x, "kernel", kh=size, kw=size, **sizes) + wf.param("bias", init=0.0)


@wf.op
def depthwise(x: wf.Tensor, *, size: int = 3, channels: int) -> wf.Tensor:
    deep = wf.einsum("...|oh=+kh, ow=+kw, c; kh, kw, c => ...|oh, ow, c", x, "deep", kh=size, kw=size)
    return wf.einsum("...|h, w, ic; ic -> oc => ...|h, w, oc", deep, "point", oc=channels)


def pool2d(x: wf.Tensor, *, accum: str = "max", size: int = 2) -> wf.Tensor:
    spec = f"...|{size}*oh<+wh, {size}*ow<+ww, ..c.. => ...|oh, ow, ..c.."
    pooled = wf.einsum(spec, x, accum=accum, wh=size, ww=size)
    return pooled if accum == "max" else pooled / size**2


def global_average(x: wf.Tensor) -> wf.Tensor:
    total = wf.einsum("...|h, w, ..c.. => ...|0, 0, ..c..", x)
    return total / wf.dim(total, "h") / wf.dim(total, "w")


@wf.op
def batch_norm2d(x: wf.Tensor) -> wf.Tensor:
    total = wf.einsum("..b..|h, w, ..c.. => 0|0, 0, ..c..", x)
    count = wf.dim(total, "b") * wf.dim(total, "h") * wf.dim(total, "w")
    centred = x - total / count
    variance = wf.einsum("..b..|h, w, ..c.. => 0|0, 0, ..c..", centred * centred) / count
    return wf.param("gamma", init=1.0) * (centred / wf.sqrt(variance + 1e-5)) + wf.param("beta", init=0.0)


@wf.op
def batch_norm1d(x: wf.Tensor) -> wf.Tensor:
    total = wf.einsum("..b..|..c.. => 0|..c..", x)
    centred = x - total / wf.dim(total, "b")
    variance = wf.einsum("..b..|..c.. => 0|..c..", centred * centred) / wf.dim(total, "b")
    return wf.param("gamma", init=1.0) * (centred / wf.sqrt(variance + 1e-5)) + wf.param("beta", init=0.0)


@wf.op
def resnet_block(x: wf.Tensor, *, channels: int) -> wf.Tensor:
    inner = wf.relu(batch_norm2d(label="bn1")(conv2d(size=3, channels=channels, label="conv1")(x)))
    return wf.relu(batch_norm2d(label="bn2")(conv2d(size=3, label="conv2")(inner)) + x)


@wf.op
def lenet(x: wf.Tensor, *, classes: int) -> wf.Tensor:
    x = pool2d(wf.relu(conv2d(channels=6, label="conv1")(x)))
    x = pool2d(wf.relu(conv2d(channels=16, label="conv2")(x)))
    return "w_out" @ mlp_layer(width=20, label="fc")(x) + wf.param("b_out", o=classes, init=0.0)
