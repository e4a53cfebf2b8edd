# Made by tools/make_stubs.py from the imported package: run it again, do not edit.

from types import ModuleType
from typing import Any, TypeAlias

from tinyt.ops import backward
from tinyt.ops.common import Scalar
from tinyt.ops.convert import (
    clone,
    detach,
    fill,
    fill_,
    get_device,
    is_nonzero,
    is_same_size,
    is_signed,
    numel,
    zero_,
)
from tinyt.ops.creation.filled import (
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    full,
    full_like,
    is_tensor,
    ones,
    ones_like,
    scalar_tensor,
    zeros,
    zeros_like,
)
from tinyt.ops.creation.ranges import (
    arange,
    eye,
    linspace,
    logspace,
    range,
    tril_indices,
    triu_indices,
)
from tinyt.ops.creation.signal import (
    bartlett_window,
    blackman_window,
    hamming_window,
    hann_window,
    kaiser_window,
)
from tinyt.ops.creation.values import (
    as_tensor,
    asarray,
    from_dlpack,
    from_numpy,
    frombuffer,
    tensor,
)
from tinyt.ops.elementwise.bounded import (
    addcdiv,
    addcmul,
    clamp,
    clamp_,
    clamp_max,
    clamp_max_,
    clamp_min,
    clamp_min_,
    lerp,
    nan_to_num,
    nan_to_num_,
)
from tinyt.ops.elementwise.bounded import clamp as clip
from tinyt.ops.elementwise.bounded import clamp_ as clip_
from tinyt.ops.elementwise.compare import (
    allclose,
    equal,
    isclose,
    isneginf,
    isposinf,
    signbit,
    where,
)
from tinyt.ops.elementwise.complex import (
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
from tinyt.ops.elementwise.functions import (
    add,
    broadcast_shapes,
    deg2rad,
    deg2rad_,
    div,
    float_power,
    frac,
    frac_,
    heaviside,
    ldexp,
    ldexp_,
    positive,
    pow,
    rad2deg,
    rad2deg_,
    round,
    round_,
    rsub,
    sub,
)
from tinyt.ops.elementwise.functions import div as divide
from tinyt.ops.elementwise.functions import sub as subtract
from tinyt.ops.elementwise.special import (
    frexp,
    igamma,
    igammac,
    logit,
    logit_,
    mvlgamma,
    nextafter,
    polygamma,
    sinc,
    sinc_,
)
from tinyt.ops.index.indexing import index_put, index_put_
from tinyt.ops.index.masks import _nonzero as nonzero
from tinyt.ops.index.masks import (
    argwhere,
    masked_fill,
    masked_scatter,
    masked_select,
    nonzero_static,
    unravel_index,
)
from tinyt.ops.index.scatter import (
    gather,
    put,
    scatter,
    scatter_add,
    scatter_reduce,
    take,
    take_along_dim,
)
from tinyt.ops.index.search import bucketize, isin, searchsorted, unique, unique_consecutive
from tinyt.ops.index.slices import index_add, index_copy, index_fill, index_reduce, index_select
from tinyt.ops.linalg.distance import (
    cosine_embedding_loss,
    cosine_similarity,
    margin_ranking_loss,
    normalize,
    pairwise_distance,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from tinyt.ops.linalg.einsum import einsum, tensordot
from tinyt.ops.linalg.matrix import cdist, chain_matmul, cross, kron, matrix_power, pdist, vander
from tinyt.ops.linalg.products import (
    _int_mm,
    addbmm,
    addmm,
    addmv,
    addmv_,
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
from tinyt.ops.linalg.triangular import cholesky, cholesky_inverse, cholesky_solve
from tinyt.ops.nn.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
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
from tinyt.ops.nn.attention import scaled_dot_product_attention
from tinyt.ops.nn.class_loss import (
    cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
)
from tinyt.ops.nn.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tinyt.ops.nn.ctc import ctc_loss
from tinyt.ops.nn.dropout import (
    alpha_dropout,
    alpha_dropout_,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    dropout_,
    feature_alpha_dropout,
    feature_alpha_dropout_,
    feature_dropout,
    feature_dropout_,
)
from tinyt.ops.nn.embedding import embedding, embedding_bag, embedding_renorm_, one_hot
from tinyt.ops.nn.grid import affine_grid, grid_sample
from tinyt.ops.nn.loss import (
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
from tinyt.ops.nn.multihead import multi_head_attention_forward
from tinyt.ops.nn.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)
from tinyt.ops.nn.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    local_response_norm,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from tinyt.ops.nn.resample import interpolate, upsample, upsample_bilinear, upsample_nearest
from tinyt.ops.nn.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from tinyt.ops.nn.weight_norm import _weight_norm, norm_except_dim
from tinyt.ops.random.distributions import bernoulli, multinomial
from tinyt.ops.random.draws import (
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from tinyt.ops.random.variates import (
    _sample_dirichlet,
    _sample_von_mises,
    _standard_gamma,
    binomial,
    poisson,
)
from tinyt.ops.reduce.counting import bincount, histc, histogram, histogramdd
from tinyt.ops.reduce.order import (
    argsort,
    kthvalue,
    median,
    mode,
    msort,
    nanmedian,
    nanquantile,
    quantile,
    sort,
    topk,
)
from tinyt.ops.reduce.reductions import (
    all,
    amax,
    amin,
    aminmax,
    any,
    argmax,
    argmin,
    count_nonzero,
    dist,
    logsumexp,
    max,
    mean,
    min,
    nanmean,
    nansum,
    norm,
    prod,
    renorm,
    sum,
    trace,
)
from tinyt.ops.reduce.scan import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_trapezoid,
    diff,
    gradient,
    logcumsumexp,
    trapezoid,
    trapz,
)
from tinyt.ops.reduce.statistics import corrcoef, cov, std, std_mean, var, var_mean
from tinyt.ops.shape.arrange import (
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
from tinyt.ops.shape.join import (
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
from tinyt.ops.shape.join import cat as concat
from tinyt.ops.shape.join import cat as concatenate
from tinyt.ops.shape.join import vstack as row_stack
from tinyt.ops.shape.pad import (
    channel_shuffle,
    constant_pad_nd,
    fold,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from tinyt.ops.shape.reshape import (
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
    swapaxes,
    t,
    transpose,
    unflatten,
    unsqueeze,
)
from tinyt.ops.shape.reshape import movedim as moveaxis
from tinyt.ops.shape.reshape import transpose as swapdims
from tinyt.ops.shape.split import (
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
    unsafe_chunk,
    unsafe_split,
    unsafe_split_with_sizes,
    vsplit,
)
from tinyt.ops.shape.strides import as_strided, as_strided_, diagonal, resize_as_
from tinyt.tensor import Tensor

__all__ = [
    "EXPORTS",
    "FAMILIES",
    "FUNCTIONAL",
    "_int_mm",
    "_sample_dirichlet",
    "_sample_von_mises",
    "_standard_gamma",
    "_weight_norm",
    "abs",
    "abs_",
    "absolute",
    "acos",
    "acos_",
    "acosh",
    "acosh_",
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
    "addmv_",
    "addr",
    "adjoint",
    "affine_grid",
    "all",
    "allclose",
    "alpha_dropout",
    "alpha_dropout_",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arange",
    "arccos",
    "arccos_",
    "arccosh",
    "arccosh_",
    "arcsin",
    "arcsin_",
    "arcsinh",
    "arcsinh_",
    "arctan",
    "arctan2",
    "arctan_",
    "arctanh",
    "arctanh_",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_strided_",
    "as_strided_scatter",
    "as_tensor",
    "asarray",
    "asin",
    "asin_",
    "asinh",
    "asinh_",
    "atan",
    "atan2",
    "atan_",
    "atanh",
    "atanh_",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "backward",
    "baddbmm",
    "bartlett_window",
    "batch_norm",
    "bernoulli",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bincount",
    "binomial",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "blackman_window",
    "block_diag",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "ceil",
    "ceil_",
    "celu",
    "celu_",
    "chain_matmul",
    "channel_shuffle",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clip_",
    "clone",
    "column_stack",
    "combinations",
    "complex",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "conj_physical_",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "corrcoef",
    "cos",
    "cos_",
    "cosh",
    "cosh_",
    "cosine_embedding_loss",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "cross",
    "cross_entropy",
    "ctc_loss",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deg2rad",
    "deg2rad_",
    "detach",
    "detach_",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "dropout_",
    "dsplit",
    "dstack",
    "einsum",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "embedding_renorm_",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eq",
    "equal",
    "erf",
    "erf_",
    "erfc",
    "erfc_",
    "erfinv",
    "exp",
    "exp2",
    "exp2_",
    "exp_",
    "expm1",
    "expm1_",
    "eye",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "fill",
    "fill_",
    "fix",
    "fix_",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fold",
    "frac",
    "frac_",
    "frexp",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "gather",
    "gaussian_nll_loss",
    "gcd",
    "gcd_",
    "ge",
    "gelu",
    "ger",
    "get_device",
    "glu",
    "gradient",
    "greater",
    "greater_equal",
    "grid_sample",
    "group_norm",
    "gt",
    "gumbel_softmax",
    "hamming_window",
    "hann_window",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "heaviside",
    "hinge_embedding_loss",
    "histc",
    "histogram",
    "histogramdd",
    "hsplit",
    "hstack",
    "huber_loss",
    "hypot",
    "i0",
    "i0_",
    "igamma",
    "igammac",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_select",
    "inner",
    "instance_norm",
    "interpolate",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "kaiser_window",
    "kl_div",
    "kron",
    "kthvalue",
    "l1_loss",
    "layer_norm",
    "lcm",
    "lcm_",
    "ldexp",
    "ldexp_",
    "le",
    "leaky_relu",
    "leaky_relu_",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linear",
    "linspace",
    "local_response_norm",
    "log",
    "log1p",
    "log1p_",
    "log2",
    "log2_",
    "log10",
    "log10_",
    "log_",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logit_",
    "logsigmoid",
    "logspace",
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
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "mse_loss",
    "msort",
    "mul",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "multinomial",
    "multiply",
    "mv",
    "mvlgamma",
    "nan_to_num",
    "nan_to_num_",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "narrow_copy",
    "ne",
    "neg",
    "neg_",
    "negative",
    "negative_",
    "nextafter",
    "nll_loss",
    "nonzero",
    "nonzero_static",
    "norm",
    "norm_except_dim",
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
    "poisson",
    "poisson_nll_loss",
    "polar",
    "polygamma",
    "positive",
    "pow",
    "prelu",
    "prod",
    "put",
    "quantile",
    "rad2deg",
    "rad2deg_",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "ravel",
    "real",
    "reciprocal",
    "reciprocal_",
    "relu",
    "relu6",
    "relu_",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "resize_as_",
    "resolve_conj",
    "resolve_neg",
    "rms_norm",
    "roll",
    "rot90",
    "round",
    "round_",
    "row_stack",
    "rrelu",
    "rrelu_",
    "rsqrt",
    "rsqrt_",
    "rsub",
    "scalar_tensor",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select",
    "select_scatter",
    "selu",
    "selu_",
    "sgn",
    "sigmoid",
    "sigmoid_",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sin_",
    "sinc",
    "sinc_",
    "sinh",
    "sinh_",
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
    "sqrt_",
    "square",
    "square_",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tan_",
    "tanh",
    "tanh_",
    "tanhshrink",
    "tensor",
    "tensor_split",
    "tensordot",
    "threshold",
    "threshold_",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "trapz",
    "tril",
    "tril_indices",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "trunc_",
    "unbind",
    "unflatten",
    "unfold",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_real",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "xlogy_",
    "zero_",
    "zeros",
    "zeros_like",
]

_Sizes: TypeAlias = int | tuple[int, ...] | list[int]

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
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
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
def fmod(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def atan2(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def hypot(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def copysign(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def xlogy(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def logaddexp(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def logaddexp2(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def fmax(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def fmin(
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
def bitwise_left_shift(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_right_shift(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def gcd(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def lcm(input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor: ...
def true_divide(
    input: Tensor | Scalar, other: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor: ...
def reshape(input: Tensor, shape: _Sizes) -> Tensor: ...
def abs_(input: Tensor) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def conj_physical_(input: Tensor) -> Tensor: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
def detach_(input: Tensor) -> Tensor: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def gcd_(input: Tensor, other: Tensor) -> Tensor: ...
def i0_(input: Tensor) -> Tensor: ...
def lcm_(input: Tensor, other: Tensor) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
def xlogy_(input: Tensor, other: Tensor) -> Tensor: ...

arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
negative = neg
absolute = abs
not_equal = ne
less = lt
less_equal = le
greater = gt
greater_equal = ge
fix = trunc
multiply = mul
