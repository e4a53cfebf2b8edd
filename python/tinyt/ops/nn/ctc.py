"""Connectionist temporal classification (Graves et al. 2006, "Connectionist temporal
classification: labelling unsegmented sequence data with recurrent neural networks")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt import _core
from tinyt.dtypes import int64
from tinyt.ops.common import in_float32, need_tensor, on_device, to_dtype
from tinyt.ops.creation.values import as_tensor
from tinyt.ops.nn.loss import reduced, reduction_of
from tinyt.tensor import Tensor, prim

Lengths = Tensor | Sequence[int] | int
# The logarithm of no probability: finite, so that no gradient is NaN, and below every sum.
_NEVER = -1e30


def _lengths(name: str, given: Lengths, count: int, most: int) -> Tensor:
    """Lengths as a vector of `count`; RuntimeError where they do not fit."""
    lengths = to_dtype(as_tensor(given).reshape(-1), int64)
    if lengths.numel() != count:
        raise RuntimeError(
            f"ctc_loss: {name} must be of size batch_size, expected {count}, got {lengths.numel()}"
        )
    if count and not _core.is_recording():
        low, high = lengths.min().item(), lengths.max().item()
        if low < 0 or high > most:
            raise RuntimeError(
                f"ctc_loss: {name} must be between 0 and {most}, got {low} to {high}"
            )
    return lengths


def _padded(targets: Tensor, lengths: Tensor) -> Tensor:
    """Targets behind one another as rows."""
    longest = int(lengths.max().item()) if lengths.numel() else 0
    ends = lengths.cumsum(0)
    if int(lengths.sum().item()) > targets.numel():
        raise RuntimeError(
            f"ctc_loss: targets must have as many entries as target_lengths say, expected "
            f"{int(lengths.sum().item())}, got {targets.numel()}"
        )
    places = (ends - lengths)[:, None] + prim.iota(longest, int64, 0.0, 1.0, 0, 1)
    flat = places.clamp(max=max(targets.numel() - 1, 0)).reshape(-1)
    return targets[flat].reshape(lengths.numel(), longest)


def _log_likelihood(
    log_probs: Tensor, labels: Tensor, blank: int, input_lengths: Tensor, target_lengths: Tensor
) -> Tensor:
    """The logarithm of the probability of each sample's labels: the forward variables of all
    labels with blanks between them (section 4.1 of the paper), for log-probabilities (T, N, C)."""
    steps, count = log_probs.shape[:2]
    width = labels.shape[1]
    blanks = prim.fill((count, width, 1), int64, 0.0, blank)
    pairs = prim.cat((blanks, labels[:, :, None]), 2).reshape(count, 2 * width)
    states = prim.cat((pairs, prim.fill((count, 1), int64, 0.0, blank)), 1)
    emitted = log_probs.gather(2, states.expand(steps, *states.shape))
    never = prim.fill((count, 2), log_probs.dtype, _NEVER, 0)
    # A label may follow the one before without a blank where they differ.
    repeats = prim.cat((prim.fill((count, min(2, states.shape[1])), states.dtype, 0.0, blank),
                        states[:, :-2]), 1)  # fmt: skip
    may_skip = (states != blank) & (states != repeats)
    place = prim.iota(states.shape[1], int64, 0.0, 1.0, 0, 1)
    alpha = emitted[0].masked_fill(place > 1, _NEVER)
    for t in range(1, steps):
        padded = prim.cat((never, alpha), 1)
        ways = prim.cat(
            (
                alpha[None],
                padded[None, :, 1:-1],
                padded[None, :, :-2].masked_fill(may_skip.logical_not(), _NEVER),
            ),
            0,
        )
        following = ways.logsumexp(0) + emitted[t]
        alpha = prim.where((input_lengths > t)[:, None], following, alpha)
    last = alpha.gather(1, 2 * target_lengths[:, None])[:, 0]
    before = alpha.gather(1, (2 * target_lengths - 1).clamp(min=0)[:, None])[:, 0]
    before = before.masked_fill(target_lengths == 0, _NEVER)
    total = last.logaddexp(before)
    nothing = (total.detach() * 0.0).masked_fill(target_lengths > 0, _NEVER)
    return prim.where(input_lengths > 0, total, nothing)


@in_float32
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the logarithm of the probability that a sequence of labels, with blanks and repetitions
    anywhere, is the target.

    Gradients are PyTorch's: they are meant to pass through ``log_softmax``, and are not those of
    log-probabilities by themselves. That of an infinite loss is 0 (NaN in PyTorch).

    Args:
        log_probs: (T, N, C), or (T, C) for one sample.
        targets: (N, S), or all behind one another; without blanks.
        input_lengths: (N,), at most T each.
        target_lengths: (N,), at most S each.
        blank: the label that stands for none.
        reduction: "mean" (each divided by the length of its target), "sum" or "none".
        zero_infinity: 0 for the infinite losses of inputs that are too short.

    Raises:
        RuntimeError: shapes, lengths or a blank that do not fit.
    """
    need_tensor("ctc_loss", targets)
    is_batch = log_probs.dim() == 3
    if not is_batch and log_probs.dim() != 2:
        raise RuntimeError(
            f"ctc_loss: log_probs must have 2 or 3 dimensions, got {tuple(log_probs.shape)}"
        )
    scores = log_probs if is_batch else log_probs[:, None]
    steps, count, classes = scores.shape
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"ctc_loss: blank must be in label range [0, {classes - 1}], got {blank}"
        )
    if not steps:
        raise RuntimeError("ctc_loss: log_probs must have at least one step")
    place = scores.device  # lengths may be on the CPU, as in PyTorch
    sizes = on_device(_lengths("input_lengths", input_lengths, count, steps), place)
    wide = targets if targets.dim() == 2 or is_batch else targets[None]
    most = wide.shape[1] if wide.dim() == 2 else wide.numel()
    lengths = on_device(_lengths("target_lengths", target_lengths, count, most), place)
    labels = to_dtype(wide if wide.dim() == 2 else _padded(wide, lengths), int64)
    if labels.shape[0] != count:
        raise RuntimeError(f"ctc_loss: targets must be of {count} samples, got {labels.shape[0]}")
    found = _log_likelihood(scores, labels, blank, sizes, lengths)
    loss = -found
    if scores.requires_grad:
        time = prim.iota(steps, int64, 0.0, 1.0, 0, 1)[:, None]
        mass = scores.exp().sum(2).masked_fill(time >= sizes, 0.0).sum(0)
        loss = loss + (mass - mass.detach())
    loss = loss.masked_fill(found < _NEVER / 2, 0.0 if zero_infinity else float("inf"))
    if reduction == "mean":
        loss = loss / lengths.clamp(min=1).to(loss.dtype)
    return reduced(loss if is_batch else loss[0], reduction_of("ctc_loss", None, None, reduction))


EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {"ctc_loss": ctc_loss}
