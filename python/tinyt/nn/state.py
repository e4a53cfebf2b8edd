"""State dicts of modules: names and values out, and in again after checking everything."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tinyt.autograd import no_grad
from tinyt.nn.hooks import NO_HOOKS, Hooked
from tinyt.nn.parameter import Parameter
from tinyt.nn.tree import Tree
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from tinyt.nn.module import Module

EXTRA = "_extra_state"  # the key, after a module's prefix, of what get_extra_state returned


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_Keys):
    """What `load_state_dict(strict=False)` skipped: `missing_keys` and `unexpected_keys`."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Stateful(Tree, Hooked):
    """The part of `Module` that gives and takes state dicts."""

    def state_dict(
        self,
        *,
        destination: OrderedDict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> OrderedDict[str, Any]:
        """Maps dotted names to parameters, persistent buffers and extra state.

        The tensors share memory with the module; they are detached unless `keep_vars`.
        """
        state: OrderedDict[str, Any] = OrderedDict() if destination is None else destination
        hooks = self._state_hooks or NO_HOOKS
        for hook in tuple(hooks.save_pre):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(hooks.save_post):
            changed = hook(self, state, prefix, {})
            if changed is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return state

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
    ) -> IncompatibleKeys:
        """Copies `state_dict` into this module's parameters and buffers.

        Everything is checked before anything is written: on an error the module is unchanged.

        Args:
            state_dict: as `state_dict()` returns it.
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
        given: OrderedDict[str, Any] = OrderedDict(state_dict)
        keys, errors = IncompatibleKeys([], []), list[str]()
        for prefix, module in self._with_prefixes(""):
            for hook in tuple((module._state_hooks or NO_HOOKS).load_pre):
                hook(module, given, prefix, {}, strict, *keys, errors)
        own = self.state_dict(keep_vars=True)
        places = {
            prefix + name: (module, name)
            for prefix, module in self._with_prefixes("")
            for name, _ in module._own_state()
        }

        def store(name: str, target: Tensor, value: Tensor) -> None:
            if assign:
                places[name][0]._replace(places[name][1], value)
            else:
                target.copy_(value)

        with no_grad():
            load_into(type(self).__name__, own, given, strict, keys, errors, store)
        for prefix, module in self._with_prefixes(""):
            if prefix + EXTRA in given and prefix + EXTRA in own:
                module.set_extra_state(given[prefix + EXTRA])
        for _, module in reversed(list(self._with_prefixes(""))):
            for hook in tuple((module._state_hooks or NO_HOOKS).load_post):
                if hook(module, keys) is not None:
                    raise RuntimeError(
                        "load_state_dict post hook must return None; change the given "
                        "incompatible_keys in place"
                    )
        return keys

    def _replace(self, name: str, value: Tensor) -> None:
        """Puts another tensor in the place of a parameter or buffer."""
        param = self._parameters.get(name)
        if param is None:
            self._buffers[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value
        else:
            self._parameters[name] = Parameter(value, requires_grad=param.requires_grad)

    def _with_prefixes(self, prefix: str) -> Iterator[tuple[str, Module]]:
        """Every module with the prefix of its names in a state dict; shared ones again."""
        yield prefix, cast("Module", self)
        for name, module in self._modules.items():
            if module is not None:
                yield from module._with_prefixes(f"{prefix}{name}.")

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        for name, param in self._parameters.items():
            if param is not None:
                yield name, param
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer


def load_into(
    owner: str,
    own: Mapping[str, Any],
    given: Mapping[str, Any],
    strict: bool,
    keys: IncompatibleKeys,
    errors: list[str],
    store: Callable[[str, Tensor, Tensor], None],
) -> None:
    """Passes the tensors of `given` with those of `own` of the same name to `store`.

    Nothing is stored unless every check passes.

    Args:
        owner: class name for the message.
        own: the tensors to fill; other values are extra state, which is not looked at.
        given: the tensors to read.
        strict: whether missing and unexpected names are errors.
        keys: the names that hooks found missing and unexpected; those found here are added.
        errors: what hooks had to complain about.
        store: called with the name, the tensor to fill and the one to read.
    """
    keys.missing_keys.extend(name for name in own if name not in given)
    keys.unexpected_keys.extend(name for name in given if name not in own)
    messages = []
    if strict and keys.missing_keys:
        messages.append(f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
    if strict and keys.unexpected_keys:
        messages.append(f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
    messages.extend(errors)
    pairs = [
        (name, target, given[name])
        for name, target in own.items()
        if name in given and isinstance(target, Tensor)
    ]
    for name, target, value in pairs:
        if not isinstance(value, Tensor):
            messages.append(
                f'While copying the parameter named "{name}", expected Tensor from checkpoint '
                f"but received {type(value)}"
            )
        elif tuple(value.shape) != tuple(target.shape):
            messages.append(
                f"size mismatch for {name}: copying a param with shape {tuple(value.shape)} from "
                f"checkpoint, the shape in current model is {tuple(target.shape)}."
            )
    if messages:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {owner}:\n\t" + "\n\t".join(messages)
        )
    for name, target, value in pairs:
        store(name, target, value)


# Names come from files: a message holds so many characters of one, and so many of them.
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
