"""Networks: modules, parameters, layers, losses and initialisers."""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.nn import functional, init, utils
from tinyt.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from tinyt.nn.attention import MultiheadAttention
from tinyt.nn.containers import Container, ModuleDict, ModuleList, Sequential
from tinyt.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tinyt.nn.distance import (
    CosineSimilarity,
    PairwiseDistance,
)
from tinyt.nn.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from tinyt.nn.embedding import Embedding, EmbeddingBag
from tinyt.nn.flatten import Flatten, Unflatten
from tinyt.nn.linear import Bilinear, Identity, Linear
from tinyt.nn.local_response import CrossMapLRN2d, LocalResponseNorm
from tinyt.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from tinyt.nn.module import Module
from tinyt.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
    SyncBatchNorm,
)
from tinyt.nn.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from tinyt.nn.parameter import Buffer, Parameter
from tinyt.nn.parameter import factory_kwargs as factory_kwargs
from tinyt.nn.parameter_containers import (
    ParameterDict,
    ParameterList,
)
from tinyt.nn.patches import ChannelShuffle, Fold, PixelShuffle, PixelUnshuffle, Unfold
from tinyt.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from tinyt.nn.rnn import GRU, LSTM, RNN, RNNBase
from tinyt.nn.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from tinyt.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from tinyt.nn.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

if _typing.TYPE_CHECKING:
    from tinyt.nn import modules as modules
    from tinyt.nn import parallel as parallel
    from tinyt.nn.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from tinyt.nn.fractional_pooling import FractionalMaxPool2d as FractionalMaxPool2d
    from tinyt.nn.fractional_pooling import FractionalMaxPool3d as FractionalMaxPool3d
    from tinyt.nn.lazy import (
        LazyBatchNorm1d as LazyBatchNorm1d,
    )
    from tinyt.nn.lazy import (
        LazyBatchNorm2d as LazyBatchNorm2d,
    )
    from tinyt.nn.lazy import (
        LazyBatchNorm3d as LazyBatchNorm3d,
    )
    from tinyt.nn.lazy import (
        LazyConv1d as LazyConv1d,
    )
    from tinyt.nn.lazy import (
        LazyConv2d as LazyConv2d,
    )
    from tinyt.nn.lazy import (
        LazyConv3d as LazyConv3d,
    )
    from tinyt.nn.lazy import (
        LazyConvTranspose1d as LazyConvTranspose1d,
    )
    from tinyt.nn.lazy import (
        LazyConvTranspose2d as LazyConvTranspose2d,
    )
    from tinyt.nn.lazy import (
        LazyConvTranspose3d as LazyConvTranspose3d,
    )
    from tinyt.nn.lazy import (
        LazyInstanceNorm1d as LazyInstanceNorm1d,
    )
    from tinyt.nn.lazy import (
        LazyInstanceNorm2d as LazyInstanceNorm2d,
    )
    from tinyt.nn.lazy import (
        LazyInstanceNorm3d as LazyInstanceNorm3d,
    )
    from tinyt.nn.lazy import (
        LazyLinear as LazyLinear,
    )
    from tinyt.nn.parallel import DataParallel as DataParallel
    from tinyt.nn.uninitialized import UninitializedBuffer as UninitializedBuffer
    from tinyt.nn.uninitialized import UninitializedParameter as UninitializedParameter

# Classes that are loaded when they are first asked for, and their files.
_LAZY = {
    **dict.fromkeys(
        (
            "LazyBatchNorm1d",
            "LazyBatchNorm2d",
            "LazyBatchNorm3d",
            "LazyConv1d",
            "LazyConv2d",
            "LazyConv3d",
            "LazyConvTranspose1d",
            "LazyConvTranspose2d",
            "LazyConvTranspose3d",
            "LazyInstanceNorm1d",
            "LazyInstanceNorm2d",
            "LazyInstanceNorm3d",
            "LazyLinear",
        ),
        "lazy",
    ),
    "FractionalMaxPool2d": "fractional_pooling",
    "FractionalMaxPool3d": "fractional_pooling",
    "UninitializedBuffer": "uninitialized",
    "UninitializedParameter": "uninitialized",
    "AdaptiveLogSoftmaxWithLoss": "adaptive",
    "DataParallel": "parallel",
}


# Modules that come with their first use.
_MODULES = ("_reduction", "common_types", "grad", "modules", "parallel")


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Buffer",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Container",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "CrossMapLRN2d",
    "DataParallel",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "NLLLoss2d",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SyncBatchNorm",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "functional",
    "init",
    "parallel",
    "utils",
]
