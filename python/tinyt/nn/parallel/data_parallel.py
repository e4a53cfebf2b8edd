"""`DataParallel` where there is one device."""

from __future__ import annotations

from typing import Any

from tinyt.autograd import is_grad_enabled
from tinyt.nn.module import Module
from tinyt.nn.parallel.parallel_apply import parallel_apply
from tinyt.nn.parallel.replicate import replicate
from tinyt.nn.parallel.scatter_gather import gather, scatter_kwargs


class DataParallel(Module):
    """Calls ``module``: with one device there is nothing to spread a batch over.

    As in PyTorch the state dict's keys begin with "module.".

    Args:
        module: what to call.
        device_ids, output_device, dim: taken for PyTorch's sake.

    Shape: the module's own.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` returns."""
        return self.module(*inputs, **kwargs)

    def replicate(self, module: Module, device_ids: Any) -> list[Module]:
        """`nn.parallel.replicate`."""
        return replicate(module, device_ids, not is_grad_enabled())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """`nn.parallel.scatter_gather.scatter_kwargs`."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> list[Any]:
        """`nn.parallel.parallel_apply`."""
        return parallel_apply(replicas, inputs, kwargs)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """`nn.parallel.gather`."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """`DataParallel` as a function: the module called once."""
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*args, **(module_kwargs or {}))
