"""Pruning: parameters times masks of zeros and ones, as `torch.nn.utils.prune` has it.

A pruned parameter is kept as `name_orig`, its mask is the buffer `name_mask`, and a hook computes
the product before every `forward`. `remove` makes the product the parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

from tinyt.nn.module import Module
from tinyt.nn.utils.computed import ComputedWeight, find_hook
from tinyt.nn.utils.convert_parameters import parameters_to_vector
from tinyt.ops import kthvalue, norm, ones_like, rand, rand_like, topk, zeros_like
from tinyt.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

M = TypeVar("M", bound=Module)
Amount = int | float


class BasePruningMethod(ComputedWeight):
    """The hook. A subclass says what kind it is, `PRUNING_TYPE`: "unstructured", "structured" (then
    it has a `dim`) or "global"; and defines `compute_mask`."""

    PRUNING_TYPE: ClassVar[str]

    @property
    def _tensor_name(self) -> str:
        return self.name

    @_tensor_name.setter
    def _tensor_name(self, name: str) -> None:
        self.name = name

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor, with zeros where `default_mask` has them."""
        raise NotImplementedError

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter as it was times its mask."""
        parameters: Any = module._parameters
        buffers: Any = module._buffers
        original, mask = parameters[self.name + "_orig"], buffers[self.name + "_mask"]
        return mask.to(original.dtype) * original  # type: ignore[no-any-return]

    def _compute(self, module: Module) -> Tensor:
        return self.apply_mask(module)

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prunes a parameter by a new method of this class, made from the other arguments; on top
        of what has been pruned of it before.

        Args:
            module: whose parameter it is.
            name: of the parameter.
            args: the arguments of the class.
            importance_scores: by which to choose, in the shape of the parameter; its values if
                None.
            kwargs: the keyword arguments of the class.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method.name = name
        before = find_hook(module, BasePruningMethod, name)
        now: Tensor = getattr(module, name)
        scores = now if importance_scores is None else importance_scores
        if scores.shape != now.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {tuple(scores.shape)} vs {tuple(now.shape)}"
            )
        if before is None:
            mask = method.compute_mask(scores.detach(), ones_like(now.detach()))
            original = module._parameters.pop(name)
            module.register_parameter(name + "_orig", original)
        else:
            container = before
            if not isinstance(before, PruningContainer):
                container = PruningContainer(before)
            container.add_pruning_method(method)
            mask = container.compute_mask(scores.detach(), getattr(module, name + "_mask").clone())
            before.unregister(module)
            method = container
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        method.register(module)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """A tensor times the mask that this method computes for it, or for its scores."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, "
                f"got {tuple(scores.shape)} vs {tuple(t.shape)}"
            )
        before = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Makes the pruned values the parameter."""
        weight = self.apply_mask(module)
        if hasattr(module, self.name):
            delattr(module, self.name)
        original: Any = module._parameters.pop(self.name + "_orig")
        original.data = weight.detach()
        del module._buffers[self.name + "_mask"]
        module.register_parameter(self.name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, applied one after another."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self.name = args[0].name
        for method in args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Adds a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        name = getattr(self, "name", None)
        if method is not None and name is not None and name != method.name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{name}' to PruningContainer {self}. Found '{method.name}'"
            )
        if method is not None:
            self.name = method.name
            self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, which chooses from what has not been pruned before."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        part: Any
        if method.PRUNING_TYPE == "unstructured":
            part = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = _checked_dim(t, method.dim)
            others = [d for d in range(t.dim()) if d != dim]
            part = (slice(None),) * dim + (default_mask.sum(dim=others) != 0,)
        elif method.PRUNING_TYPE == "global":
            part = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        chosen = method.compute_mask(t[part], default_mask=default_mask[part])
        mask = mask.clone()
        mask[part] = chosen.to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it is."""
        return default_mask


class _ByAmount(BasePruningMethod):
    """A method that prunes a number of elements or slices, or a share of them."""

    amount: Amount
    _is_share: bool

    def __init__(self, amount: Amount) -> None:
        if not isinstance(amount, Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        number, whole = float(amount), isinstance(amount, Integral)
        if not (number >= 0 if whole else 0.0 <= number <= 1.0):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
                "integer"
            )
        self.amount = amount
        self._is_share = not whole

    def _count(self, total: int) -> int:
        """How many of `total` are pruned."""
        if self._is_share:
            return round(float(self.amount) * total)
        if int(self.amount) > total:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to "
                f"prune={total}"
            )
        return int(self.amount)


class _Unstructured(_ByAmount):
    """A method that prunes single elements, of the least rank."""

    PRUNING_TYPE = "unstructured"

    def _rank(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros for the elements of the least rank."""
        count, mask = self._count(t.numel()), default_mask.clone()
        if count:
            least = topk(self._rank(t).reshape(-1), count, largest=False).indices
            mask = mask.reshape(-1).index_fill(0, least, 0).reshape(tuple(mask.shape))
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements at random: a number of them, or a share between 0 and 1."""

    def _rank(self, t: Tensor) -> Tensor:
        return -rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the elements of the least size: a number of them, or a share between 0 and 1."""

    def _rank(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(_ByAmount):
    """A method that prunes slices along a dimension."""

    PRUNING_TYPE = "structured"
    dim: int

    def _kept(self, t: Tensor, dim: int, count: int) -> Tensor:
        """Which slices stay, as bools, where `count` go."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros for whole slices."""
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {tuple(t.shape)} with {t.dim()} dims"
            )
        dim = _checked_dim(t, self.dim)
        count = self._count(t.shape[dim])
        if not count:
            return default_mask
        shape = (-1, *(1,) * (t.dim() - dim - 1))
        kept = self._kept(t, dim, count).to(t.dtype).reshape(shape)
        return default_mask.to(t.dtype) * kept


class RandomStructured(_Structured):
    """Prunes slices along a dimension at random: a number of them, or a share."""

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t: Tensor, dim: int, count: int) -> Tensor:
        drawn = rand(t.shape[dim], device=t.device)
        kept: Tensor = drawn > kthvalue(drawn, count).values
        return kept


class LnStructured(_Structured):
    """Prunes the slices along a dimension of the least norm of order n: a number, or a share."""

    def __init__(self, amount: Amount, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def _kept(self, t: Tensor, dim: int, count: int) -> Tensor:
        others = [d for d in range(t.dim()) if d != dim]
        norms = norm(t, p=self.n, dim=others)
        largest = topk(norms, t.shape[dim] - count).indices
        kept: Tensor = zeros_like(norms).index_fill(0, largest, 1)
        return kept


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask of one's own is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {tuple(default_mask.shape)} must match self.mask shape "
                f"{tuple(self.mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def _checked_dim(t: Tensor, dim: int) -> int:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")
    return dim % t.dim()


def identity(module: M, name: str) -> M:
    """Gives a parameter a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: Amount) -> M:
    """Prunes elements of a parameter at random; returns the module.

    Args:
        module: whose parameter it is.
        name: of the parameter.
        amount: how many, or which share between 0 and 1 of those not pruned yet.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> M:
    """Prunes the elements of a parameter of the least size, or of the least score; returns the
    module.

    >>> import tinyt
    >>> layer = tinyt.nn.utils.prune.l1_unstructured(tinyt.nn.Linear(4, 4), "weight", 0.25)
    >>> int((layer.weight == 0).sum()), list(layer.state_dict())
    (4, ['bias', 'weight_orig', 'weight_mask'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: Amount, dim: int) -> M:
    """Prunes slices of a parameter along a dimension at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M,
    name: str,
    amount: Amount,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> M:
    """Prunes the slices of a parameter along a dimension of the least norm of order n; returns the
    module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prunes a parameter where a mask is zero; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes single elements of several parameters as if they were one vector.

    Args:
        parameters: (module, name) pairs.
        pruning_method: an unstructured one, made from `kwargs`.
        importance_scores: scores by pair; the values of those that it lacks.
        kwargs: the keyword arguments of the method.

    Raises:
        TypeError: no pairs, no dict, or a method that is not unstructured.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, Mapping):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    method.name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    now: list[Tensor] = [getattr(module, name).detach() for module, name in pairs]
    ranked = [scores.get(pair, value) for pair, value in zip(pairs, now, strict=True)]
    masks = [
        getattr(module, name + "_mask", ones_like(value))
        for (module, name), value in zip(pairs, now, strict=True)
    ]
    together = PruningContainer(method).compute_mask(
        parameters_to_vector(ranked), parameters_to_vector(masks)
    )
    at = 0
    for (module, name), value in zip(pairs, now, strict=True):
        part = together[at : at + value.numel()]
        custom_from_mask(module, name, part.reshape(tuple(value.shape)))
        at += value.numel()


def remove(module: M, name: str) -> M:
    """Makes the pruned values the parameter, without mask and hook; returns the module.
    ValueError where it is not pruned."""
    hook = find_hook(module, BasePruningMethod, name)
    if hook is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    hook.remove(module)
    hook.unregister(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a module, or one in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )
