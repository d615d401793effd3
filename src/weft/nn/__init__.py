"""Blocks of models, each a function under `@wf.op` in a few lines of specs."""

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
from weft.nn.linear import dropout, embedding, linear, mlp, mlp_layer
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
from weft.public import open_door

__all__ = [
    *("Training", "training"),
    *("linear", "mlp_layer", "mlp", "embedding", "dropout"),
    *("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "batch_norm1d", "batch_norm2d"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("depthwise_conv2d", "depthwise_separable_conv2d"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("global_avg_pool", "global_max_pool", "global_avg_pool2d"),
    *("softmax", "reduce_specified_axes", "one_hot_of_ids", "one_hot_of_int_list", "dense_one_hot_of_int_list"),
    *("class_ids_of_int_list", "box_muller"),
]

open_door(globals(), __all__)
