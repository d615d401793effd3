"""A variational autoencoder of vectors, images, or any other output row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.nn.checks import one_of, positive, several
from weft.nn.linear import Activation, linear, mlp, mlp_layer
from weft.nn.losses import Reduction, binary_cross_entropy, mse, reduced_loss, same_shape
from weft.nn.mode import current_training
from weft.shape.text import RowSizes
from weft.tensor import reductions
from weft.tensor.functions import exp, relu
from weft.tensor.layers import op
from weft.tensor.random import random_standard_normal
from weft.tensor.tensor import Tensor


class Encoded(NamedTuple):
    """What an autoencoder makes of an example: the row it is decoded to, and where its code was drawn from."""

    decoded: Tensor
    mean: Tensor
    log_var: Tensor


@op
def vae_encoder(
    x: Tensor, *, latent: int, hid_dims: Sequence[int] = (256,), activation: Activation = relu
) -> tuple[Tensor, Tensor]:
    """The mean and the logarithm of the variance of an example's code.

    >>> mean, log_var = wf.nn.vae_encoder(wf.data(np.ones((5, 8, 8)), batch=1), latent=2)
    >>> print(mean.dims, log_var.dims)
    5|2 5|2
    """
    several("vae_encoder", hid_dims=hid_dims)
    for at, width in enumerate(hid_dims, 1):
        x = mlp_layer(hid_dim=width, activation=activation, label=f"fc{at}")(x)
    mean, log_var = linear(o=latent, label="mean")(x), linear(o=latent, label="log_var")(x)
    return mean, log_var


@op
def reparameterise(mean: Tensor, log_var: Tensor) -> Tensor:
    """A code drawn from a normal distribution, anew in each training step; outside of `wf.nn.training`, its mean.

    >>> mean = wf.data(np.zeros((5, 2)), batch=1, label="mean")
    >>> print(ctx[wf.nn.reparameterise(mean, mean)][0])
    [0. 0.]
    """
    mode = current_training()
    if mode is None:
        return mean
    noise = random_standard_normal(f"noise.{mean.label}", step=mode.step)
    spread: Tensor = exp(0.5 * log_var)
    return mean + spread * noise


@op
def vae_decoder(
    z: Tensor,
    *,
    latent: int | None = None,
    hid_dims: Sequence[int] = (256,),
    o: RowSizes | None = None,
    activation: Activation = relu,
) -> Tensor:
    """The row that a code stands for: logits, or numbers. Without `o` it is as its use asks for.

    >>> print(wf.nn.vae_decoder(wf.data(np.ones((5, 2)), batch=1), o=(8, 8)).dims)
    5|8,8
    """
    decoded: Tensor = mlp(hid_dims=hid_dims, i=latent, o=o, activation=activation, label="mlp")(z)
    return decoded


@op
def vae(x: Tensor, *, latent: int, hid_dims: Sequence[int] = (256,), activation: Activation = relu) -> Encoded:
    """A variational autoencoder: what is decoded has the output row of `x`; `wf.nn.elbo` is its loss.

    >>> model = wf.nn.vae(latent=2, hid_dims=[16], label="vae")
    >>> images = wf.data(np.ones((5, 8, 8)), batch=1)
    >>> print(model(images).decoded.dims, model.param("decoder.mlp.w_out").dims)
    5|8,8 16->8,8
    """
    mean, log_var = vae_encoder(latent=latent, hid_dims=hid_dims, activation=activation, label="encoder")(x)
    z = reparameterise(mean, log_var)
    widths = tuple(reversed(hid_dims))
    decoded = vae_decoder(latent=latent, hid_dims=widths, activation=activation, label="decoder")(z)
    same_shape("vae", lambda decoded, x: decoded - x, decoded, x)  # says that it has the shape of x
    return Encoded(decoded, mean, log_var)


def elbo(
    x: Tensor,
    encoded: Encoded,
    *,
    likelihood: str = "bernoulli",
    beta: float = 1.0,
    reduction: Reduction = "mean",
    label: str = "elbo",
) -> Tensor:
    """What an autoencoder is trained to make small: how unlikely `x` is decoded, plus `beta` times how far codes stray.

    What is decoded are logits of truth values ("bernoulli"), or means of numbers with variance 1 ("gaussian").

    >>> x = wf.data(np.ones((5, 3)), batch=1)
    >>> print(wf.nn.elbo(x, wf.nn.vae(x, latent=2)).dims)
    1
    """
    one_of("elbo", ("bernoulli", "gaussian"), likelihood=likelihood)
    positive("elbo", beta=beta)
    if likelihood == "bernoulli":
        unlikely = reductions.sum(binary_cross_entropy(encoded.decoded, x, reduction="none"))
    else:
        unlikely = 0.5 * reductions.sum(mse(encoded.decoded, x, reduction="none"))
    return reduced_loss("elbo", unlikely + beta * gaussian_kl(encoded.mean, encoded.log_var), reduction, label)


def gaussian_kl(mean: Tensor, log_var: Tensor) -> Tensor:
    """How far normal distributions are from standard ones: their divergence, a number for each example.

    >>> print(ctx[wf.nn.gaussian_kl(wf.tensor([1, 0]), wf.tensor([0, 0]))])
    [0.5]
    """
    return 0.5 * reductions.sum(mean * mean + exp(log_var) - 1.0 - log_var)
