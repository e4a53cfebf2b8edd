"""`DataParallel` where there is one device."""

from __future__ import annotations

from typing import Any

from tinyt.nn.module import Module


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

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` returns."""
        return self.module(*inputs, **kwargs)


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
