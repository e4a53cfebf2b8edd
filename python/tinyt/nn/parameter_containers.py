"""Containers of parameters: a list and a dictionary that register what they hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.tensor import Tensor

Self = TypeVar("Self", bound="ParameterList")


def _described(name: object, value: object, type_of: Callable[[Tensor], object]) -> str:
    """The line of `repr` for one value; a list shows dtypes, a dictionary old names of types."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    sizes = "x".join(str(n) for n in value.shape)
    return f"  ({name}): {kind} containing: [{type_of(value)} of size {sizes}]"


def _as_parameter(value: Any) -> Any:
    """Tensors become parameters; other values stay."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters, named "0", "1", ...; tensors put in become parameters.

    Other values can be held too; they are no part of the state.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _get_abs_string_index(self, index: int) -> str:
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range of {self._size} parameters")
        return str(index % self._size)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(self._size)))
        name = self._get_abs_string_index(index)
        return getattr(self, name)

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._get_abs_string_index(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __iadd__(self: Self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self: Self, value: Any) -> Self:
        """Adds a value at the end; returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self: Self, values: Iterable[Any]) -> Self:
        """Adds the values at the end; returns self."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(
                f"ParameterList.extend: expected an iterable, got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line a value."""
        return "\n".join(_described(i, value, lambda x: x.dtype) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A list cannot be called: RuntimeError."""
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module, MutableMapping[str, Any]):
    """A dictionary of parameters in insertion order; tensors put in become parameters.

    Other values can be held too; they are no part of the state.
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        super().__init__()
        # Every key in order; the parameters themselves are in the module's own table.
        self._values: dict[str, Any] = {}
        if parameters is not None:
            self.update(parameters)

    # A module is compared and hashed by identity, not as a mapping.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        return self._parameters[key] if value is None and key in self._parameters else value

    def __setitem__(self, key: str, value: Any) -> None:
        value = _as_parameter(value)
        if isinstance(value, Parameter):
            self.register_parameter(key, value)
            self._values[key] = None
        else:
            self._parameters.pop(key, None)
            self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self._parameters.pop(key, None)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._values))

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__.get("_values", {}).get(name)
        return super().__getattr__(name) if held is None else held

    def update(self, parameters: Any = (), /, **more: Any) -> None:
        """Adds or replaces values; those of a plain dict in the order of their keys, as in PyTorch.

        >>> import tinyt
        >>> list(tinyt.nn.ParameterDict({"b": tinyt.ones(1), "a": tinyt.ones(1)}))
        ['a', 'b']
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParameterDict.update should be called with an iterable of key/value pairs, but "
                f"got {type(parameters).__name__}"
            )
        if isinstance(parameters, Mapping) and not isinstance(
            parameters, (OrderedDict, ParameterDict)
        ):
            parameters = OrderedDict(sorted(parameters.items()))
        super().update(parameters, **more)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under `key`, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Takes out and returns the last (key, value) pair; KeyError if there is none."""
        if not self._values:
            raise KeyError("popitem: the ParameterDict is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """Another dictionary of the same parameters."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dictionary with one value under every key."""
        return ParameterDict(dict.fromkeys(keys, default))

    def __or__(self, other: Mapping[str, Any]) -> ParameterDict:
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: Mapping[str, Any]) -> ParameterDict:
        both = ParameterDict(other)
        both.update(self)
        return both

    def __ior__(self, other: Mapping[str, Any]) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """One line a value."""
        return "\n".join(_described(key, value, lambda x: x.type()) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A dictionary cannot be called: RuntimeError."""
        raise RuntimeError("ParameterDict should not be called.")
