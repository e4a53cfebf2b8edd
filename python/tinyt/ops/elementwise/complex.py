"""Complex numbers and their parts.

Arithmetic on complex tensors is that of the scalar ops; here is what only they have. Gradients of
complex tensors are not implemented: where one would be recorded, NotImplementedError is raised.
"""

from __future__ import annotations

from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.ops.common import need_tensor, write_out
from tinyt.ops.shape.reshape import expand, transpose, unsqueeze
from tinyt.ops.shape.split import select
from tinyt.tensor import Tensor, attach, method, prim


def view_as_real(input: Tensor) -> Tensor:
    """A view of a complex tensor as its parts: shape [..., 2]."""
    return prim.view_as_real(need_tensor("view_as_real", input))


def view_as_complex(input: Tensor) -> Tensor:
    """A view of a float32 or float64 tensor [..., 2], whose last dimension is dense, as complex."""
    return prim.view_as_complex(need_tensor("view_as_complex", input))


def real(input: Tensor) -> Tensor:
    """A view of the real parts; a real tensor itself."""
    if not need_tensor("real", input).dtype.is_complex:
        return input
    return select(prim.view_as_real(input), -1, 0)


def imag(input: Tensor) -> Tensor:
    """A view of the imaginary parts of a complex tensor."""
    if not need_tensor("imag", input).dtype.is_complex:
        raise DTypeError(f"imag: needs a complex tensor, got {input.dtype.name}")
    return select(prim.view_as_real(input), -1, 1)


def _set_real(self: Tensor, value: Any) -> None:
    real(self)._assign(value)


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self)._assign(value)


attach(real=property(real, _set_real), imag=property(imag, _set_imag))


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``real + i imag``, of two float32 or two float64 tensors; the parts broadcast."""
    if real.dtype is not imag.dtype or real.dtype.name not in ("float32", "float64"):
        raise DTypeError(
            "complex: both parts must be float32 or both float64, got "
            f"{real.dtype.name} and {imag.dtype.name}"
        )
    shape = tuple(prim.add(real.detach(), imag.detach()).shape)
    parts = [unsqueeze(expand(part, shape), -1) for part in (real, imag)]
    return write_out(out, prim.view_as_complex(prim.cat(parts, len(shape))))


def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``abs * exp(i angle)``, of two float32 or two float64 tensors."""
    if abs.dtype is not angle.dtype or abs.dtype.name not in ("float32", "float64"):
        raise DTypeError(
            "polar: abs and angle must be float32 or both float64, got "
            f"{abs.dtype.name} and {angle.dtype.name}"
        )
    return write_out(out, complex(abs * prim.cos(angle), abs * prim.sin(angle)))


@method
def conj(input: Tensor) -> Tensor:
    """The conjugate of a complex tensor; a real one itself.

    PyTorch delays this copy until it is needed; here it is made at once, so ``is_conj`` is false.
    """
    return prim.conj_physical(input) if need_tensor("conj", input).dtype.is_complex else input


@method
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are never delayed."""
    return need_tensor("resolve_conj", input)


@method
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negations are never delayed."""
    return need_tensor("resolve_neg", input)


@method
def is_conj(input: Tensor) -> bool:
    """False: conjugates are never delayed."""
    need_tensor("is_conj", input)
    return False


@method
def is_neg(input: Tensor) -> bool:
    """False: negations are never delayed."""
    need_tensor("is_neg", input)
    return False


@method
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``z / |z|``, zero at zero; :func:`sign` of real tensors."""
    if not need_tensor("sgn", input).dtype.is_complex:
        return prim.sign(input, out=out)
    size = prim.abs(input)
    return prim.where(size == 0.0, 0.0, input / size, out=out)


@method
def sgn_(self: Tensor) -> Tensor:
    """:func:`sgn` in place."""
    return self._assign(sgn(self))


@method
def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is zero: everywhere in a real tensor."""
    if need_tensor("isreal", input).dtype.is_complex:
        return prim.eq(imag(input), 0.0)
    return prim.fill(tuple(input.shape), 0, 1.0, 1)


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return need_tensor("is_complex", input).dtype.is_complex


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a float."""
    return need_tensor("is_floating_point", input).dtype.is_floating_point


@method
def adjoint(input: Tensor) -> Tensor:
    """The conjugates of the last two dimensions transposed; a view of a real tensor."""
    if need_tensor("adjoint", input).dim() < 2:
        raise ShapeError(f"adjoint: needs at least 2 dimensions, got shape {tuple(input.shape)}")
    return conj(transpose(input, -2, -1))


def _hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.dim() != 2:
        raise ShapeError(f"H: needs a matrix, got shape {tuple(self.shape)}")
    return adjoint(self)


def _batch_hermitian(self: Tensor) -> Tensor:
    """The conjugate transposes of matrices."""
    if self.dim() < 2:
        raise ShapeError(f"mH: needs at least 2 dimensions, got shape {tuple(self.shape)}")
    return adjoint(self)


attach(H=property(_hermitian), mH=property(_batch_hermitian))


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        view_as_real, view_as_complex, real, imag, complex, polar, conj, resolve_conj, resolve_neg,
        is_conj, is_neg, sgn, isreal, is_complex, is_floating_point, adjoint,
    )
}  # fmt: skip
