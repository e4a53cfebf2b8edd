# Made by tools/make_stubs.py from the imported package: run it again, do not edit.

from types import ModuleType
from typing import Any

from tinyt.ops import backward
from tinyt.ops.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    logsigmoid,
    mish,
    prelu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    silu,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
    threshold_,
)
from tinyt.ops.arrange import (
    as_strided_scatter,
    diag,
    diag_embed,
    diagflat,
    diagonal_scatter,
    flip,
    fliplr,
    flipud,
    roll,
    rot90,
    select_scatter,
    slice_scatter,
    tril,
    triu,
)
from tinyt.ops.attention import scaled_dot_product_attention
from tinyt.ops.class_loss import (
    cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
)
from tinyt.ops.common import Scalar
from tinyt.ops.complex import (
    adjoint,
    complex,
    conj,
    imag,
    is_complex,
    is_conj,
    is_floating_point,
    is_neg,
    isreal,
    polar,
    real,
    resolve_conj,
    resolve_neg,
    sgn,
    view_as_complex,
    view_as_real,
)
from tinyt.ops.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tinyt.ops.convert import clone, numel
from tinyt.ops.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    is_tensor,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from tinyt.ops.creation import as_tensor as asarray
from tinyt.ops.distance import (
    cosine_embedding_loss,
    cosine_similarity,
    margin_ranking_loss,
    normalize,
    pairwise_distance,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from tinyt.ops.einsum import einsum, tensordot
from tinyt.ops.elementwise import (
    add,
    addcdiv,
    addcmul,
    allclose,
    broadcast_shapes,
    clamp,
    clamp_max,
    clamp_min,
    clip,
    div,
    equal,
    isclose,
    lerp,
    pow,
    rsub,
    sub,
    where,
)
from tinyt.ops.elementwise import div as divide
from tinyt.ops.elementwise import sub as subtract
from tinyt.ops.embedding import embedding, embedding_bag, one_hot
from tinyt.ops.indexing import index_put
from tinyt.ops.join import (
    block_diag,
    cartesian_prod,
    cat,
    column_stack,
    combinations,
    dstack,
    hstack,
    meshgrid,
    repeat_interleave,
    stack,
    tile,
    vstack,
)
from tinyt.ops.join import cat as concat
from tinyt.ops.join import cat as concatenate
from tinyt.ops.join import vstack as row_stack
from tinyt.ops.linalg import (
    addbmm,
    addmm,
    addmv,
    addr,
    baddbmm,
    bilinear,
    bmm,
    dot,
    ger,
    inner,
    linear,
    matmul,
    mm,
    mv,
    outer,
    vdot,
)
from tinyt.ops.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
)
from tinyt.ops.matrix import cdist, chain_matmul, cross, kron, matrix_power, pdist
from tinyt.ops.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)
from tinyt.ops.pad import (
    channel_shuffle,
    constant_pad_nd,
    fold,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from tinyt.ops.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from tinyt.ops.random import (
    bernoulli,
    dropout,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from tinyt.ops.reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumsum,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    sort,
    std,
    sum,
    topk,
    var,
    var_mean,
)
from tinyt.ops.scatter import _nonzero as nonzero
from tinyt.ops.scatter import (
    argwhere,
    gather,
    index_add,
    index_copy,
    index_fill,
    index_reduce,
    index_select,
    masked_fill,
    masked_scatter,
    masked_select,
    nonzero_static,
    put,
    scatter,
    scatter_add,
    scatter_reduce,
    take,
    take_along_dim,
    unravel_index,
)
from tinyt.ops.shape import _reshape_function as reshape
from tinyt.ops.shape import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_tensors,
    broadcast_to,
    flatten,
    movedim,
    permute,
    ravel,
    squeeze,
    t,
    transpose,
    unflatten,
    unsqueeze,
)
from tinyt.ops.shape import movedim as moveaxis
from tinyt.ops.shape import transpose as swapaxes
from tinyt.ops.shape import transpose as swapdims
from tinyt.ops.split import (
    chunk,
    dsplit,
    hsplit,
    narrow,
    narrow_copy,
    select,
    split,
    split_with_sizes,
    tensor_split,
    unbind,
    vsplit,
)
from tinyt.ops.strides import as_strided, diagonal
from tinyt.tensor import Tensor

__all__ = [
    "EXPORTS",
    "FAMILIES",
    "FUNCTIONAL",
    "abs",
    "absolute",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "all",
    "allclose",
    "amax",
    "amin",
    "angle",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_strided_scatter",
    "as_tensor",
    "asarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "backward",
    "baddbmm",
    "batch_norm",
    "bernoulli",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "block_diag",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "cartesian_prod",
    "cat",
    "cdist",
    "ceil",
    "celu",
    "celu_",
    "chain_matmul",
    "channel_shuffle",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "complex",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cos",
    "cosine_embedding_loss",
    "cosine_similarity",
    "count_nonzero",
    "cross",
    "cross_entropy",
    "cumsum",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "div",
    "divide",
    "dot",
    "dropout",
    "dsplit",
    "dstack",
    "einsum",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "empty",
    "empty_like",
    "eq",
    "equal",
    "erf",
    "exp",
    "expm1",
    "eye",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "floor",
    "floor_divide",
    "fold",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "gather",
    "gaussian_nll_loss",
    "ge",
    "gelu",
    "ger",
    "glu",
    "greater",
    "greater_equal",
    "group_norm",
    "gt",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "hsplit",
    "hstack",
    "huber_loss",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inner",
    "instance_norm",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_neg",
    "is_tensor",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isreal",
    "kl_div",
    "kron",
    "l1_loss",
    "layer_norm",
    "le",
    "leaky_relu",
    "leaky_relu_",
    "lerp",
    "less",
    "less_equal",
    "linear",
    "linspace",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsigmoid",
    "logsumexp",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "lt",
    "margin_ranking_loss",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_power",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "mm",
    "moveaxis",
    "movedim",
    "mse_loss",
    "mul",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "multinomial",
    "multiply",
    "mv",
    "narrow",
    "narrow_copy",
    "ne",
    "neg",
    "negative",
    "nll_loss",
    "nonzero",
    "nonzero_static",
    "norm",
    "normal",
    "normalize",
    "not_equal",
    "numel",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "pairwise_distance",
    "pdist",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "polar",
    "pow",
    "prelu",
    "prod",
    "put",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "relu6",
    "relu_",
    "remainder",
    "repeat_interleave",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "rms_norm",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rrelu",
    "rrelu_",
    "rsqrt",
    "rsub",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "select",
    "select_scatter",
    "selu",
    "selu_",
    "sgn",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "slice_scatter",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "sort",
    "split",
    "split_with_sizes",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tanh",
    "tanhshrink",
    "tensor",
    "tensor_split",
    "tensordot",
    "threshold",
    "threshold_",
    "tile",
    "topk",
    "transpose",
    "tril",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "triu",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unfold",
    "unravel_index",
    "unsqueeze",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_real",
    "vsplit",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]

FAMILIES: tuple[ModuleType, ...]
EXPORTS: dict[str, Any]
FUNCTIONAL: dict[str, Any]

def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def round(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mul(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def floor_divide(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def remainder(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def maximum(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def minimum(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def eq(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def ne(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def lt(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def le(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def gt(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def ge(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def logical_and(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def logical_or(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def logical_xor(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_and(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_or(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_xor(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def true_divide(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...

negative = neg
absolute = abs
not_equal = ne
less = lt
less_equal = le
greater = gt
greater_equal = ge
fix = trunc
multiply = mul
