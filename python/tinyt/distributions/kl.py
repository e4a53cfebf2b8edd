"""Kullback-Leibler divergences: the table of pairs of families, and :func:`kl_divergence`.

The formulas of the pairs that come with the package are in :mod:`tinyt.distributions.kl_pairs`
(two of a kind) and :mod:`tinyt.distributions.kl_cross` (of two kinds).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from tinyt import Tensor
from tinyt.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Any]
F = TypeVar("F", bound=Formula)
_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_chosen: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[F], F]:
    """Decorator that registers a function of (p, q) for two classes and their subclasses.

    The most specific pair is taken, the first class before the second; where the other order gives
    another function, :func:`kl_divergence` warns.

    >>> class Mine(tinyt.distributions.Normal): pass
    >>> @register_kl(Mine, Mine)
    ... def _(p, q):
    ...     return (p.loc - q.loc) ** 2
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type) or not issubclass(kind, Distribution):
            raise TypeError(f"Expected a Distribution subclass, but got {kind}")

    def decorator(function: F) -> F:
        _KL_REGISTRY[type_p, type_q] = function
        _chosen.clear()
        return function

    return decorator


def _choose(type_p: type, type_q: type) -> Formula | None:
    """The registered function of the classes closest to these."""
    found = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), p, q)
        for p, q in _KL_REGISTRY
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not found:
        return None
    left = min(found, key=lambda m: (m[0], m[1]))[2:]
    right = min(found, key=lambda m: (m[1], m[0]))[2:]
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean of ``log p(x) - log q(x)`` over x of p; of the broadcast batch shape.

    NotImplementedError where no function is registered for the classes.

    >>> D = tinyt.distributions
    >>> kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds = type(p), type(q)
    function = _chosen.get(kinds) or _choose(*kinds)
    value = NotImplemented
    if function is not None:
        _chosen[kinds] = function
        value = function(p, q)
    if value is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {kinds[0].__name__} and q type "
            f"{kinds[1].__name__}"
        )
    found: Tensor = value
    return found


# The families and their pairs are needed only here, and they need the table above.
from tinyt.distributions import kl_cross, kl_pairs  # noqa: E402, F401
