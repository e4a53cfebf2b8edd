"""Normalisation layers.

Sources: Ioffe & Szegedy 2015, "Batch normalization"; Ba et al. 2016, "Layer normalization"; Ulyanov
et al. 2016, "Instance normalization"; Wu & He 2018, "Group normalization"; Zhang & Sennrich 2019,
"Root mean square layer normalization".
"""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.dtypes import float32, float64, int64
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import empty, ones, tensor, zeros
from tinyt.ops.common import has_float64
from tinyt.tensor import Tensor


class _NormBase(Module):
    """Parameters and running statistics of a normalisation per channel."""

    __constants__: ClassVar[list[str]] = [
        "track_running_stats",
        "momentum",
        "eps",
        "num_features",
        "affine",
    ]

    _version = 2  # 1 had no num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        size = (num_features,)
        options = {"dtype": dtype, "device": device}
        self.register_parameter("weight", Parameter(ones(size, **options)) if affine else None)
        self.register_parameter(
            "bias", Parameter(zeros(size, **options)) if affine and bias else None
        )
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(size, **options) if tracked else None)
        self.register_buffer("running_var", ones(size, **options) if tracked else None)
        self.register_buffer(
            "num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None
        )

    def reset_running_stats(self) -> None:
        """Forgets the statistics: mean 0, variance 1."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets scale 1, shift 0 and forgets the statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _load_from_state_dict(
        self,
        state_dict: MutableMapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        *args: Any,
    ) -> None:
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            count = self.num_batches_tracked
            state_dict.setdefault(
                prefix + "num_batches_tracked",
                tensor(0, dtype=int64) if count is None else count,
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, per channel (dimension 1).

    In training the statistics are the batch's, and the running ones move towards them by
    `momentum` (or become the cumulative average if `momentum` is None); in evaluation the running
    ones are used.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor: float | Tensor = 0.0 if self.momentum is None else self.momentum
        tracked = self.running_mean is not None
        if self.training and tracked:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                wide = float64 if has_float64(self.num_batches_tracked.device) else float32
                factor = 1.0 / self.num_batches_tracked.to(wide)
        updates_or_reads_stats = tracked and (not self.training or self.track_running_stats)
        return F.batch_norm(
            input,
            self.running_mean if updates_or_reads_stats else None,
            self.running_var if updates_or_reads_stats else None,
            self.weight,
            self.bias,
            training=self.training or not tracked,
            momentum=factor,
            eps=self.eps,
        )


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the samples of all processes, of which there is one here: of
    (N, C, ...).

    Args:
        num_features, eps, momentum, affine, track_running_stats, device, dtype, bias: as of
            `BatchNorm1d`.
        process_group: kept, no effect.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a `SyncBatchNorm` in the place of each batch norm in it; parameters and
        buffers stay the same tensors."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            other = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            other._parameters.update(module._parameters)
            other._buffers.update(module._buffers)
            return other.train(module.training)
        for name, child in list(module._modules.items()):
            if child is not None:
                module._modules[name] = cls.convert_sync_batchnorm(child, process_group)
        return module


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class _InstanceNorm(_NormBase):
    """Batch normalisation of every sample by itself, with or without a batch dimension.

    The running statistics, if tracked, are used in evaluation only.
    """

    dimensions = 0  # of an input with a batch

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _load_from_state_dict(
        self,
        state_dict: MutableMapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = [prefix + name for name in ("running_mean", "running_var")]
            found = [name for name in names if state_dict.pop(name, None) is not None]
            if found:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(map(repr, found))} for "
                    f"{type(self).__name__} with track_running_stats=False; make the layer with "
                    "track_running_stats=True, or take them out of the state dict"
                )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _get_no_batch_dim(self) -> int:
        """How many dimensions an input without a batch has."""
        return self.dimensions - 1

    def _check_input_dim(self, input: Tensor) -> None:
        n = self._get_no_batch_dim()
        if input.dim() not in (n, n + 1):
            raise ValueError(f"expected {n}D or {n + 1}D input (got {input.dim()}D input)")

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_input_stats=self.training or not self.track_running_stats,
            momentum=0.0 if self.momentum is None else self.momentum,
            eps=self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        n = self._get_no_batch_dim()
        at = input.dim() - n
        if self.affine and input.shape[at] != self.num_features:
            raise ValueError(
                f"expected input's size at dim={at} to match num_features ({self.num_features}), "
                f"but got: {input.shape[at]}."
            )
        if input.dim() == n:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    dimensions = 3


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    dimensions = 4


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = 5


class _AffineNorm(Module):
    """The scale and shift of a normalisation that keeps no statistics."""

    weight: Parameter | None
    bias: Parameter | None

    def _register_affine(
        self, shape: tuple[int, ...], affine: bool, bias: bool, **options: Any
    ) -> None:
        for name, present in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(empty(shape, **options)) if present else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale 1 and shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class GroupNorm(_AffineNorm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias over groups of channels of a sample.

    Shapes: (N, num_channels, *); `weight` (ones) and `bias` (zeros) have one value per channel.
    """

    __constants__: ClassVar[list[str]] = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._register_affine((num_channels,), affine, bias, dtype=dtype, device=device)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """y = x / sqrt(mean(x²) + eps) * weight over the last dimensions.

    `eps` None stands for the spacing of 1 in the dtype of the computation; `weight` starts as ones.
    """

    __constants__: ClassVar[list[str]] = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.register_parameter(
            "weight",
            Parameter(empty(shape, dtype=dtype, device=device)) if elementwise_affine else None,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LayerNorm(_AffineNorm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions.

    Args:
        normalized_shape: sizes of the dimensions that are normalised together.
        eps: added to the (biased) variance.
        elementwise_affine: whether there are `weight` (ones) and `bias` (zeros).
        bias: whether there is a `bias`, if `elementwise_affine`.
    """

    __constants__: ClassVar[list[str]] = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register_affine(
            self.normalized_shape, elementwise_affine, bias, dtype=dtype, device=device
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
