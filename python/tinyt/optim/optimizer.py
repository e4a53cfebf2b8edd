"""`Optimizer`: parameter groups, per-parameter state, and state dicts in PyTorch's layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from tinyt.autograd import enable_grad, no_grad
from tinyt.tensor import Tensor

ParamGroup = dict[str, Any]
Params = Iterable[Tensor] | Iterable[ParamGroup] | Iterable[tuple[str, Tensor]]
Closure = Callable[[], Any]


class Optimizer:
    """Base class: a subclass defines `_update_group`, which updates the parameters of one group.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with "params" and options of their own.
        defaults: the options of a group that does not set them.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[ParamGroup] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Adds a group `{"params": ..., option: value, ...}`; missing options get the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group.pop("params")
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        entries = list(params)
        named = [isinstance(entry, tuple) for entry in entries]
        if any(named) and not all(named):
            raise ValueError("all optimizer params should be with/without names")
        if entries and all(named):
            group["param_names"] = [name for name, _ in entries]
            entries = [param for _, param in entries]
        self._check_new_params(entries)
        for option, value in self.defaults.items():
            group.setdefault(option, value)
        group["params"] = entries
        self.param_groups.append(group)

    def _check_new_params(self, params: list[Any]) -> None:
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(param)}"
                )
            if not param.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        ids = [id(param) for param in params]
        known = {id(param) for group in self.param_groups for param in group["params"]}
        if len(set(ids)) != len(ids):
            raise ValueError("a parameter group contains the same parameter twice")
        if known.intersection(ids):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops every gradient, or zeroes it if `set_to_none` is False."""
        for param in self._all_params():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach()
                param.grad.zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Updates every parameter that has a gradient.

        Args:
            closure: computes the loss and its gradients again; its result is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                self._update_group(group)
        return loss

    def _update_group(self, group: ParamGroup) -> None:
        raise NotImplementedError

    def _all_params(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def state_dict(self) -> dict[str, Any]:
        """`{"state": {index: {...}}, "param_groups": [{..., "params": [index, ...]}]}`.

        Indices count the parameters through all groups. Tensors are shared with the optimiser.
        """
        index = {id(param): i for i, param in enumerate(self._all_params())}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [index[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {index[id(param)]: value for param, value in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict` made by an optimiser over the same parameters in order.

        Tensors are copied, and floating ones converted to the dtype of their parameter.

        Raises:
            ValueError: if groups or their sizes do not match; the optimiser is unchanged then.
        """
        groups, saved = self.param_groups, state_dict["param_groups"]
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(
            len(group["params"]) != len(given["params"])
            for group, given in zip(groups, saved, strict=True)
        ):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        ids = [i for group in saved for i in group["params"]]
        param_of = dict(zip(ids, self._all_params(), strict=True))
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for i, values in state_dict["state"].items():
            if i in param_of:
                state[param_of[i]] = {
                    key: _adopt(value, key, param_of[i]) for key, value in values.items()
                }
        loaded = []
        for group, given in zip(groups, saved, strict=True):
            options = {k: deepcopy(v) for k, v in given.items() if k != "params"}
            loaded.append({**options, "params": group["params"]})
        self.state, self.param_groups = state, loaded

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def _adopt(value: Any, key: str, param: Tensor) -> Any:
    """A copy of one saved state value, fit for `param`."""
    if not isinstance(value, Tensor):
        return deepcopy(value)
    value = value.detach()
    # The step counter stays as it is: bfloat16 could not count past 256.
    if key != "step" and param.dtype.is_floating_point and value.dtype != param.dtype:
        return value.to(param.dtype)
    return value.clone()


def require_non_negative(name: str, value: float) -> None:
    """Raises ValueError for a negative (or NaN) option."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {name}: {value}")


def refuse_differentiable(optimizer: str, differentiable: bool) -> None:
    """Raises ValueError where PyTorch would record the update for differentiation."""
    if differentiable:
        raise ValueError(f"{optimizer}: differentiable=True is not supported")
