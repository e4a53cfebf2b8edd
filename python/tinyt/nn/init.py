"""In-place initialisers with PyTorch's formulas (`torch.nn.init`).

Sources: Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural
networks" (xavier); He et al. 2015, "Delving deep into rectifiers" (kaiming).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from tinyt.autograd import no_grad
from tinyt.dtypes import float64
from tinyt.ops import as_tensor, rand, randn, zeros
from tinyt.ops import eye as identity
from tinyt.ops.common import has_float64
from tinyt.random import Generator
from tinyt.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_LINEAR_GAIN_ONE = frozenset(
    ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
     "conv_transpose3d", "sigmoid"]
)  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through `nonlinearity`.

    Args:
        nonlinearity: name of the function, as in `tinyt.nn.functional`.
        param: the negative slope, for "leaky_relu" (default 0.01).
    """
    if nonlinearity in _LINEAR_GAIN_ONE:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills with draws from the uniform distribution on [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills with draws from the normal distribution."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with `val`."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with 0."""
    return constant_(tensor, 0.0)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform on [-a, a) with a = gain * sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with std = gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform on [-b, b) with b = gain * sqrt(3 / fan).

    Args:
        tensor: at least 2-d; dimension 0 is outputs, 1 is inputs, the rest is the kernel.
        a: negative slope of the leaky ReLU that follows.
        mode: "fan_in" keeps the variance forward, "fan_out" backward.
        nonlinearity: the function that follows.
        generator: source of randomness; the default generator if None.
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with std = gain / sqrt(fan); arguments as `kaiming_uniform_`."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fills with draws from the normal distribution, limited to [a, b].

    One uniform draw an element goes through the inverse distribution function, in float64: by the
    CPU where the device does not compute in it.
    """
    if not a < b or not std > 0:
        raise ValueError(f"trunc_normal_: needs a < b and std > 0, got {a}, {b} and {std}")
    low, high = (math.erf((x - mean) / (std * math.sqrt(2.0))) for x in (a, b))
    with no_grad():
        place = tensor.device if has_float64(tensor.device) else "cpu"
        u = rand(tuple(tensor.shape), dtype=float64, generator=generator, device=place)
        z = _erf_inverse(u * (high - low) + low) * (std * math.sqrt(2.0)) + mean
        return tensor.copy_(z.clamp(a, b))


def _erf_inverse(y: Tensor) -> Tensor:
    """The x with erf(x) = y: Winitzki's formula (2008), then two steps of Newton's method."""
    y = y.clamp(2.0**-53 - 1, 1 - 2.0**-53)
    log = (-y * y).log1p()
    part = log * 0.5 + 2 / (math.pi * 0.147)
    x = ((part * part - log / 0.147).sqrt() - part).sqrt() * y.sign()
    for _ in range(2):
        x = x - (x.erf() - y) * (x * x).exp() * (math.sqrt(math.pi) / 2)
    return x


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with the identity."""
    if tensor.dim() != 2:
        raise ValueError(f"eye_: only tensors with 2 dimensions, got {tuple(tensor.shape)}")
    with no_grad():
        return tensor.copy_(identity(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills a convolution kernel, 3-d to 5-d, so that each group passes its channels on."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(
            f"dirac_: only tensors with 3, 4, or 5 dimensions, got {tuple(tensor.shape)}"
        )
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups != 0:
        raise ValueError(f"dirac_: dim 0 must be divisible by groups, got {outputs} and {groups}")
    field = math.prod(kernel)
    centre = 0
    for n in kernel:
        centre = centre * n + n // 2
    each = outputs // groups
    ones = [
        ((g * each + d) * inputs + d) * field + centre
        for g in range(groups)
        for d in range(min(each, inputs))
        if field
    ]
    with no_grad():
        flat = zeros(tensor.numel())
        if ones:
            flat[as_tensor(ones)] = 1.0
        return tensor.copy_(flat.reshape(tensor.shape))


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fills with a (semi) orthogonal matrix, uniformly distributed (Saxe et al. 2014).

    The Q of a normal matrix, with signs that make it unique (Mezzadri 2007); dimensions beyond
    the first count as columns.
    """
    if tensor.dim() < 2:
        raise ValueError(
            f"orthogonal_: only tensors with 2 or more dimensions, got {tuple(tensor.shape)}"
        )
    if tensor.numel() == 0:
        return tensor
    import numpy as np

    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    drawn = randn(rows, columns, dtype=float64, generator=generator, device="cpu").numpy()
    q, r = np.linalg.qr(drawn if rows >= columns else drawn.T)
    q = q * np.sign(np.diag(r))
    matrix = as_tensor(np.ascontiguousarray(q if rows >= columns else q.T))
    with no_grad():
        return tensor.copy_((matrix * gain).reshape(tensor.shape))


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fills a matrix with normal draws and a share `sparsity` of each column with zeros.

    Martens 2010, "Deep learning via Hessian-free optimization".
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: only tensors with 2 dimensions, got {tuple(tensor.shape)}")
    rows = tensor.shape[0]
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        order = rand(tuple(tensor.shape), generator=generator, device=tensor.device).argsort(0)
        return tensor.masked_fill_(order < math.ceil(sparsity * rows), 0.0)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of one unit: sizes 1 and 0 times the size of the kernel."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    outputs, inputs, *kernel = tensor.shape
    field = math.prod(kernel)
    return inputs * field, outputs * field


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that `mode` names, "fan_in" or "fan_out" in any case."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _make_deprecate(function: F) -> F:
    """An initialiser under its older name, which PyTorch keeps with a warning."""
    name = function.__name__[:-1]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"nn.init.{name} is deprecated, use nn.init.{name}_", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Deprecated name of :func:`{name}_`."
    return cast(F, call)


# PyTorch's names of the fills themselves, which programs copy with its initialisers.
_no_grad_uniform_ = uniform_
_no_grad_normal_ = normal_
_no_grad_trunc_normal_ = trunc_normal_
_no_grad_fill_ = constant_
_no_grad_zero_ = zeros_

constant = _make_deprecate(constant_)
dirac = _make_deprecate(dirac_)
eye = _make_deprecate(eye_)
kaiming_normal = _make_deprecate(kaiming_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
normal = _make_deprecate(normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)
uniform = _make_deprecate(uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
xavier_uniform = _make_deprecate(xavier_uniform_)

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]
