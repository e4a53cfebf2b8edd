"""Modules that hold other modules."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, overload

from tinyt.nn.module import Module


class _ModuleSequence(Module):
    """Children named "0", "1", ...: what `Sequential` and `ModuleList` share."""

    def _list(self) -> list[Any]:
        """The modules; a place may hold None."""
        return list(self._modules.values())

    def _position(self, index: int) -> int:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return position % len(self)

    def _replace_all(self, modules: Iterable[Module]) -> None:
        self.__dict__["_modules"] = {str(i): module for i, module in enumerate(modules)}

    def _get_abs_string_index(self, idx: int) -> str:
        """The name of the module at a position."""
        return str(self._position(idx))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> _ModuleSequence: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return self._from_items(list(self._modules.items())[index])
        return cast(Module, self._list()[self._position(index)])

    def _from_items(self, items: list[tuple[str, Any]]) -> _ModuleSequence:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[self._position(index)], module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._list()
        if isinstance(index, slice):
            del modules[index]
        else:
            del modules[self._position(index)]
        self._replace_all(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._list())

    def append(self, module: Module) -> Any:
        """Adds a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Adds the modules at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Puts a module before position `index`; returns self."""
        if not (module is None or isinstance(module, Module)):
            raise AssertionError(f"module should be of type: {Module}")
        modules = self._list()
        modules.insert(index, module)
        self._replace_all(modules)
        return self

    def pop(self, index: int = -1) -> Module:
        """Takes out and returns the module at `index`."""
        module = self[index]
        del self[index]
        return module


class Container(Module):
    """Modules under the names of the arguments, as in PyTorch's first versions; it warns."""

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of it's functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(_ModuleSequence):
    """Calls its modules one after another, each on the output of the one before.

    Takes the modules as arguments, or one `OrderedDict` that names them.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _from_items(self, items: list[tuple[str, Any]]) -> Sequential:
        return type(self)(OrderedDict(items))

    def insert(self, index: int, module: Module) -> Any:
        """Puts a module before position `index`; returns self. IndexError where it is outside."""
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        return super().insert(index, module)

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_checked(other))

    def __iadd__(self, other: Sequential) -> Any:
        return self.extend(_checked(other))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*self._list() * _times(self, other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Any:
        return self.extend(self._list() * (_times(self, other) - 1))

    def forward(self, input: Any) -> Any:
        """The output of the last module."""
        for module in self:
            input = module(input)
        return input


def _checked(other: object) -> Sequential:
    """What is added to a `Sequential`, which must be one."""
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


def _times(modules: Sequential, factor: object) -> int:
    """How often modules are to be there."""
    if not isinstance(factor, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(modules)} and {type(factor)}")
    if factor <= 0:
        raise ValueError(f"Non-positive multiplication factor {factor} for {type(modules)}")
    return factor


class ModuleList(_ModuleSequence):
    """A list of modules that registers them; it has no `forward`."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        self.extend(other)
        return self

    def __repr__(self) -> str:
        """Equal neighbours are shown once, with their count."""
        lines, start = [], 0
        for text, equal in itertools.groupby(map(repr, self)):
            count = len(list(equal))
            shown = text.replace("\n", "\n  ")
            last = start + count - 1
            lines.append(
                f"({start}): {shown}" if count == 1 else f"({start}-{last}): {count} x {shown}"
            )
            start += count
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def _from_items(self, items: list[tuple[str, Any]]) -> ModuleList:
        return type(self)(module for _, module in items)


class ModuleDict(Module):
    """A dictionary of modules that registers them, in insertion order; it has no `forward`."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return cast(Module, self._modules[key])  # a place may hold None

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return [module for _, module in self.items()]

    def items(self) -> Iterable[tuple[str, Module]]:
        """The (name, module) pairs."""
        return [(name, self[name]) for name in self]

    def update(
        self, modules: Mapping[str, Module] | ModuleDict | Iterable[tuple[str, Module]]
    ) -> None:
        """Adds or replaces modules."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        pairs: Any = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for i, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{i} should be Iterable; is "
                    + type(pair).__name__
                )
            entry = tuple(pair)
            if len(entry) != 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{i} has length {len(entry)}; 2 is "
                    "required"
                )
            self[entry[0]] = entry[1]

    def pop(self, key: str) -> Module:
        """Takes out and returns the module under `key`."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Takes out every module."""
        self._modules.clear()
