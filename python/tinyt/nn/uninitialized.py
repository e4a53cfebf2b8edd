"""Parameters and buffers whose sizes are not known yet, as lazy layers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tinyt._tensor import dtype as DType
from tinyt._tensor import make_subclass
from tinyt.nn.parameter import Parameter
from tinyt.ops import empty
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]


class UninitializedTensorMixin(Tensor):
    """A tensor whose size is not known yet; `materialize` makes an ordinary one of it."""

    cls_to_become: ClassVar[type[Tensor]]

    def materialize(
        self, shape: tuple[int, ...], device: Any = None, dtype: DType | None = None
    ) -> None:
        """Gives it a shape, with arbitrary values; optimisers keep their references."""
        kind = self.dtype if dtype is None else dtype
        where = self.device if device is None else device
        self.data = empty(tuple(shape), dtype=kind, device=where)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    def _refuse(self) -> NoReturn:
        raise RuntimeError(
            "an uninitialized parameter or buffer has no shape yet; call the module on an input, "
            "or `materialize`, first"
        )

    @property
    def shape(self) -> NoReturn:
        """RuntimeError: not known yet."""
        self._refuse()

    def size(self, dim: int | None = None) -> NoReturn:
        """RuntimeError: not known yet."""
        self._refuse()

    def numel(self) -> NoReturn:
        """RuntimeError: not known yet."""
        self._refuse()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            make: Any = type(self)
            memo[id(self)] = make(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose size is not known yet.

    Args:
        requires_grad: whether `backward` fills `grad`.
        device: where it is to be.
        dtype: of the values; the default dtype if None.
    """

    cls_to_become = Parameter

    def __new__(  # noqa: D102
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> Self:
        made: Self = make_subclass(cls, empty(0, dtype=dtype, device=device), requires_grad)
        return made


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer whose size is not known yet; arguments as in `UninitializedParameter`."""

    cls_to_become = Tensor

    def __new__(  # noqa: D102
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> Self:
        made: Self = make_subclass(cls, empty(0, dtype=dtype, device=device), requires_grad)
        return made


def is_lazy(param: object) -> bool:
    """Whether a tensor's size is not known yet."""
    return isinstance(param, UninitializedTensorMixin)
