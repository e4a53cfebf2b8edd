"""The public ``Tensor`` class. Its methods are attached by ``tinyt.ops`` at import."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from tinyt import _tensor
from tinyt._tensor import Size, TensorBase
from tinyt.printing import format_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

# Every primitive of the op table as a function: prim.add(a, b), prim.sum(x, dims, keepdim).
prim = SimpleNamespace(**_tensor.primitives())


class Tensor(TensorBase):
    """A multi-dimensional array of one dtype that can take part in differentiation.

    Make one with :func:`tinyt.tensor`, :func:`tinyt.zeros` and the like. ``Tensor(data)`` is the
    short form for a tensor of the default dtype; ``Tensor(2, 3)`` an uninitialised one of a shape.
    """

    def __init__(self, *data: Any) -> None:
        if not data:
            return
        if all(isinstance(n, int) for n in data):
            self.data = prim.fill(tuple(data), _tensor.default_dtype_object(), 0.0, 0)
        elif len(data) == 1:
            self.data = _tensor.from_data(data[0], _tensor.default_dtype_object())
        else:
            raise TypeError(f"Tensor: expected sizes or one data argument, got {len(data)}")

    def __repr__(self) -> str:
        return format_tensor(self)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self.detach()
        return _rebuild, (
            type(self),
            data.tolist(),
            self.dtype,
            tuple(self.shape),
            self.requires_grad,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            known: Tensor = memo[id(self)]
            return known
        node = self.grad_fn
        if node is not None:
            raise RuntimeError(
                "deepcopy: only leaf tensors (made by the user) support the deepcopy protocol; "
                f"this one came from {node.op_name}"
            )
        copy = _tensor.make_subclass(type(self), prim.copy(self.detach()), self.requires_grad)
        if self._grad is not None:
            copy._grad = prim.copy(self._grad)
        copy.__dict__.update(self.__dict__)
        memo[id(self)] = copy
        return copy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """A NumPy array over the same memory.

        Raises RuntimeError when the tensor requires grad (``force=True`` detaches) and TypeError
        for bfloat16, which NumPy lacks.
        """
        import numpy as np

        if self.requires_grad:
            if not force:
                raise RuntimeError(
                    "numpy: can't call numpy() on a Tensor that requires grad; use "
                    "tensor.detach().numpy() instead"
                )
            return self.detach().numpy()
        if self.dtype.name == "bfloat16":
            raise TypeError("numpy: NumPy has no bfloat16; convert to float32 first")
        return np.asarray(memoryview(self))

    @property
    def is_cuda(self) -> bool:
        """Whether the data lives on a CUDA device."""
        return False

    @property
    def layout(self) -> str:
        """Memory layout: always strided."""
        return "strided"


def _rebuild(cls: type[Tensor], data: Any, dtype: Any, shape: Any, requires_grad: bool) -> Tensor:
    flat = prim.reshape(_tensor.from_data(data, dtype), shape)
    return _tensor.make_subclass(cls, flat, requires_grad)


def method(function: F) -> F:
    """Makes a function whose first argument is a tensor a method of Tensor too."""
    setattr(Tensor, function.__name__, function)
    return function


def attach(**members: object) -> None:
    """Makes values members of Tensor under names that are not their own."""
    for name, member in members.items():
        setattr(Tensor, name, member)


_tensor.set_public_class(Tensor)

__all__ = ["Size", "Tensor", "attach", "method", "prim"]
