"""State dicts of modules: names and values out, and in again after checking everything."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tinyt.autograd import no_grad
from tinyt.nn.hook_tables import NO_HOOKS
from tinyt.nn.hooks import Hooked
from tinyt.nn.parameter import Parameter
from tinyt.nn.tree import Tree
from tinyt.ops.creation.values import from_foreign
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from tinyt.nn.module import Module

EXTRA = "_extra_state"  # the key, after a module's prefix, of what get_extra_state returned


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class _IncompatibleKeys(_Keys):
    """What `load_state_dict(strict=False)` skipped: `missing_keys` and `unexpected_keys`."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Stateful(Tree, Hooked):
    """The part of `Module` that gives and takes state dicts."""

    _version: int = 1  # of the layout of its own state; kept in the metadata of state dicts

    def state_dict(
        self,
        *,
        destination: OrderedDict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> OrderedDict[str, Any]:
        """Maps dotted names to parameters, persistent buffers and extra state.

        The tensors share memory with the module; they are detached unless `keep_vars`. The
        result's attribute `_metadata` maps the path of every module to `{"version": its _version}`.
        """
        state: Any = destination
        if state is None:
            state = OrderedDict()
            state._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = local_metadata
        hooks = self._state_hooks or NO_HOOKS
        for hook in tuple(hooks.save_pre.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for after in tuple(hooks.save_post.values()):
            state = after.call(self, state, prefix, local_metadata)
        return cast("OrderedDict[str, Any]", state)

    def _save_to_state_dict(
        self, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Adds this module's own state, without its children's."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What belongs to the state besides tensors; a subclass that defines it defines
        `set_extra_state` too."""
        raise RuntimeError("Module.get_extra_state: a subclass must define it")

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` returned."""
        raise RuntimeError("Module.set_extra_state: a subclass must define it")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies `state_dict` into this module's parameters and buffers.

        Everything is checked before anything is written: on an error the module is unchanged.

        Args:
            state_dict: as `state_dict()` returns it; its tensors may be PyTorch's.
            strict: whether a missing or unexpected key is an error.
            assign: whether its tensors, with their dtypes, take the place of the module's
                instead of being copied; make the optimiser after that.

        Returns:
            The named tuple `(missing_keys, unexpected_keys)`.

        Raises:
            RuntimeError: listing every missing key, unexpected key and size mismatch.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        return StateLoader(cast("Module", self), state_dict, assign).run(strict)

    def _load_from_state_dict(
        self,
        state_dict: MutableMapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own state, without its children's, after the hooks before loading.

        `load_state_dict` calls it on every module; a subclass may override it to read an older
        layout, as `local_metadata.get("version")` tells it.

        Args:
            state_dict: the entries that begin with `prefix`, in a dict that may be changed.
            prefix: of this module's names.
            local_metadata: this module's entry of `_metadata`, and with `assign=True` the key
                `assign_to_params_buffers`.
            strict: whether missing and unexpected keys are looked for.
            missing_keys: gets the keys that are not in `state_dict`.
            unexpected_keys: gets those that this module has no place for.
            error_msgs: gets a message for every value that does not fit.
        """
        for hook in tuple((self._state_hooks or NO_HOOKS).load_pre.values()):
            hook.call(
                self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )  # fmt: skip
        own = dict(self._own_state())
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        writes: list[StateWrite] = []
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                value = _fitting(key, target, state_dict[key], error_msgs)
                if value is not None:
                    writes.append(StateWrite(self, name, key, target, value, assign))
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if extra in state_dict:
                writes.append(StateWrite(self, EXTRA, extra, None, state_dict[extra], assign))
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys.extend(self._unexpected(state_dict, prefix, own))
        if isinstance(state_dict, DeferredDict):
            state_dict.writes.extend(writes)
        else:
            for write in writes:
                write.run(error_msgs)

    def _unexpected(
        self, state_dict: Mapping[str, Any], prefix: str, own: Mapping[str, Any]
    ) -> Iterator[str]:
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA:
                name, dot, _ = key[len(prefix) :].partition(".")
                if name not in (self._modules if dot else own):
                    yield key

    def _replace(self, name: str, value: Tensor) -> None:
        """Puts another tensor in the place of a parameter or buffer."""
        param = self._parameters.get(name)
        if param is None:
            self._buffers[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value.requires_grad_(param.requires_grad)
        else:
            self._parameters[name] = Parameter(value, requires_grad=param.requires_grad)

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        for name, param in self._parameters.items():
            if param is not None:
                yield name, param
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer


class StateWrite(NamedTuple):
    """A value of a state dict on its way into a module; without a target it is extra state."""

    module: Stateful
    name: str
    key: str
    target: Tensor | None
    value: Any
    assign: bool

    def run(self, errors: list[str]) -> None:
        """Puts the value into the module; adds a message where that cannot be done."""
        if self.target is None:
            self.module.set_extra_state(self.value)
            return
        try:
            with no_grad():
                if self.assign:
                    self.module._replace(self.name, self.value)
                else:
                    if self.target.is_meta and not self.value.is_meta:
                        warnings.warn(
                            f"for {self.key}: a value is copied to a tensor on meta, which has no "
                            "elements, so nothing happens; assign=True puts the value in its place",
                            UserWarning,
                            stacklevel=2,
                        )
                    self.target.copy_(self.value)
        except Exception as error:
            errors.append(
                f'While copying the parameter named "{self.key}", whose dimensions in the model '
                f"are {tuple(self.target.shape)} and whose dimensions in the checkpoint are "
                f"{tuple(self.value.shape)}, an exception occurred : {error.args}."
            )


class DeferredDict(OrderedDict[str, Any]):
    """A part of a state dict whose values are written after all of it has been checked."""

    writes: list[StateWrite]


class StateLoader:
    """One call of `load_state_dict`: all of its values are written, or none.

    Where only this library's code runs, values are checked first and written then. A subclass's
    `_load_from_state_dict` and hooks after loading must find the values written: then the state
    from before is kept, and put back on an error.
    """

    def __init__(self, root: Module, given: Mapping[str, Any], assign: bool) -> None:
        self.root, self.given, self.assign = root, given, assign
        self.metadata: Mapping[str, Any] = getattr(given, "_metadata", None) or {}
        self.keys, self.errors = _IncompatibleKeys([], []), list[str]()
        self.defers = not any(map(_writes_at_once, root.modules()))
        self.writes: list[StateWrite] = []

    def run(self, strict: bool) -> _IncompatibleKeys:
        """Loads; RuntimeError lists everything that does not fit."""
        before = [] if self.defers else [_Snapshot(m) for m in self.root.modules()]
        try:
            self._load(self.root, self.given, "")
            self._raise_errors(strict)
            for write in self.writes:
                write.run(self.errors)
            self._raise_errors(strict)
        except BaseException:
            for state in before:
                state.put_back()
            raise
        return self.keys

    def _load(self, module: Module, given: Mapping[str, Any], prefix: str) -> None:
        local: OrderedDict[str, Any] = DeferredDict(given) if self.defers else OrderedDict(given)
        if isinstance(local, DeferredDict):
            local.writes = self.writes
        if self.metadata:
            local._metadata = self.metadata  # type: ignore[attr-defined]
        local_metadata = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local_metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(local, prefix, local_metadata, True, *self.keys, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                part = {key: value for key, value in local.items() if key.startswith(below)}
                self._load(child, part, below)
        for hook in tuple((module._state_hooks or NO_HOOKS).load_post.values()):
            if hook(module, self.keys) is not None:
                raise RuntimeError(
                    "load_state_dict post hook must return None; change the given "
                    "incompatible_keys in place"
                )

    def _raise_errors(self, strict: bool) -> None:
        kinds = (("Missing", self.keys.missing_keys), ("Unexpected", self.keys.unexpected_keys))
        messages = [
            f"{kind} key(s) in state_dict: {_quoted(keys)}. " for kind, keys in kinds if keys
        ]
        messages = (messages if strict else []) + self.errors
        if messages:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self.root).__name__}:\n\t"
                + "\n\t".join(messages)
            )


def _writes_at_once(module: Module) -> bool:
    """Whether code that is not this library's may look at the module while it is loaded."""
    method = type(module)._load_from_state_dict
    hooks = module._state_hooks or NO_HOOKS
    return bool(hooks.load_post) or not method.__module__.startswith("tinyt.nn.")


class _Snapshot:
    """The state of one module before loading."""

    def __init__(self, module: Module) -> None:
        self.module = module
        with no_grad():
            self.tensors = [
                (tensor, tensor.detach(), tensor.detach().clone())
                for _, tensor in module._own_state()
            ]
        self.parameters, self.buffers = dict(module._parameters), dict(module._buffers)

    def put_back(self) -> None:
        """Makes the module what it was, with its own tensors."""
        with no_grad():
            for tensor, memory, value in self.tensors:
                memory.copy_(value)
                if tensor.data_ptr() != memory.data_ptr() or tensor.shape != memory.shape:
                    tensor.data = memory
        self.module._parameters.clear()
        self.module._parameters.update(self.parameters)
        self.module._buffers.clear()
        self.module._buffers.update(self.buffers)


def _fitting(key: str, target: Tensor, value: Any, errors: list[str]) -> Tensor | None:
    """The value for a tensor of a module; None, and a message, where it does not fit."""
    value = from_foreign(value)
    if not isinstance(value, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected Tensor from checkpoint '
            f"but received {type(value)}"
        )
        return None
    # Old checkpoints keep a scalar as one element.
    scalar = target.dim() == 0 and tuple(value.shape) == (1,)
    found: Tensor = value.reshape(()) if scalar else value
    if tuple(found.shape) != tuple(target.shape):
        errors.append(
            f"size mismatch for {key}: copying a param with shape {found.shape} from "
            f"checkpoint, the shape in current model is {target.shape}."
        )
        return None
    return found


_MOST_CHARACTERS = 200
_MOST_NAMES = 1000


def _quoted(names: list[str]) -> str:
    quoted = [
        f'"{name}"'
        if len(str(name)) <= _MOST_CHARACTERS
        else f'"{str(name)[:_MOST_CHARACTERS]}..."'
        for name in names[:_MOST_NAMES]
    ]
    if len(names) > _MOST_NAMES:
        quoted.append(f"and {len(names) - _MOST_NAMES} more")
    return ", ".join(quoted)
