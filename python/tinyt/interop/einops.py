"""einops on tensors of tinyt: its layers.

`einops.rearrange` and the others take tensors of tinyt as they are, since importing einops adds
tinyt to its backends. This module has the layers:

>>> import tinyt
>>> from tinyt.interop.einops import Rearrange
>>> layer = tinyt.nn.Sequential(Rearrange("b c h w -> b (c h w)"), tinyt.nn.Linear(12, 2))
>>> layer(tinyt.ones(5, 3, 2, 2)).shape
tinyt.Size([5, 2])
"""

from __future__ import annotations

from typing import Any

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

import tinyt
from tinyt import Tensor, nn

__all__ = ["EinMix", "Rearrange", "Reduce"]


class Rearrange(RearrangeMixin, nn.Module):  # type: ignore[misc]
    """`einops.rearrange` as a layer: ``Rearrange(pattern, **lengths)``."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, rearranged."""
        return self._apply_recipe(input)  # type: ignore[no-any-return]


class Reduce(ReduceMixin, nn.Module):  # type: ignore[misc]
    """`einops.reduce` as a layer: ``Reduce(pattern, reduction, **lengths)``."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, reduced."""
        return self._apply_recipe(input)  # type: ignore[no-any-return]


class EinMix(_EinmixMixin, nn.Module):  # type: ignore[misc]
    """A linear layer over named axes; see ``einops.layers.torch.EinMix``."""

    def _create_parameters(
        self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float
    ) -> None:
        weight = tinyt.empty(weight_shape).uniform_(-weight_bound, weight_bound)
        self.weight = nn.Parameter(weight)
        self.bias = None
        if bias_shape is not None:
            self.bias = nn.Parameter(tinyt.empty(bias_shape).uniform_(-bias_bound, bias_bound))

    def _create_rearrange_layers(
        self,
        pre_reshape_pattern: str | None,
        pre_reshape_lengths: dict[str, int] | None,
        post_reshape_pattern: str | None,
        post_reshape_lengths: dict[str, int] | None,
    ) -> None:
        make: Any = Rearrange
        self.pre_rearrange = self.post_rearrange = None
        if pre_reshape_pattern is not None:
            self.pre_rearrange = make(pre_reshape_pattern, **(pre_reshape_lengths or {}))
        if post_reshape_pattern is not None:
            self.post_rearrange = make(post_reshape_pattern, **(post_reshape_lengths or {}))

    def forward(self, input: Tensor) -> Tensor:
        """The product of the input and the weight over the axes of the pattern."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = tinyt.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
