"""Softmax over many classes in clusters by frequency (Grave et al. 2017, "Efficient softmax
approximation for GPUs")."""

# ruff: noqa: D102
# (forward is described by the class.)

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tinyt._tensor import dtype as DType
from tinyt.nn.containers import ModuleList, Sequential
from tinyt.nn.functional import log_softmax
from tinyt.nn.linear import Linear
from tinyt.nn.module import Module
from tinyt.ops import argmax, cat
from tinyt.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """What the layer gives: log-probabilities of the targets, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of target classes, of which the frequent ones come first.

    The head tells the classes below the first cutoff and the clusters apart; the classes of cluster
    i are told apart by a layer of ``in_features // div_value ** (i + 1)`` features, which is
    computed for the samples of that cluster alone. So it cannot be part of a compiled function,
    whose sizes are known before; `log_prob` can.

    Shapes: input (N, in_features) and target (N,), or (in_features,) and (); `output` as the
    target, `loss` ().

    Args:
        in_features: features of the input.
        n_classes: how many classes there are.
        cutoffs: the first class of each cluster, rising, between 1 and n_classes - 1.
        div_value: by how much the features of each cluster are fewer than those before.
        head_bias: whether the head has a bias.
        device: where the parameters are.
        dtype: of the parameters.

    Raises:
        ValueError: cutoffs that are none.
        RuntimeError: shapes that do not fit, and targets that are no classes.

    >>> import tinyt
    >>> layer = tinyt.nn.AdaptiveLogSoftmaxWithLoss(8, 100, [10, 50])
    >>> layer(tinyt.ones(3, 8), tinyt.tensor([1, 20, 99])).output.shape
    tinyt.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        limits = list(cutoffs)
        if not limits:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(a < b for a, b in pairwise([0, *limits, n_classes]))
        if not rising or any(int(limit) != limit for limit in limits):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*limits, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = limits[0]
        self.n_clusters = len(limits)
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, head_bias, **place)
        self.tail = ModuleList()
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, False, **place),
                    Linear(hidden, end - first, False, **place),
                )
            )

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        is_batch = _is_batch(input_, target_)
        x, target = (input_, target_) if is_batch else (input_[None], target_[None])
        output = x.new_zeros(target.shape[0])
        place, used = target.clone(), 0  # each target's place in the head
        for i, (first, end) in enumerate(pairwise([0, *self.cutoffs])):
            rows = ((target >= first) & (target < end)).nonzero()[:, 0]
            used += rows.numel()
            if i == 0 or not rows.numel():
                continue
            place = place.index_fill(0, rows, self.shortlist_size + i - 1)
            inside = (target[rows] - first)[:, None]
            scores = log_softmax(self.tail[i - 1](x[rows]), dim=1)
            output = output.index_copy(0, rows, scores.gather(1, inside)[:, 0])
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found."
            )
        output = output + log_softmax(self.head(x), dim=1).gather(1, place[:, None])[:, 0]
        loss = (-output).mean()
        return ASMoutput(output if is_batch else output[0], loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: (N, n_classes) for input (N, in_features)."""
        head = log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            own = head[:, self.shortlist_size + i, None]
            parts.append(log_softmax(cluster(input), dim=1) + own)
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The class of the highest probability of each sample: (N,) for input (N, in_features)."""
        best: Tensor = argmax(self.log_prob(input), dim=1)
        return best


def _is_batch(input: Tensor, target: Tensor) -> bool:
    """Whether there are several samples; RuntimeError where shapes do not fit."""
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and input.shape[0] != target.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with size {tuple(input.shape)}"
        )
    return target.dim() == 1
