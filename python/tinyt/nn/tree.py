"""`Tree`: the tables of a module's members, and walking them.

Order of iteration and error texts are those of PyTorch's `torch.nn.Module`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from tinyt._tensor import shown_as
from tinyt.nn.parameter import Parameter
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from tinyt.nn.module import Module


# Hooks of all modules for new members, by what they are; `global_hooks.py` registers them.
REGISTRATION_HOOKS: dict[str, dict[int, Callable[..., Any]]] = {
    "parameter": {},
    "buffer": {},
    "module": {},
}


def registered(kind: str, module: Any, name: str, member: Any) -> Any:
    """A new member of a module, as the hooks for such leave it."""
    for hook in tuple(REGISTRATION_HOOKS[kind].values()):
        changed = hook(module, name, member)
        if changed is not None:
            member = changed
    return member


def _parameters_of(module: Any) -> Iterable[tuple[str, Any]]:
    items: Iterable[tuple[str, Any]] = module._parameters.items()
    return items


def _buffers_of(module: Any) -> Iterable[tuple[str, Any]]:
    items: Iterable[tuple[str, Any]] = module._buffers.items()
    return items


class Tree:
    """The part of `Module` that finds parameters, buffers and modules by name and in order."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yields (dotted name, module) for this module and all below it, parents first."""
        memo = set() if memo is None else memo
        root = cast("Module", self)
        if root in memo:
            return
        if remove_duplicate:
            memo.add(root)
        yield prefix, root
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yields this module and all below it, each once unless told otherwise."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields (name, module) of the direct children, each module once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yields the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields (dotted name, parameter); a shared parameter once unless told otherwise."""
        return self._named_members(_parameters_of, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields every parameter once: what an optimiser takes."""
        if recurse and type(self).named_parameters is Tree.named_parameters:
            yield from self._all_parameters()
        else:
            for _, param in self.named_parameters(recurse=recurse):
                yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields (dotted name, buffer)."""
        return self._named_members(_buffers_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields every buffer once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _all_parameters(self) -> Iterator[Parameter]:
        """What :meth:`named_parameters` yields, without the names."""
        seen: set[int] = set()
        waiting: list[Tree] = [self]
        while waiting:
            module = waiting.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            for param in module._parameters.values():
                if param is not None and id(param) not in seen:
                    seen.add(id(param))
                    yield param
            waiting += [child for child in reversed(module._modules.values()) if child is not None]

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Yields (dotted name, member) for what `get_members_fn(module)` gives of each module."""
        seen: set[int] = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in owners:
            for name, member in get_members_fn(module):
                if member is None or (remove_duplicate and id(member) in seen):
                    continue
                seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; AttributeError if there is none."""
        module = cast("Module", self)
        for name in target.split(".") if target else ():
            found = module._modules.get(name)
            if found is None:
                raise AttributeError(f"{type(module).__name__} has no module '{name}'")
            module = found
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at a dotted path; with `strict` there must be one already.

        Raises ValueError for an empty path and AttributeError where its parent is missing.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and name not in owner._modules:
            raise AttributeError(f"{type(owner).__name__} has no module '{name}'")
        if not isinstance(module, Tree):
            raise AttributeError(f"`{name}` is not an nn.Module: {type_name(module)}")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path; AttributeError if there is none."""
        param: Parameter = self._get_member("_parameters", "parameter", target)
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path; AttributeError if there is none."""
        buffer: Tensor = self._get_member("_buffers", "buffer", target)
        return buffer

    def _get_member(self, table: str, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = getattr(owner, table).get(name)
        if found is None:
            raise AttributeError(f"{type(owner).__name__} has no {kind} '{name}'")
        return found


def type_name(value: Any) -> str:
    """The full name of the type of `value`, as PyTorch's messages print it."""
    if isinstance(value, Tensor):
        return str(value.type())
    kind = type(value)
    package, dot, rest = kind.__module__.partition(".")
    module = (shown_as() if package == "tinyt" else package) + dot + rest
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
