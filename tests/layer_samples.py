"""The table of layers: (class name, arguments, input shape or integer bound) of every layer that
maps one tensor to one. Each row is compared with PyTorch's layer of that name. Not a test itself.
"""

from __future__ import annotations

from typing import Any

Row = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...] | int]

LINEAR: list[Row] = [
    ("Linear", (3, 5), {}, (4, 3)),
    ("Linear", (3, 5), {"bias": False}, (2, 4, 3)),
    ("Linear", (3, 5), {}, (3,)),
    ("Identity", (), {}, (2, 3)),
]

CONVOLUTION: list[Row] = [
    ("Conv2d", (2, 4, 3), {}, (2, 2, 6, 5)),
    ("Conv2d", (2, 4, (3, 1)), {"stride": 2, "padding": (1, 0)}, (2, 2, 6, 5)),
    ("Conv2d", (4, 6, 3), {"groups": 2, "dilation": 2, "bias": False}, (1, 4, 7, 7)),
    ("Conv2d", (2, 3, 3), {"padding": "same"}, (1, 2, 4, 4)),
    ("Conv2d", (2, 3, (2, 4)), {"padding": "same", "dilation": (1, 3)}, (1, 2, 5, 12)),
    ("Conv2d", (2, 3, 3), {"padding": "valid"}, (2, 5, 5)),
    ("Conv1d", (2, 4, 3), {"stride": 2, "padding": 1}, (3, 2, 9)),
    ("Conv3d", (2, 3, (1, 2, 3)), {}, (2, 2, 3, 4, 5)),
    ("Conv1d", (2, 3, 3), {"padding": 2, "padding_mode": "circular"}, (2, 2, 5)),
    ("Conv2d", (2, 3, 3), {"padding": (1, 2), "padding_mode": "reflect"}, (2, 2, 4, 5)),
    ("Conv2d", (2, 3, (2, 3)), {"padding": "same", "padding_mode": "replicate"}, (2, 2, 4, 5)),
    ("Conv3d", (1, 2, 2), {"padding": 1, "padding_mode": "circular"}, (1, 1, 2, 3, 2)),
    ("ConvTranspose1d", (2, 4, 3), {"stride": 2, "padding": 1}, (3, 2, 5)),
    (
        "ConvTranspose2d",
        (2, 4, (3, 2)),
        {"stride": (2, 3), "output_padding": 1, "padding": (1, 0)},
        (2, 2, 3, 4),
    ),
    ("ConvTranspose2d", (4, 6, 3), {"groups": 2, "dilation": 2, "bias": False}, (4, 3, 3)),
    ("ConvTranspose3d", (2, 3, 2), {"stride": 2}, (1, 2, 2, 3, 2)),
]

POOLING: list[Row] = [
    ("MaxPool1d", (3,), {"dilation": 2}, (2, 3, 8)),
    ("MaxPool3d", (2,), {"ceil_mode": True}, (1, 2, 3, 4, 5)),
    ("MaxPool2d", (2,), {}, (2, 3, 6, 4)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, (2, 3, 5, 5)),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 8)),
    ("AvgPool2d", (2,), {"divisor_override": 3, "ceil_mode": True}, (2, 5, 5)),
    ("AvgPool3d", ((1, 2, 3),), {}, (1, 2, 3, 4, 6)),
    ("LPPool1d", (1, 3), {"stride": 2}, (2, 3, 8)),
    ("LPPool2d", (2, 2), {}, (2, 3, 4, 5)),
    ("LPPool3d", (2, (1, 2, 2)), {"ceil_mode": True}, (1, 2, 3, 4, 5)),
    ("LocalResponseNorm", (2,), {"alpha": 0.3}, (2, 5, 3, 2)),
    ("Upsample", (), {"scale_factor": 2}, (1, 2, 3, 4)),
    ("Upsample", ((5, 3),), {"mode": "bicubic"}, (1, 2, 3, 4)),
    ("Upsample", (), {"scale_factor": (1.5, 2), "mode": "bilinear"}, (1, 2, 3, 4)),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, (1, 2, 3, 4)),
    ("UpsamplingBilinear2d", ((4, 5),), {}, (1, 2, 3, 4)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 8)),
    ("AdaptiveAvgPool2d", ((None, 2),), {}, (2, 3, 4, 5)),
    ("AdaptiveAvgPool3d", (1,), {}, (2, 3, 4, 5, 2)),
    ("AdaptiveMaxPool1d", (3,), {}, (2, 3, 8)),
    ("AdaptiveMaxPool2d", ((4, 3),), {}, (2, 3, 5, 5)),
    ("AdaptiveMaxPool3d", ((None, 2, 1),), {}, (2, 3, 4, 5)),
]

NORM: list[Row] = [
    ("BatchNorm3d", (2,), {}, (3, 2, 2, 1, 3)),
    ("BatchNorm1d", (4,), {}, (6, 4)),
    ("BatchNorm1d", (4,), {"momentum": None}, (6, 4, 3)),
    ("BatchNorm2d", (3,), {"eps": 1e-3, "momentum": 0.3}, (4, 3, 2, 5)),
    ("BatchNorm2d", (3,), {"affine": False, "track_running_stats": False}, (4, 3, 2, 5)),
    ("BatchNorm2d", (3,), {"bias": False}, (2, 3, 3, 2)),
    ("LayerNorm", (5,), {}, (4, 5)),
    ("LayerNorm", ((3, 5),), {"elementwise_affine": False}, (4, 3, 5)),
    ("LayerNorm", (5,), {"bias": False}, (2, 5)),
    ("RMSNorm", (5,), {}, (4, 5)),
    ("RMSNorm", ((3, 5),), {"eps": 1e-4, "elementwise_affine": False}, (2, 3, 5)),
    ("GroupNorm", (2, 4), {}, (3, 4, 2, 2)),
    ("GroupNorm", (3, 6), {"eps": 1e-3, "affine": False}, (2, 6, 4)),
    ("GroupNorm", (1, 4), {"bias": False}, (2, 4)),
    ("InstanceNorm1d", (3,), {}, (2, 3, 5)),
    ("InstanceNorm1d", (3,), {"affine": True, "track_running_stats": True}, (2, 3, 5)),
    ("InstanceNorm2d", (3,), {"affine": True, "momentum": 0.3}, (3, 4, 2)),
    ("InstanceNorm3d", (2,), {"track_running_stats": True, "eps": 1e-3}, (3, 2, 2, 1, 2)),
]

EMBEDDING: list[Row] = [
    ("Embedding", (7, 3), {}, 7),
    ("Embedding", (7, 3), {"padding_idx": -2}, 7),
    ("Embedding", (7, 3), {"max_norm": 1.0, "norm_type": 3.0}, 7),
    ("Embedding", (7, 3), {"scale_grad_by_freq": True}, 7),
    ("EmbeddingBag", (7, 3), {}, 7),
    ("EmbeddingBag", (7, 3), {"mode": "sum", "padding_idx": 2}, 7),
    ("EmbeddingBag", (7, 3), {"mode": "max"}, 7),
]

DROPOUT: list[Row] = [
    ("Dropout", (0.0,), {}, (3, 4)),
    ("Dropout", (1.0,), {"inplace": False}, (3, 4)),
    ("Dropout1d", (1.0,), {}, (3, 4)),
    ("Dropout2d", (0.0,), {}, (2, 3, 2, 2)),
    ("Dropout3d", (1.0,), {}, (3, 2, 2, 2)),
    ("AlphaDropout", (0.0,), {}, (3, 4)),
    ("AlphaDropout", (1.0,), {}, (3, 4)),
    ("FeatureAlphaDropout", (0.0,), {}, (3, 4)),
]

ACTIVATION: list[Row] = [
    ("SiLU", (), {}, (3, 4)),
    ("ReLU", (), {}, (3, 4)),
    ("ReLU6", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", (), {"approximate": "tanh"}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("Softmax", (), {"dim": -1}, (3, 4)),
    ("LogSoftmax", (), {"dim": 0}, (3, 4)),
    ("Softmin", (), {"dim": 1}, (3, 4)),
    ("Softmax2d", (), {}, (2, 3, 2, 2)),
    ("ELU", (0.7,), {}, (3, 4)),
    ("CELU", (0.7,), {}, (3, 4)),
    ("SELU", (), {}, (3, 4)),
    ("Mish", (), {}, (3, 4)),
    ("GLU", (), {}, (3, 4)),
    ("GLU", (0,), {}, (4, 3)),
    ("Hardshrink", (0.3,), {}, (3, 4)),
    ("Softshrink", (0.3,), {}, (3, 4)),
    ("Hardsigmoid", (), {}, (3, 4)),
    ("Hardswish", (), {}, (3, 4)),
    ("Hardtanh", (), {"min_val": -0.5}, (3, 4)),
    ("LeakyReLU", (), {}, (3, 4)),
    ("LogSigmoid", (), {}, (3, 4)),
    ("PReLU", (), {}, (3, 4)),
    ("PReLU", (4,), {"init": 0.1}, (3, 4)),
    ("Softplus", (), {"beta": 2}, (3, 4)),
    ("Softsign", (), {}, (3, 4)),
    ("Tanhshrink", (), {}, (3, 4)),
    ("Threshold", (0.1, 20), {}, (3, 4)),
]

SHAPE: list[Row] = [
    ("Flatten", (), {}, (2, 3, 4)),
    ("Flatten", (), {"start_dim": 0, "end_dim": 1}, (2, 3, 4)),
    ("Unflatten", (1, (2, -1)), {}, (2, 6)),
    ("PixelShuffle", (2,), {}, (1, 8, 2, 3)),
    ("PixelUnshuffle", (2,), {}, (2, 4, 6)),
    ("ChannelShuffle", (3,), {}, (1, 6, 2, 2)),
    ("Unfold", (2,), {"padding": 1, "stride": (1, 2)}, (2, 3, 4, 4)),
    ("Fold", ((3, 4), 2), {"stride": 1}, (2, 8, 6)),
]

PADDING: list[Row] = [
    ("ConstantPad1d", ((1, -1), 2.5), {}, (2, 3, 4)),
    ("ConstantPad2d", (1, 0.5), {}, (2, 3, 4)),
    ("ConstantPad3d", ((0, 1, 2, 0, 1, 1), -1), {}, (1, 2, 2, 3, 2)),
    ("ZeroPad1d", (2,), {}, (2, 3)),
    ("ZeroPad2d", ((1, 0, 2, 1),), {}, (1, 2, 3, 4)),
    ("ZeroPad3d", (1,), {}, (1, 2, 2, 2, 2)),
    ("ReflectionPad1d", (2,), {}, (2, 3, 4)),
    ("ReflectionPad2d", ((1, 2, 0, 1),), {}, (2, 3, 4)),
    ("ReflectionPad3d", (1,), {}, (1, 2, 2, 3, 2)),
    ("ReplicationPad1d", ((3, 1),), {}, (2, 3)),
    ("ReplicationPad2d", (2,), {}, (1, 2, 2, 3)),
    ("ReplicationPad3d", ((1, 0, 0, 1, 2, 0),), {}, (2, 1, 2, 2)),
    ("CircularPad1d", (2,), {}, (2, 3)),
    ("CircularPad2d", ((1, 2, 0, 1),), {}, (1, 2, 2, 3)),
    ("CircularPad3d", (1,), {}, (1, 2, 2, 2, 2)),
]

LAYERS = [
    *LINEAR,
    *CONVOLUTION,
    *POOLING,
    *NORM,
    *EMBEDDING,
    *DROPOUT,
    *ACTIVATION,
    *SHAPE,
    *PADDING,
]
