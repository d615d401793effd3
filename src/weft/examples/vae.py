"""A variational autoencoder of written digits: codes of a few numbers, digits from codes, and digits nobody wrote."""

import numpy as np

import weft as wf

SHADES = np.array(list(" ░▒▓█"))


def beside(images: np.ndarray) -> str:
    """Images as text, one beside the other, two letters a pixel."""
    shades = SHADES[np.clip(images * len(SHADES), 0, len(SHADES) - 1).astype(int)]
    return "\n".join("   ".join("".join(np.repeat(row, 2)) for row in rows) for rows in shades.swapaxes(0, 1))


def main(epochs: int = 40, latent: int = 8, data=None) -> list[float]:
    wf.seed(0)
    images, _ = data or wf.data.digits()
    model, ctx = wf.nn.vae(latent=latent, hid_dims=[128], label="vae"), wf.Context()
    history = wf.train.fit(
        None,
        lambda x: wf.nn.elbo(x, model(x)),  # codes are drawn while training, and are their means otherwise
        (images,),
        optimise=lambda loss: wf.optim.adam(loss, lr=0.002),
        epochs=epochs,
        batch_size=64,
        context=ctx,
    )
    losses = history.curve("loss")
    print(f"{len(images)} images as {latent} numbers each: loss {losses[0]:.2f}, then {losses[-1]:.2f}")

    x, z = wf.input("x", b="images", o=images.shape[1:]), wf.input("z", b="codes", o=latent)
    restored = ctx.function(x, returns=wf.sigmoid(model(x).decoded))
    drawn = ctx.function(z, returns=wf.sigmoid(model["decoder"](z)))
    print("six digits, and what is left of them after their codes:")
    print(beside(images[:6]), beside(restored(images[:6])), sep="\n\n")
    print("digits that nobody wrote:")
    print(beside(drawn(np.random.default_rng(1).normal(size=(6, latent)).astype("float32"))))
    return losses


if __name__ == "__main__":
    main()
