"""`Optimizer`: parameter groups, per-parameter state, and state dicts in PyTorch's layout."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import wraps
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

from tinyt._capture import OPTIMIZERS, Location, recorder
from tinyt._core import is_capturing
from tinyt._tensor import dtype as DType
from tinyt._tensor import number_of_device
from tinyt.autograd import RemovableHandle, enable_grad, no_grad, tape
from tinyt.autograd.hooks import add_hook
from tinyt.dtypes import float32, float64, get_default_dtype
from tinyt.forks import made_once
from tinyt.nesting import deeper
from tinyt.nn.parameter import clear_grads
from tinyt.ops import tensor, zeros, zeros_like
from tinyt.ops.creation.values import from_foreign
from tinyt.tensor import Tensor

ParamGroup = dict[str, Any]
ParamState = dict[str, Any]
Params = Iterable[Tensor] | Iterable[ParamGroup] | Iterable[tuple[str, Tensor]]
Closure = Callable[[], Any]
ParamsT = params_t = _params_t = Params  # PyTorch's name, and older ones
StateDict = dict[str, Any]


class _RequiredParameter:
    """The default of an option that every group must have."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def __getattr__(name: str) -> Any:
    """What optimisers of other packages import from here, of `subclassing`."""
    found = None
    if not name.startswith("__"):
        found = vars(import_module(f"{__package__}.subclassing")).get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


_STEP_HOOKS = ("step_pre", "step_post")
_all_hooks: defaultdict[str, dict[int, Any]] = defaultdict(dict)  # of every optimiser's step


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before the `step` of every optimiser."""
    return add_hook(_all_hooks["step_pre"], hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after the `step` of every optimiser."""
    return add_hook(_all_hooks["step_post"], hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step` with the optimiser's step hooks around it.

    As PyTorch's wrapper does, hooks get the optimiser as the first of `args` too, and what a hook
    before the step returns takes the place of all of them.
    """

    @wraps(step)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        self: Optimizer = args[0]
        self._opt_called = True
        if (recording := recorder()) is not None:
            for hooks in (_all_hooks, self._hooks):
                recording.reads.extend((hooks, when, hooks[when]) for when in _STEP_HOOKS)
        for hook in _hooks_of(_all_hooks, self._hooks, "step_pre"):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{hook} must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {changed}."
                )
            args, kwargs = changed
        if tape.profile_range is None:
            result = step(*args, **kwargs)
        else:
            name = type(self).__name__
            with tape.profile_range(f"Optimizer.step#{name}.step"):
                result = step(*args, **kwargs)
        for hook in _hooks_of(self._hooks, _all_hooks, "step_post"):
            hook(self, args, kwargs)
        return result

    return wrapped


def _hooks_of(
    first: dict[str, dict[int, Any]], second: dict[str, dict[int, Any]], when: str
) -> tuple[Any, ...]:
    """Hooks at this moment: they may remove themselves."""
    return tuple(chain(first[when].values(), second[when].values()))


class Batch(NamedTuple):
    """Parameters that are updated together: entry i of every list belongs to parameter i."""

    params: list[Tensor]
    grads: list[Tensor]
    states: list[ParamState]

    def state(self, key: str) -> list[Any]:
        """One kind of state of every parameter."""
        return [state[key] for state in self.states]


class Optimizer:
    """Base class: a subclass defines `_update_param`, which updates one parameter, or `step`.

    It may also define `_update_all`, which updates many in one call.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with "params" and options of their own.
        defaults: the options of a group that does not set them.
    """

    # States that are numbers: loading keeps their dtype, where others get their parameter's.
    _numbers: tuple[str, ...] = ("step",)
    _opt_called = False  # schedulers warn when they are stepped first
    _has_repeated = False  # whether a group has a parameter several times
    _zero_grad_profile_name = "Optimizer.zero_grad#Optimizer.zero_grad"

    # Wrappers of optimisers may never call __init__.
    @made_once
    def _hooks(self) -> defaultdict[str, dict[int, Any]]:
        return defaultdict(dict)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}"
            )
        OPTIMIZERS[id(self)] = self
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
        """Adds a group `{"params": ..., option: value, ...}`; missing options get the defaults.

        The dict itself becomes the group. A parameter that is in it several times is updated
        several times, with a warning.

        Raises:
            ValueError: for a parameter that another group has, one that is no leaf, and an option
                that is missing and `required`.
            TypeError: for a parameter that is no tensor.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params = group["params"]
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
        group["params"] = entries
        self._check_new_params(entries)
        for option, value in self.defaults.items():
            if value is required and option not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{option}"
                )
            group.setdefault(option, value)
        self._check_repetitions(entries)
        self.param_groups.append(group)

    def _check_new_params(self, params: list[Any]) -> None:
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{type(param).__name__}"
                )
            if not param.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")

    def _check_repetitions(self, params: list[Tensor]) -> None:
        ids = [id(param) for param in params]
        known = {id(param) for group in self.param_groups for param in group["params"]}
        if len(set(ids)) != len(ids):
            self._has_repeated = True
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters, which are updated "
                "several times; in future, this will cause an error",
                UserWarning,
                stacklevel=4,
            )
        if known.intersection(ids):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops every gradient, or zeroes it if `set_to_none` is False."""
        clear_grads(self._all_params(), set_to_none)

    @_with_hooks
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
            for group in _live(self):
                self._update_group(group)
        return loss

    def _update_group(self, group: ParamGroup) -> None:
        batch = self._batch(group)
        if self._has_repeated:
            self._update_one_by_one(batch, group)
        elif batch.params:
            self._update_batch(batch, group)

    def _update_one_by_one(self, batch: Batch, group: ParamGroup) -> None:
        """Updates a parameter as often as it is there: with one state if it starts with one (as
        Adam's do), else each time with what is there before the step (as PyTorch does)."""
        started: dict[int, ParamState] = {}
        for param, grad, state in zip(*batch, strict=True):
            if state:
                state = started.setdefault(id(param), state)
            self._update_batch(Batch([param], [grad], [state]), group)
            if state:
                self.state[param] = state

    def _update_batch(self, batch: Batch, group: ParamGroup) -> None:
        self._refuse_in_capture(batch)
        try:
            for i in self._update_all(batch, group):
                grad = -batch.grads[i] if group.get("maximize") else batch.grads[i]
                self._update_param(batch.params[i], grad, batch.states[i], group)
        finally:
            for param, state in zip(batch.params, batch.states, strict=True):
                if state and param not in self.state:  # plain gradient descent has none
                    self.state[param] = state

    def _refuse_in_capture(self, batch: Batch) -> None:
        """RuntimeError where a captured graph (`cuda.graph`) would count no steps."""
        place = batch.params[0].device
        if place.type != "cuda" or not is_capturing(number_of_device(place)):
            return
        for state in batch.states:
            for key in self._numbers:
                if key in state and not getattr(state[key], "is_cuda", False):
                    raise RuntimeError(
                        "Attempting CUDA graph capture of step() for an instance of "
                        f"{type(self).__name__} but param_groups' capturable is False, or it has "
                        "no counters on the device: Adam and AdamW with capturable=True have"
                    )

    def _batch(self, group: ParamGroup) -> Batch:
        """The parameters of a group that have a gradient, with their states."""
        batch = Batch([], [], [])
        known = self.state
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            state = known.get(param)
            if not state:
                state = {}
                self._init_state(state, param, group)
                if state:
                    need_states()
            batch.params.append(param)
            batch.grads.append(grad)
            batch.states.append(state)
        return batch

    def _update_all(self, batch: Batch, group: ParamGroup) -> Iterable[int]:
        """Updates all parameters of a batch in one call, with the bits of `_update_param`.

        Returns the numbers of those that `_update_param` has to do: here all.
        """
        return range(len(batch.params))

    def _steps_all_at_once(self) -> bool:
        """Whether a step is one call for all parameters, and nothing else."""
        kind = type(self)
        return kind._update_all is not Optimizer._update_all and kind.step is Optimizer.step

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        """Fills the empty state of a parameter; called before its first update."""

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        """Updates one parameter in place; `grad` points where the loss falls against."""
        raise NotImplementedError(f"{type(self).__name__} must define _update_param or step")

    def _all_params(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def state_dict(self) -> dict[str, Any]:
        """`{"state": {index: {...}}, "param_groups": [{..., "params": [index, ...]}]}`.

        Indices count the parameters through all groups; what the state has under other keys than
        parameters stays there. Tensors are shared with the optimiser.
        """
        for hook in tuple(self._hooks["state_pre"].values()):
            hook(self)
        index = {id(param): i for i, param in enumerate(self._all_params())}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [index[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            index[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        packed_state = {"state": state, "param_groups": groups}
        for hook in tuple(self._hooks["state_post"].values()):
            changed = hook(self, packed_state)
            packed_state = packed_state if changed is None else changed
        return packed_state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict` made by an optimiser over the same parameters in order.

        Tensors, which may be PyTorch's, are copied, and floating ones converted to the dtype of
        their parameter. Options that a saved group lacks have their default values. `__setstate__`
        gets the result.

        Raises:
            ValueError: if groups or their sizes do not match; the optimiser is unchanged then.
        """
        state_dict = dict(state_dict)
        for hook in tuple(self._hooks["load_pre"].values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
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
        group_of = [group for group in groups for _ in group["params"]]
        group_at = dict(zip(ids, group_of, strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for i, values in state_dict["state"].items():
            if i in param_of:
                state[param_of[i]] = self._adopt_state(values, param_of[i], group_at[i])
            else:
                state[i] = deepcopy(values)
        loaded = []
        for group, given in zip(groups, saved, strict=True):
            options = {k: deepcopy(from_foreign(v)) for k, v in given.items() if k != "params"}
            # Files of before an option was there have no value of it.
            loaded.append({**self.defaults, **options, "params": group["params"]})
        self.__setstate__({"state": state, "param_groups": loaded})
        for hook in tuple(self._hooks["load_post"].values()):
            hook(self)

    def _adopt_state(self, values: ParamState, param: Tensor, group: ParamGroup) -> ParamState:
        """A copy of the saved state of a parameter, fit for it."""
        state = {k: _adopt(value, k in self._numbers, param) for k, value in values.items()}
        plain = [k for k in self._numbers if isinstance(state.get(k), (int, float))]
        if plain:  # older files have Python numbers where the optimiser keeps tensors
            fresh: ParamState = {}
            self._init_state(fresh, param, group)
            for k in plain:
                if isinstance(kept := fresh.get(k), Tensor):
                    state[k] = tensor(float(state[k]), dtype=kept.dtype, device=kept.device)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Sets attributes: all of a pickled optimiser, or the `state` and `param_groups` that
        `load_state_dict` has made; a subclass may override it to fill in what older ones lack."""
        OPTIMIZERS[id(self)] = self
        self.__dict__.update(state)

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """`func` with the hooks of steps around it, which every `step` of a subclass has anyway."""
        return _with_hooks(func)

    def _patch_step_function(self) -> None:
        """Nothing: `step` has its hooks since its class was made."""

    def _cuda_graph_capture_health_check(self) -> None:
        """Nothing: there are no such graphs."""

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before `step`; it may return new ones."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after `step`."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict`."""
        return self._register("state_pre", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict`; it may return another."""
        return self._register("state_post", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading; it may return another."""
        return self._register("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer)` after loading."""
        return self._register("load_post", hook, prepend)

    def _register(self, when: str, hook: Any, prepend: bool = False) -> RemovableHandle:
        return add_hook(self._hooks[when], hook, prepend)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def _adopt(value: Any, is_number: bool, param: Tensor, depth: int = 0) -> Any:
    """A copy of one saved state value, fit for `param`."""
    value = from_foreign(value)
    if isinstance(value, (list, tuple)):
        depth = deeper("load_state_dict", depth)
        return type(value)([_adopt(item, is_number, param, depth) for item in value])
    if not isinstance(value, Tensor):
        return deepcopy(value)
    value = value.detach()
    # Numbers stay as they are: bfloat16 could not count past 256.
    if is_number:
        return value.to("cpu", copy=True)
    dtype = param.dtype if param.dtype.is_floating_point else value.dtype
    return value.to(param.device, dtype, copy=True)


def need_states() -> None:
    """Stops a recording that would make states: later steps find them."""
    recording = recorder()
    if recording is not None:
        recording.need_run("step: the optimiser has no states yet")


def require_betas(betas: tuple[float, float]) -> None:
    """Raises ValueError for a decay of a running mean outside [0, 1), IndexError unless there are
    two."""
    if len(betas) != 2:
        raise IndexError(f"betas must be two numbers, got {betas}")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def _live(optimizer: Optimizer) -> list[ParamGroup]:
    """The groups; while recording, with numbers that a program reads anew at every run."""
    groups, recording = optimizer.param_groups, recorder()
    if recording is None:
        return groups
    recording.reads.extend([(optimizer.__dict__, key, optimizer.__dict__[key]) for key in _PARTS])
    recording.held.extend(optimizer.state.values())
    live = []
    for group in groups:
        copy = dict(group)
        for key, value in group.items():
            if isinstance(value, float):
                copy[key] = recording.number(value, Location(group, key))
            elif isinstance(value, tuple) and all(isinstance(x, float) for x in value):
                copy[key] = tuple(
                    recording.number(x, Location(group, key, i)) for i, x in enumerate(value)
                )
            else:
                recording.reads.append((group, key, value))
        live.append(copy)
    return live


_PARTS = ("param_groups", "state")


def learning_rate(group: ParamGroup) -> float:
    """The learning rate of a group as a number."""
    lr: float | Tensor = group["lr"]
    return lr.item() if isinstance(lr, Tensor) else lr


def number_dtype() -> DType:
    """The dtype of a state's numbers, PyTorch's: float64 where that is the default, or float32."""
    return float64 if get_default_dtype() is float64 else float32


def counter(value: float = 0.0) -> Tensor:
    """A number of a state, such as how many steps were taken: on the CPU wherever parameters are,
    as its value is read."""
    return tensor(value, dtype=number_dtype(), device="cpu")


def next_step(state: ParamState) -> float:
    """Counts a step in `state["step"]` and returns its number."""
    number: float = state["step"].item() + 1.0
    state["step"].add_(1)
    return number


def moments(param: Tensor, is_counted_there: bool = False) -> ParamState:
    """The state that Adam's kind starts with: step, running mean, running mean of squares.
    ``is_counted_there``: the step is on the parameter's device."""
    return {
        "step": zeros((), dtype=number_dtype(), device=param.device)
        if is_counted_there
        else counter(),
        "exp_avg": zeros_like(param),
        "exp_avg_sq": zeros_like(param),
    }


def decayed(param: Tensor, grad: Tensor, group: ParamGroup) -> Tensor:
    """The gradient with weight decay: added to it, or, decoupled, taken off the parameter."""
    decay = group["weight_decay"]
    if decay == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        param.mul_(1 - group["lr"] * decay)
        return grad
    return grad.add(param, alpha=decay)


def require_non_negative(name: str, value: float | Tensor) -> None:
    """Raises ValueError for a negative (or NaN) option."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {name}: {value}")


def refuse_differentiable(optimizer: str, differentiable: bool) -> None:
    """Raises ValueError where PyTorch would record the update for differentiation."""
    if differentiable:
        raise ValueError(f"{optimizer}: differentiable=True is not supported")
