"""Multi-head attention (Vaswani et al. 2017, "Attention is all you need"), and PyTorch's choice of
kernels for attention, of which there is one here."""

# ruff: noqa: D102
# (forward is described by the class.)

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.nn import init
from tinyt.nn.linear import NonDynamicallyQuantizableLinear
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import empty
from tinyt.ops.nn.multihead import multi_head_attention
from tinyt.tensor import Tensor


class SDPBackend(IntEnum):
    """PyTorch's kernels for `scaled_dot_product_attention`. Here one kernel does what all of them
    do: it never holds the scores, on any number of threads, with the same bits."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_CHOICES = tuple(kind for kind in SDPBackend if kind >= 0)


class _Enabled:
    """Which kernels PyTorch might use, as programs have said; no effect."""

    def __init__(self) -> None:
        self.backends: tuple[SDPBackend, ...] = _CHOICES


enabled_backends = _Enabled()


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """A block in which attention may use these kernels alone; no effect, as there is one kernel.

    Args:
        backends: one or several.
        set_priority: whether they are in order of preference.

    Raises:
        AssertionError: what is no backend.

    >>> import tinyt
    >>> from tinyt.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    ...     tinyt.backends.cuda.math_sdp_enabled()
    False
    """
    chosen = (backends,) if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in chosen):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    before = enabled_backends.backends
    enabled_backends.backends = tuple(dict.fromkeys(chosen))
    try:
        yield
    finally:
        enabled_backends.backends = before


class MultiheadAttention(Module):
    """Attention of `num_heads` heads between linear projections; returns (output, weights).

    Shapes: query (L, N, embed_dim), key (S, N, kdim), value (S, N, vdim), with N first if
    `batch_first`, or without N; output as the query, weights (N, L, S), or per head with
    `average_attn_weights=False`. Masks are true, or -inf, where attention is not allowed.
    Parameters: `in_proj_weight` (3 embed_dim, embed_dim), or `q_proj_weight`, `k_proj_weight` and
    `v_proj_weight` where kdim or vdim differ; `in_proj_bias`, `out_proj`, `bias_k`, `bias_v`.
    """

    __constants__: ClassVar[list[str]] = ["batch_first"]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        together = self.kdim == embed_dim and self.vdim == embed_dim
        self._qkv_same_embed_dim = together
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if together else (embed_dim, embed_dim),
            "k_proj_weight": None if together else (embed_dim, self.kdim),
            "v_proj_weight": None if together else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if together else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            value = None if shape is None else empty(shape, dtype=dtype, device=device)
            self.register_parameter(name, None if value is None else Parameter(value))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight, self.in_proj_weight,
        ):  # fmt: skip
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks, of numbers that are added, as one, and PyTorch's number of its kind.

        0 is (L, S) for all, 1 (N, S) of keys, 2 (N, num_heads, L, S). `query` has its batch first.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length)
        return merged, 2

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        return multi_head_attention(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            batch_first=self.batch_first and query.dim() == 3,
        )  # fmt: skip
