"""The base of all distributions, and that of exponential families."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import tinyt
from tinyt import Size, Tensor
from tinyt._core import is_recording
from tinyt.distributions import constraints
from tinyt.distributions.utils import lazy_property, place_of_recording

Self = TypeVar("Self", bound="Distribution")
Shape = Sequence[int]


class Distribution:
    """A distribution of values of ``event_shape``, one for each entry of ``batch_shape``.

    Draws have the shape ``sample_shape + batch_shape + event_shape``; ``log_prob(value)`` takes
    values that broadcast with the last two and has the shape of the first two. ``rsample`` has
    gradients with respect to the parameters.

    Parameters and values are checked against ``arg_constraints`` and ``support`` unless
    ``validate_args=False`` is given (or :meth:`set_default_validate_args` says so): a ValueError
    names the constraint. While a program is recorded by :func:`tinyt.compile` there are no values
    to look at, and only shapes are checked.

    ``batched`` names a family's parameters and how many of their last dimensions belong to one
    event; :meth:`expand` goes by it.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    batched: ClassVar[dict[str, int]] = {}
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions that are not told check their arguments; on by default."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Shape = (),
        event_shape: Shape = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        place = place_of_recording()
        if place is not None:
            self._place_of_recording = place
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        """ValueError for a parameter outside of its constraint; what is not given, and would have
        to be computed, is not looked at."""
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=4,
            )
            return
        if is_recording():
            return
        for name, constraint in expected.items():
            is_lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (is_lazy and name not in self.__dict__):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError for a value that is no tensor, does not broadcast or is off the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_dim_start = len(value.shape) - len(self._event_shape)
        if value.shape[event_dim_start:] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        own = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(own), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                    f"{own}."
                )
        if is_recording():
            return
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A new instance for :meth:`expand` to fill in."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self: Self, shape: Shape, _instance: Any = None) -> Self:
        """A new instance with every parameter of ``batched`` that is known, expanded."""
        owner = next(c for c in type(self).__mro__ if "batched" in c.__dict__)
        new: Self = self._get_checked_instance(owner, _instance)
        shape = Size(shape)
        for name, event_dims in self.batched.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                tail = tuple(value.shape[value.dim() - event_dims :])
                new.__dict__[name] = value.expand((*shape, *tail))
        Distribution.__init__(new, shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def expand(self: Self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The same distribution for a larger batch: parameters are expanded, nothing is copied."""
        if not self.batched:
            raise NotImplementedError
        return self._expanded(batch_shape, _instance)

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter, by its name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint of values."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of largest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws without gradients."""
        with tinyt.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws with gradients with respect to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``, with a FutureWarning."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of :meth:`cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dimension; without ``expand``
        with sizes of 1 in the place of the batch's."""
        raise NotImplementedError

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Scalar values [n] as :meth:`enumerate_support` returns them."""
        values = values.reshape((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """``exp(entropy())``."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        """The shape of draws."""
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def __repr__(self) -> str:
        given = [k for k in self.arg_constraints if k in self.__dict__]
        shown = ((k, self.__dict__[k]) for k in given)
        facts = ", ".join(f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in shown)
        return f"{type(self).__name__}({facts})"


class ExponentialFamily(Distribution):
    """Densities ``exp(<t(x), theta> - F(theta) + k(x))`` of natural parameters ``theta``.

    A family gives ``_natural_params``, ``_log_normalizer(*theta)`` and the mean of the carrier
    measure, E[k(x)]; the entropy is ``F - <theta, dF/dtheta> - E[k]`` (Nielsen and Nock, "Entropies
    and cross-entropies of exponential families", 2010), with dF by autograd.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats, from the derivatives of the log-normaliser."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with tinyt.enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes: Any = tinyt.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        events = len(self._event_shape)
        for param, slope in zip(params, slopes, strict=True):
            product = (param * slope).reshape((*self._batch_shape, -1)) if events else param * slope
            result = result - (product.sum(-1) if events else product)
        return result
