"""`DistributedDataParallel` in a group of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyt.distributed.group import default_group, group_of
from tinyt.nn.module import Module


class DistributedDataParallel(Module):
    """Calls ``module``, whose gradients are those of this process: it is the only one.

    As in PyTorch the state dict's keys begin with "module.".

    Args:
        module: what to call; one of its parameters at least must require a gradient.
        device_ids, output_device: None or empty: there is no GPU.
        process_group: the group; that of `distributed.init_process_group` by default, which must
            have been called.
        dim, broadcast_buffers, init_sync, bucket_cap_mb, find_unused_parameters,
            check_reduction, gradient_as_bucket_view, static_graph, delay_all_reduce_named_params,
            param_to_hook_all_reduce, mixed_precision, device_mesh, skip_all_reduce_unused_params,
            bucket_cap_mb_list, batched_grad_copy, forward_sync_buffers: PyTorch's; with one process
            nothing is sent, so that they change nothing.

    Shape: the module's own.

    Raises:
        RuntimeError: where no parameter requires a gradient.
        ValueError: where there is no group, or a GPU is named.

    >>> import tinyt
    >>> from tinyt import distributed as dist
    >>> dist.init_process_group("gloo")
    >>> model = tinyt.nn.parallel.DistributedDataParallel(tinyt.nn.Linear(2, 1))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        self.process_group = default_group() if process_group is None else group_of(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "GPU modules; this build has the CPU alone: leave them out, got "
                f"device_ids {device_ids}, output_device {output_device}"
            )
        self.module = module
        self.dim = dim
        self.device_ids = None
        self.output_device = None
        self.broadcast_buffers = broadcast_buffers is not False
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` returns."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients are not sent to other processes: nothing changes."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """A block in which processes may have inputs of different lengths: nothing changes."""
        yield

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """TypeError for what is no function; it is never called: nothing is sent."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")

    def get_ddp_logging_data(self) -> dict[str, Any]:
        """Some of PyTorch's facts: `world_size` and `rank`."""
        return {"world_size": 1, "rank": 0}
