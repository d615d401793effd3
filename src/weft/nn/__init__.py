"""Blocks of models, each a function under `@wf.op` in a few lines of specs."""

from typing import NoReturn

from weft.migration_hints import no_block
from weft.nn.attention import cross_attention, multi_head_att_workshop, multi_head_attention
from weft.nn.classes import (
    box_muller,
    class_ids_of_int_list,
    dense_one_hot_of_int_list,
    one_hot_of_ids,
    one_hot_of_int_list,
    reduce_specified_axes,
    softmax,
)
from weft.nn.convolve import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    depthwise_conv2d,
    depthwise_separable_conv2d,
)
from weft.nn.encoder_decoder import transformer, transformer_with_loss
from weft.nn.generation import Generator, LanguageModel, generate, language_model
from weft.nn.image_blocks import (
    conv_bn_relu,
    inverted_residual,
    relu6,
    residual,
    resnet_block,
    squeeze_excite,
    vgg_block,
)
from weft.nn.language_models import gpt, llama
from weft.nn.linear import dropout, embedding, linear, mlp, mlp_layer
from weft.nn.losses import (
    binary_cross_entropy,
    contrastive,
    cross_entropy,
    hinge,
    huber,
    kl_divergence,
    l1,
    mse,
)
from weft.nn.masks import causal_mask, padding_mask
from weft.nn.mode import Training, training
from weft.nn.normalise import batch_norm, batch_norm1d, batch_norm2d, group_norm, instance_norm, layer_norm, rms_norm
from weft.nn.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    global_avg_pool2d,
    global_max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from weft.nn.position_encoding import (
    learned_positions,
    position_indices,
    rope,
    rope_frequencies,
    sinusoidal_position_encoding,
    sinusoidal_positions,
)
from weft.nn.recurrent import gru, gru_cell, lstm, lstm_cell, recurrence, rnn, rnn_cell
from weft.nn.state_dicts import StoredWeight, from_torch, to_torch
from weft.nn.transformer import (
    TransformerStyle,
    decoder_only,
    decoder_only_block,
    feed_forward,
    transformer_decoder,
    transformer_decoder_block,
    transformer_encoder,
    transformer_encoder_block,
)
from weft.nn.vae import Encoded, elbo, gaussian_kl, reparameterise, vae, vae_decoder, vae_encoder
from weft.nn.vision import lenet, mobile_cnn, mobilenet, resnet, sokoban_cnn, vgg
from weft.nn.vit import vit
from weft.nn.weight_names import gpt2_names, llama_names, recurrent_names, transformer_names
from weft.public import open_door, public

__all__ = ["Training", "training"]
__all__ += ["linear", "mlp_layer", "mlp", "embedding", "dropout"]
__all__ += ["layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "batch_norm1d", "batch_norm2d"]
__all__ += ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
__all__ += ["depthwise_conv2d", "depthwise_separable_conv2d"]
__all__ += ["max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"]
__all__ += ["global_avg_pool", "global_max_pool", "global_avg_pool2d"]
__all__ += ["residual", "conv_bn_relu", "resnet_block", "vgg_block", "squeeze_excite", "inverted_residual", "relu6"]
__all__ += ["lenet", "vgg", "resnet", "mobilenet", "mobile_cnn", "sokoban_cnn"]
__all__ += ["Encoded", "vae", "vae_encoder", "vae_decoder", "reparameterise", "elbo", "gaussian_kl"]
__all__ += ["mse", "l1", "huber", "cross_entropy", "binary_cross_entropy", "hinge", "kl_divergence", "contrastive"]
__all__ += ["softmax", "reduce_specified_axes", "one_hot_of_ids", "one_hot_of_int_list", "dense_one_hot_of_int_list"]
__all__ += ["class_ids_of_int_list", "box_muller"]
__all__ += ["cross_attention", "multi_head_att_workshop", "multi_head_attention", "causal_mask", "padding_mask"]
__all__ += [
    "learned_positions",
    "position_indices",
    "rope",
    "rope_frequencies",
    "sinusoidal_position_encoding",
    "sinusoidal_positions",
]
__all__ += [
    "TransformerStyle",
    "feed_forward",
    "transformer_encoder_block",
    "decoder_only_block",
    "transformer_decoder_block",
]
__all__ += ["transformer_encoder", "decoder_only", "transformer_decoder", "transformer", "transformer_with_loss"]
__all__ += ["gru", "gru_cell", "lstm", "lstm_cell", "recurrence", "rnn", "rnn_cell"]
__all__ += ["gpt", "llama", "vit"]
__all__ += ["Generator", "LanguageModel", "generate", "language_model"]
__all__ += [
    "StoredWeight",
    "from_torch",
    "to_torch",
    "gpt2_names",
    "llama_names",
    "recurrent_names",
    "transformer_names",
]


@public
def __getattr__(name: str) -> NoReturn:
    raise no_block(name, __all__)


open_door(globals(), __all__)
