"""Steps of optimisers as functions over lists of tensors, as PyTorch's `optim.adam.adam`.

Each does what `step` of its optimiser does; its names and their order are PyTorch's, from a table.
"""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt.autograd import no_grad
from tinyt.forks import made_once
from tinyt.optim.optimizer import Batch, Optimizer, refuse_differentiable
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from inspect import Signature


_FALSE = {"capturable", "differentiable", "has_complex", "has_sparse_grad", "maximize"}
_FALSE |= {"decoupled_weight_decay"}
_LATE = "foreach maximize differentiable capturable has_complex"  # flags in a common order
# Lists of state, as argument=key of the state; flags with defaults, in their order, None but for
# _FALSE; options without defaults, by name.
_FORMS = {
    "adam": (
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
        "foreach capturable differentiable fused grad_scale found_inf has_complex "
        "decoupled_weight_decay",
        "amsgrad beta1 beta2 lr weight_decay eps maximize",
    ),
    "adamw": (
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
        "foreach capturable differentiable fused grad_scale found_inf has_complex",
        "amsgrad beta1 beta2 lr weight_decay eps maximize",
    ),
    "sgd": (
        "momentum_buffer_list=momentum_buffer",
        "has_sparse_grad foreach fused grad_scale found_inf",
        "weight_decay momentum lr dampening nesterov maximize",
    ),
    "adagrad": (
        "state_sums=sum state_steps=step",
        "fused grad_scale found_inf has_sparse_grad foreach differentiable has_complex",
        "lr weight_decay lr_decay eps maximize",
    ),
    "adadelta": (
        "square_avgs=square_avg acc_deltas=acc_delta state_steps=step",
        "capturable foreach differentiable has_complex",
        "lr rho eps weight_decay maximize",
    ),
    "adamax": (
        "exp_avgs=exp_avg exp_infs=exp_inf state_steps=step",
        _LATE,
        "eps beta1 beta2 lr weight_decay",
    ),
    "asgd": ("axs=ax mus=mu etas=eta state_steps=step", _LATE, "lambd lr t0 alpha weight_decay"),
    "nadam": (
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq mu_products=mu_product state_steps=step",
        "decoupled_weight_decay foreach capturable differentiable has_complex maximize",
        "beta1 beta2 lr weight_decay momentum_decay eps",
    ),
    "radam": (
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq state_steps=step",
        "decoupled_weight_decay foreach differentiable capturable has_complex maximize",
        "beta1 beta2 lr weight_decay eps",
    ),
    "rmsprop": (
        "square_avgs=square_avg grad_avgs=grad_avg momentum_buffer_list=momentum_buffer "
        "state_steps=step",
        _LATE,
        "lr alpha eps weight_decay momentum centered",
    ),
    "rprop": (
        "prevs=prev step_sizes=step_size state_steps=step",
        "foreach capturable maximize differentiable has_complex",
        "step_size_min step_size_max etaminus etaplus",
    ),
}
# Options of groups that are pairs.
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


class FunctionalForm:
    """The function of an optimiser: one step of lists of parameters, gradients and states.

    What the state of `kind` calls "exp_avg" is in the list `exp_avgs`, and so on; all lists are
    as long as `params`, or empty where the options need none. They are updated in place.

    >>> import tinyt
    >>> from tinyt.optim.sgd import sgd
    >>> p = tinyt.tensor([1.0])
    >>> sgd([p], [tinyt.tensor([2.0])], [None], weight_decay=0.0, momentum=0.0, lr=0.1,
    ...     dampening=0.0, nesterov=False, maximize=False)
    >>> p
    tensor([0.8000])
    """

    def __init__(self, kind: type[Optimizer]) -> None:
        self._kind = kind
        self.__name__ = self.__qualname__ = name = kind.__name__.lower()
        self.__module__ = kind.__module__
        lists, self._flags, self._options = _FORMS[name]
        self._keys = dict(entry.split("=") for entry in lists.split())
        self._grads = "d_p_list" if name == "sgd" else "grads"

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    @made_once
    def __signature__(self) -> Signature:
        # Not imported with the package, which this would slow down.
        inspect = import_module("inspect")
        kinds = inspect.Parameter
        plain, named = kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY
        found: Signature = inspect.Signature(
            [
                *(kinds(name, plain) for name in ("params", self._grads, *self._keys)),
                *(
                    kinds(name, plain, default=False if name in _FALSE else None)
                    for name in self._flags.split()
                ),
                *(kinds(name, named) for name in self._options.split()),
            ]
        )
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """One step."""
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        _check(self.__name__, given)
        lists = {
            key: given[argument] for argument, key in self._keys.items() if len(given[argument])
        }
        for pair, parts in _PAIRS.items():
            if parts[0] in given:
                given[pair] = tuple(given[part] for part in parts)
        if self.__name__ == "adamw":
            given["decoupled_weight_decay"] = True
        optimizer = self._kind.__new__(self._kind)
        optimizer.state = defaultdict(dict)
        params = given["params"]
        states = [
            {key: values[i] for key, values in lists.items() if values[i] is not None}
            for i in range(len(params))
        ]
        with no_grad():
            optimizer._update_batch(Batch(params, given[self._grads], states), given)
        for key, values in lists.items():  # the first momentum of SGD is made by the step
            for i, state in enumerate(states):
                values[i] = state.get(key)


def _check(name: str, given: dict[str, Any]) -> None:
    refuse_differentiable(name, given.get("differentiable", False))
    if given.get("grad_scale") is not None or given.get("found_inf") is not None:
        raise NotImplementedError(f"{name}: unscale the gradients before (GradScaler.unscale_)")
    if not all(isinstance(step, Tensor) for step in given.get("state_steps", ())):
        raise RuntimeError(f"{name}: state_steps must be a list of tensors of one element")
