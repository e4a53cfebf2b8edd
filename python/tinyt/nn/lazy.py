"""Layers that learn the number of their inputs from the first one.

A lazy layer has the class of the layer that it becomes as a base; until its first call, or until it
loads a state dict, its parameters are `UninitializedParameter`s.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.autograd import no_grad
from tinyt.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd,
)
from tinyt.nn.linear import Linear
from tinyt.nn.module import Module
from tinyt.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from tinyt.nn.uninitialized import (
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
    is_lazy,
)
from tinyt.random import get_rng_state, set_rng_state
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
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
    "LazyModuleMixin",
    "UninitializedBuffer",
    "UninitializedParameter",
    "is_lazy",
]


class LazyModuleMixin(Module):
    """The base of lazy layers, before the class of the layer itself.

    A subclass makes some of its parameters `UninitializedParameter`s in its constructor, defines
    `initialize_parameters` and may name the class that it becomes, `cls_to_become`.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(_materialize, with_module=True)
        self._initialize_hook = self.register_forward_pre_hook(_initialize, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters their sizes and values, from the arguments of the first call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        unknown = [name for name, buffer in self._buffers.items() if is_lazy(buffer)]
        super()._apply(fn)
        for name in unknown:  # parameters are the same objects, buffers new ones
            moved: Any = self._buffers[name]
            self._buffers[name] = UninitializedBuffer(False, moved.device, moved.dtype)
        return self

    def has_uninitialized_params(self) -> bool:
        """Whether some sizes are not known yet."""
        return any(map(is_lazy, chain(self._parameters.values(), self._buffers.values())))


def _materialize(module: Module, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Before loading: parameters get the sizes of the values that are there for them."""
    for name, held in chain(module._parameters.items(), module._buffers.items()):
        value = state_dict.get(prefix + name)
        if isinstance(held, UninitializedTensorMixin) and value is not None and not is_lazy(value):
            held.materialize(tuple(value.shape))


def _initialize(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Before the first call."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {type(module).__name__} has not been fully initialized")
    for hook in ("_initialize_hook", "_load_hook"):
        getattr(module, hook).remove()
        delattr(module, hook)
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


class _LazyLayer(LazyModuleMixin):
    """A lazy layer of this package: made for no inputs, of which sizes then are learned."""

    _inputs: ClassVar[str]  # the attribute that says how many inputs there are

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        drawn = get_rng_state()
        super().__init__(*args, **kwargs)
        set_rng_state(drawn)  # the values for no inputs were not asked for
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = UninitializedParameter(True, param.device, param.dtype)
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.dim():
                self._buffers[name] = UninitializedBuffer(False, buffer.device, buffer.dtype)

    def reset_parameters(self) -> None:
        """Draws the parameters anew, once their sizes are known."""
        if not (is_lazy(self.weight) or is_lazy(self.bias)):
            super().reset_parameters()  # type: ignore[misc]

    def _channels(self, input: Tensor) -> int:
        """How many inputs there are."""
        return input.shape[1]

    def _shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a parameter or buffer, by the inputs."""
        count: int = getattr(self, self._inputs)
        return (count,)

    def initialize_parameters(self, input: Tensor) -> None:
        """Learns the sizes from an input, and draws the parameters."""
        if not self.has_uninitialized_params():  # loaded
            self._learn()
            return
        with no_grad():
            setattr(self, self._inputs, self._channels(input))
            for name, held in chain(self._parameters.items(), self._buffers.items()):
                if isinstance(held, UninitializedTensorMixin):
                    held.materialize(self._shape_of(name))
            self.reset_parameters()

    def _learn(self) -> None:
        """Sets the number of inputs by the parameters, which were loaded."""
        held = self.running_mean if self.weight is None else self.weight
        setattr(self, self._inputs, held.shape[0])


class LazyLinear(_LazyLayer, Linear):
    """A `Linear` whose `in_features` is the last size of its first input.

    >>> import tinyt
    >>> layer = tinyt.nn.LazyLinear(10)
    >>> layer.weight
    <UninitializedParameter>
    >>> layer(tinyt.ones(2, 5)).shape, layer
    (tinyt.Size([2, 10]), Linear(in_features=5, out_features=10, bias=True))
    """

    cls_to_become = Linear
    _inputs = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, out_features, bias, device, dtype)

    def _channels(self, input: Tensor) -> int:
        return input.shape[-1]

    def _shape_of(self, name: str) -> tuple[int, ...]:
        return (self.out_features, self.in_features) if name == "weight" else (self.out_features,)

    def _learn(self) -> None:
        self.in_features = self.weight.shape[1]


class _LazyConvXdMixin(_LazyLayer, _ConvNd):
    """A convolution whose `in_channels` are those of its first input."""

    _inputs = "in_channels"
    _spatial: ClassVar[int]

    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, out_channels, kernel_size, *args, **kwargs)

    def _channels(self, input: Tensor) -> int:
        if input.dim() not in (self._spatial + 1, self._spatial + 2):
            raise RuntimeError(
                f"Expected {self._spatial + 1}D (unbatched) or {self._spatial + 2}D (batched) "
                f"input to {type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        channels = input.shape[-self._spatial - 1]
        if channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        return channels

    def _shape_of(self, name: str) -> tuple[int, ...]:
        if name == "bias":
            return (self.out_channels,)
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def _learn(self) -> None:
        inputs = self.weight.shape[0 if self.transposed else 1]
        self.in_channels = inputs if self.transposed else inputs * self.groups


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    """A `Conv1d` whose `in_channels` are those of its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    """A `Conv2d` whose `in_channels` are those of its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    """A `Conv3d` whose `in_channels` are those of its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvXdMixin, ConvTranspose1d):
    """A `ConvTranspose1d` whose `in_channels` are those of its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvXdMixin, ConvTranspose2d):
    """A `ConvTranspose2d` whose `in_channels` are those of its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvXdMixin, ConvTranspose3d):
    """A `ConvTranspose3d` whose `in_channels` are those of its first input."""

    cls_to_become = ConvTranspose3d


class _LazyNormBase(_LazyLayer):
    """A normalisation whose `num_features` are the channels of its first input."""

    _inputs = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,  # of instance norms, too, as in PyTorch
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _channels(self, input: Tensor) -> int:
        # Instance norms have `dimensions`, those of a batch, and take single samples too.
        rank: int = getattr(self, "dimensions", input.dim())
        if input.dim() < 2:
            self._check_input_dim(input)
        return input.shape[1 if input.dim() >= rank else 0]


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A `BatchNorm1d` whose `num_features` are the channels of its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A `BatchNorm2d` whose `num_features` are the channels of its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A `BatchNorm3d` whose `num_features` are the channels of its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An `InstanceNorm1d` whose `num_features` are the channels of its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An `InstanceNorm2d` whose `num_features` are the channels of its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An `InstanceNorm3d` whose `num_features` are the channels of its first input."""

    cls_to_become = InstanceNorm3d
