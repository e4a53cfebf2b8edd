"""Tables of hooks: what is kept of one hook, and PyTorch's names of the tables of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple


class Hook(NamedTuple):
    """One registered function, and how it is called."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False


class LoadHook(NamedTuple):
    """A function before loading; the private registration calls it without the module."""

    function: Callable[..., Any]
    with_module: bool = False

    def call(self, module: Any, *args: Any) -> None:
        """Calls it with the arguments of `_load_from_state_dict`."""
        self.function(*((module, *args) if self.with_module else args))


class SaveHook(NamedTuple):
    """A function after saving; registered privately, it may return another state dict."""

    function: Callable[..., Any]
    may_replace: bool = True

    def call(self, module: Any, state: Any, prefix: str, local_metadata: dict[str, Any]) -> Any:
        """The state dict after the hook."""
        changed = self.function(module, state, prefix, local_metadata)
        if changed is None:
            return state
        if not self.may_replace:
            raise RuntimeError("state_dict post-hook must return None")
        return changed


class StateHooks:
    """The hooks of one module around `state_dict` and `load_state_dict`."""

    def __init__(self) -> None:
        self.save_pre: dict[int, Callable[..., Any]] = {}
        self.save_post: dict[int, SaveHook] = {}
        self.load_pre: dict[int, LoadHook] = {}
        self.load_post: dict[int, Callable[..., Any]] = {}


NO_HOOKS = StateHooks()


class HookFunctions(MutableMapping[int, Callable[..., Any]]):
    """The functions in one table of a module, by the ids of their handles.

    Looking at the table of a module without hooks gives it none, so that its calls stay fast.
    """

    def __init__(self, module: Any, table: HookTable) -> None:
        self._module = module
        self._table = table

    @property
    def _hooks(self) -> dict[int, Any]:
        owner = self._module.__dict__.get(f"_{self._table.kind}_hooks")
        return {} if owner is None else getattr(owner, self._table.name)

    def __getitem__(self, key: int) -> Callable[..., Any]:
        hook = self._hooks[key]
        function: Callable[..., Any] = hook if self._table.make is None else hook.function
        return function

    def __setitem__(self, key: int, function: Callable[..., Any]) -> None:
        owner = getattr(self._module, f"_own_{self._table.kind}_hooks")()
        make = self._table.make
        getattr(owner, self._table.name)[key] = function if make is None else make(function)

    def __delitem__(self, key: int) -> None:
        del self._hooks[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)})"


class HookTable:
    """A descriptor: one table of a module's hooks as a mapping, which may be set, too.

    Args:
        kind: "call" or "state".
        name: of the table in `CallHooks` or `StateHooks`.
        make: what it holds for a function; None where the function itself.
    """

    def __init__(self, kind: str, name: str, make: Callable[..., Any] | None) -> None:
        self.kind, self.name, self.make = kind, name, make

    def __get__(self, module: Any, owner: type) -> Any:
        return self if module is None else HookFunctions(module, self)

    def __set__(self, module: Any, functions: Mapping[int, Callable[..., Any]]) -> None:
        given, held = dict(functions), HookFunctions(module, self)
        held.clear()
        held.update(given)


class HookFlags:
    """A descriptor: which hooks of a table of calls were registered with a flag."""

    def __init__(self, name: str, flag: str) -> None:
        self.name, self.flag = name, flag

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        owned = module.__dict__.get("_call_hooks")
        hooks = {} if owned is None else getattr(owned, self.name)
        return {key: True for key, hook in hooks.items() if getattr(hook, self.flag)}

    def __set__(self, module: Any, flagged: Mapping[int, bool]) -> None:
        owned = module.__dict__.get("_call_hooks")
        hooks = {} if owned is None else getattr(owned, self.name)
        for key, hook in hooks.items():
            hooks[key] = hook._replace(**{self.flag: key in flagged})
