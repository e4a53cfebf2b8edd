"""`Join`: a block in which processes may run out of batches at different times, for one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does when it has joined before the others."""

    def main_hook(self) -> None:
        """Called for each step of the others: of one process never."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all have joined."""


class Joinable:
    """What has a `join_hook`, such as an optimiser that talks to other processes."""

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of this object."""
        raise NotImplementedError(f"{type(self).__name__} must define join_hook")


class Join:
    """A block that waits for nobody: there is one process, which is the last to join.

    Args:
        joinables: those that have a `join_hook`; it gets the keyword arguments, and its
            `post_hook(True)` is called at the end of the block.
        enable, throw_on_early_termination: PyTorch's; without `enable` no hook is called.

    >>> from tinyt.distributed.algorithms.join import Join
    >>> with Join([]):
    ...     print("training")
    training
    """

    def __init__(
        self,
        joinables: Sequence[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        self._enable = enable
        joined = [x for x in joinables if hasattr(x, "join_hook")]
        self._hooks = [x.join_hook(**kwargs) for x in joined]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self._enable and kind is None:
            for hook in self._hooks:
                hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Tells nobody; None."""
