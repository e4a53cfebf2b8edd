"""What backward's graph saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt._autograd import pop_saved_hooks, push_saved_hooks
from tinyt.autograd.grad_fn import GradFn as Node
from tinyt.tensor import Tensor

__all__ = ["Node", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """Passes each tensor that operations in the block save for backward through ``pack_hook``;
    what it returns is kept instead, and ``unpack_hook`` must make a tensor of equal values of it.
    The tensor that a hook gets must not be written to; what ``pack_hook`` computes is not recorded.
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        pack, unpack = self.pack_hook, self.unpack_hook
        try:
            push_saved_hooks(pack, unpack)
        except BaseException:  # an interrupt: no block ends what has begun
            pop_saved_hooks()
            raise

    def __exit__(self, *exc: object) -> None:
        pop_saved_hooks()
