"""Operations of one's own: ``custom_op``, as ``torch.library`` has it.

An operation is a function of tensors that the library does not look into. It works eagerly, with
autograd where a formula is registered, and compiled, where it is one step of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, TypeVar

from tinyt import _core
from tinyt._autograd import GradMode, is_grad_enabled
from tinyt._capture import SymFloat
from tinyt._core import CaptureError
from tinyt.autograd import Function
from tinyt.dtypes import float32
from tinyt.nesting import deeper
from tinyt.tensor import Tensor, prim

__all__ = [
    "CustomOpDef",
    "EffectType",
    "custom_op",
    "impl_abstract",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_NUMBERS = (bool, int, float)


def _is_c(function: Any) -> bool:
    """Whether it is an address: a number, or a function of ctypes."""
    return isinstance(function, int) or type(type(function)).__name__ == "PyCFuncPtrType"


def _address(function: Any) -> int:
    if isinstance(function, int):
        return function
    import ctypes

    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _tensors_in(values: Iterable[Any], depth: int = 0) -> list[Tensor]:
    """The tensors among arguments or results, also in lists and tuples of them."""
    found: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            found += _tensors_in(x, deeper("custom_op", depth))
    return found


def _with_tensors(values: Any, tensors: Any) -> Any:
    """Arguments with other tensors in them, from an iterator."""
    if isinstance(values, Tensor):
        return next(tensors)
    if isinstance(values, (list, tuple)):
        return type(values)([_with_tensors(x, tensors) for x in values])
    return values


def _plain(value: Any) -> Any:
    """A number that a recording would read anew at every run is held: the program stands for it."""
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(x) for x in value])
    return float(value) if isinstance(value, SymFloat) else value


_defined: dict[str, CustomOpDef] = {}  # by "namespace::name", the last one of each


class EffectType(Enum):
    """What an operation does beside giving results and writing to the arguments that it names."""

    ORDERED = "Ordered"


class CustomOpDef:
    """An operation made by :func:`custom_op`; called as the function is."""

    def __init__(self, name: str, fn: Any, mutates_args: str | Iterable[str], schema: Any) -> None:
        self._name = name
        self._function = fn
        self.__name__ = name.partition("::")[2]
        self.__doc__ = getattr(fn, "__doc__", None)
        self._parameters = schema
        self._mutated = _mutated_of(name, schema, mutates_args)
        self._fake: Callable[..., Any] | None = None
        self._kernel: Any = fn
        self._autograd: type[Function] | None = None
        self._effect: EffectType | None = EffectType.ORDERED
        self._without = _no_formula(self)
        _defined[name] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._name})>"

    # ---- registration

    def register_fake(self, fn: _F | None = None, /) -> Any:
        """Registers what makes results of the right shape and dtype (as with ``tinyt.empty``) from
        the arguments, without looking at values. Needed for compiled functions, and for functions
        of C. Also a decorator."""

        def register(fake: _F) -> _F:
            self._fake = fake
            return fake

        return register if fn is None else register(fn)

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Any = None, /) -> Any:
        """Registers another implementation for "cpu": a Python function, or one of C (of ctypes, or
        its address as an int). Also a decorator. ValueError for other devices."""
        _check_devices(self._name, device_types)

        def register(kernel: Any) -> Any:
            self._kernel = kernel
            return kernel

        return register if fn is None else register(fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers the gradient formula: ``backward(ctx, *grads)`` returns a gradient or None for
        each argument; ``setup_context(ctx, inputs, output)`` saves what it needs. RuntimeError for
        an operation that mutates its arguments."""
        if self._mutated:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._name}: it "
                f"mutates {sorted(self._mutated)}"
            )
        self._autograd = _formula(self, backward, setup_context)

    def register_effect(self, effect: EffectType | None) -> None:
        """Says whether it does anything beside giving results and writing to ``mutates_args``.

        ``EffectType.ORDERED``, which it is until told otherwise: compiled functions call it as
        often as the function does, in the order of all such calls. None: they may leave out a call
        of which nobody uses the results. (In PyTorch, None is where one starts from.)
        """
        if effect is not None and not isinstance(effect, EffectType):
            raise TypeError(
                f"register_effect: expected an EffectType or None, got {type(effect).__name__}"
            )
        self._effect = effect

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results; TypeError for wrong arguments."""
        values = self._bound(args, kwargs)
        wants = is_grad_enabled() and any(x.requires_grad for x in _tensors_in(values))
        if not wants:
            return self._run(values)
        if self._mutated:
            for name, value in zip(self._parameters, values, strict=True):
                if name in self._mutated and any(x.requires_grad for x in _tensors_in([value])):
                    raise RuntimeError(
                        f"{self._name}: the argument {name!r} requires grad and is mutated; write "
                        "into a detached tensor"
                    )
        function = self._without if self._autograd is None else self._autograd
        tensors = _tensors_in(values)
        result: Any = function.apply(values, *tensors)
        return result

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters."""
        names = list(self._parameters)
        if len(args) > len(names):
            raise TypeError(f"{self._name}: takes {len(names)} arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._parameters or name in given:
                raise TypeError(f"{self._name}: unexpected or repeated argument {name!r}")
            given[name] = value
        values = []
        for name, default in self._parameters.items():
            if name not in given and default is _MISSING:
                raise TypeError(f"{self._name}: missing value for argument {name!r}")
            values.append(given.get(name, default))
        return values

    def _run(self, values: list[Any]) -> Any:
        """Without tape; at once, or recorded."""
        own = [x.detach() if x.requires_grad else x for x in _tensors_in(values)]
        values = _with_tensors(_plain(values), iter(own))
        with GradMode(False):
            if _core.is_recording() or _is_c(self._kernel):
                return self._step(values)
            before = [x._writes for x in _tensors_in(values)]
            result = self._kernel(*values)
            self._check(values, before, result)
            for x in self._written(values):
                _core.run_host(self._name, _nothing, 0, [x], 1, [], False)  # counts as a write
            return result

    def _written(self, values: list[Any]) -> list[Tensor]:
        pairs = zip(self._parameters, values, strict=True)
        return _tensors_in(value for name, value in pairs if name in self._mutated)

    def _step(self, values: list[Any]) -> Any:
        """One step of a program, or a function of C: it writes into tensors of the right form."""
        if self._fake is None:
            raise CaptureError(
                f"{self._name}: the form of its results is not known; register_fake() says it"
            )
        result = self._fake(*values)
        made = [prim.copy(x) if x._base is not None else x for x in _tensors_in([result])]
        changed = self._written(values)
        others = [x for x in _tensors_in(values) if not any(x is y for y in changed)]
        written = len(made) + len(changed)
        kernel, ordered = self._kernel, self._effect is not None
        tensors = [*made, *changed, *others]
        if written == 0 and (_is_c(kernel) or not ordered):
            raise CaptureError(f"{self._name}: it neither returns nor mutates a tensor")
        if _is_c(kernel):
            numbers = [float(x) for x in values if isinstance(x, _NUMBERS)]
            _core.run_host(self._name, None, _address(kernel), tensors, written, numbers, ordered)
        else:
            call: Any = _HostCall(self, values, len(made), len(changed))
            if written == 0:  # a step writes something: a tensor without elements
                tensors.insert(0, prim.fill((0,), float32, 0.0, 0))
                call, written = _WithoutFirst(call), 1
            _core.run_host(self._name, call, 0, tensors, written, [], ordered)
        return _with_tensors(result, iter(made))

    def _check(self, values: list[Any], before: list[int], result: Any) -> None:
        """RuntimeError where a kernel did what it must not."""
        inputs = _tensors_in(values)
        memories = {x._storage_id for x in inputs}
        for i, x in enumerate(_tensors_in([result])):
            if x._storage_id in memories:
                raise RuntimeError(
                    f"{self._name}: the output of this custom operator ({i}) must not also be an "
                    "input to this custom operator and may not alias any inputs to this custom "
                    "operator or other returns; return a clone"
                )
            memories.add(x._storage_id)
        changed = self._written(values)
        for x, version in zip(inputs, before, strict=True):
            if x._writes != version and not any(x is y for y in changed):
                raise RuntimeError(
                    f"{self._name}: a tensor of shape {tuple(x.shape)} was written to, which is "
                    "not in mutates_args"
                )


class _HostCall:
    """A kernel of Python as a step: gets the memory of the program, gives the kernel copies."""

    def __init__(self, op: CustomOpDef, values: list[Any], made: int, changed: int) -> None:
        self._op, self._made, self._changed = op, made, changed
        mutated = op._written(values)
        tensors = _tensors_in(values)
        others = [x for x in tensors if not any(x is y for y in mutated)]
        # Where each tensor among the arguments lies in the list; no recorded tensor is kept.
        order = [*mutated, *others]
        self._places = [next(i for i, y in enumerate(order) if x is y) for x in tensors]
        self._values = _with_tensors(values, iter([_HOLE] * len(tensors)))
        self._kernel = op._kernel

    def __call__(self, tensors: list[Tensor]) -> None:
        made, rest = tensors[: self._made], [prim.copy(x) for x in tensors[self._made :]]
        holes = iter([rest[i] for i in self._places])
        args = _filled(self._values, holes)
        with GradMode(False):
            found = _tensors_in([self._kernel(*args)])
        if len(found) != len(made):
            raise RuntimeError(
                f"{self._op._name}: returned {len(found)} tensors, its fake {len(made)}"
            )
        for x, y in zip(made, found, strict=True):
            if x.shape != y.shape or x.dtype is not y.dtype or x.device != y.device:
                raise RuntimeError(
                    f"{self._op._name}: returned {y.dtype.name} {tuple(y.shape)} on {y.device}, "
                    f"its fake {x.dtype.name} {tuple(x.shape)} on {x.device}"
                )
            x._assign(y)
        for x, y in zip(tensors[self._made : self._made + self._changed], rest, strict=False):
            x._assign(y)


class _WithoutFirst:
    """A call that leaves out the first tensor."""

    def __init__(self, call: _HostCall) -> None:
        self._call = call

    def __call__(self, tensors: list[Tensor]) -> None:
        self._call(tensors[1:])


class _Hole:
    """Where a tensor goes."""


_HOLE = _Hole()
_MISSING: Any = object()


def _filled(values: Any, holes: Any) -> Any:
    if values is _HOLE:
        return next(holes)
    if isinstance(values, (list, tuple)):
        return type(values)([_filled(x, holes) for x in values])
    return values


def _nothing(tensors: list[Tensor]) -> None:
    """Writes nothing."""


# ---- autograd


def _formula(
    op: CustomOpDef, backward: Callable[..., Any], setup: Callable[..., Any] | None
) -> type[Function]:
    """A function of (list of arguments, *tensors among them): the tape knows the tensors."""

    def forward(values: list[Any], *tensors: Tensor) -> Any:
        return op._run(_with_tensors(values, iter(tensors)))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        values, needed = inputs[0], ctx.needs_input_grad
        ctx.form = _with_tensors(values, iter([_HOLE] * (len(inputs) - 1)))
        needs = iter(needed[1:])
        ctx.op_needs = ctx.needs_input_grad = tuple(_needs(x, needs) for x in values)
        if setup is not None:
            setup(ctx, tuple(values), output)
        ctx.needs_input_grad = needed

    def of_tensors(ctx: Any, *grads: Any) -> Any:
        ctx.needs_input_grad = ctx.op_needs
        found = backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(ctx.form):
            raise RuntimeError(
                f"{op._name}: backward must return a gradient or None for each of the "
                f"{len(ctx.form)} arguments, got {len(found)}"
            )
        return None, *_flat_grads(ctx.form, found)

    functions: dict[str, Callable[..., Any]] = {
        "forward": forward,
        "setup_context": setup_context,
        "backward": of_tensors,
    }
    return type(op.__name__, (Function,), {k: staticmethod(f) for k, f in functions.items()})


def _needs(value: Any, needs: Any) -> Any:
    if isinstance(value, Tensor):
        return next(needs)
    if isinstance(value, (list, tuple)):
        found = [_needs(x, needs) for x in value]
        return found if any(isinstance(x, Tensor) for x in value) else False
    return False


def _flat_grads(form: Any, grads: Any) -> list[Any]:
    """The gradients of the tensors, in their order."""
    found: list[Any] = []
    for i, x in enumerate(form):
        grad = None if grads is None else grads[i]
        if x is _HOLE:
            found.append(grad)
        elif isinstance(x, (list, tuple)):
            found += _flat_grads(x, grad)
    return found


def _no_formula(op: CustomOpDef) -> type[Function]:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"Trying to backward through {op._name} but no autograd formula was registered. "
            "Please use register_autograd to add one."
        )

    return _formula(op, backward, None)


# ---- definition


def _mutated_of(name: str, schema: dict[str, Any], mutates: str | Iterable[str]) -> frozenset[str]:
    if isinstance(mutates, str):
        if mutates != "unknown":
            raise ValueError(
                f"{name}: mutates_args must either be a sequence of the names of the arguments or "
                f'"unknown", got {mutates!r}'
            )
        raise NotImplementedError(f'{name}: mutates_args="unknown" is not known to a program')
    found = frozenset(mutates)
    for argument in sorted(found - schema.keys()):
        raise ValueError(
            f"{name}: mutates_args has {argument!r}, which is no argument: {list(schema)}"
        )
    return found


def _check_devices(name: str, device_types: str | Sequence[str] | None) -> None:
    kinds = [device_types] if isinstance(device_types, str) else device_types or ()
    for kind in kinds:
        if kind != "cpu":
            raise ValueError(f"{name}: device_types must be 'cpu', got {kind!r}")


def _parameters_of(name: str, fn: Any, schema: str | None) -> dict[str, Any]:
    """The names of the arguments and their defaults."""
    if schema is not None:
        return _parse(name, schema)
    if _is_c(fn):
        raise ValueError(
            f"{name}: a function of C needs a schema, as '(Tensor x, float a) -> Tensor'"
        )
    import inspect

    signature = inspect.signature(fn)
    found: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(
                "infer_schema(func): We do not support positional-only, varargs, or varkwargs "
                f"arguments. Got func with signature {signature})"
            )
        if parameter.annotation is parameter.empty:
            raise ValueError(
                f"infer_schema(func): Parameter {parameter.name} must have a type annotation. Got "
                f"func with signature {signature})"
            )
        missing = parameter.default is parameter.empty
        found[parameter.name] = _MISSING if missing else parameter.default
    if signature.return_annotation is signature.empty:
        raise ValueError(
            "infer_schema(func): No return type annotation was provided. Please add one. Got func "
            f"with signature {signature})"
        )
    return found


def _parse(name: str, schema: str) -> dict[str, Any]:
    """The arguments of a schema: "(Tensor x, float alpha=1.0) -> Tensor"."""
    import ast

    inside, arrow, _ = schema.strip().partition("->")
    inside = inside.strip()
    if not arrow or not inside.startswith("(") or not inside.endswith(")"):
        raise ValueError(f"{name}: expected a schema as '(Tensor x) -> Tensor', got {schema!r}")
    found: dict[str, Any] = {}
    for part in filter(None, (x.strip() for x in inside[1:-1].split(","))):
        if part == "*":
            continue
        declared, equals, default = (x.strip() for x in part.partition("="))
        kind, _, argument = declared.rpartition(" ")
        if not kind:
            raise ValueError(f"{name}: the argument {part!r} of the schema has no type")
        found[argument] = ast.literal_eval(default) if equals else _MISSING
    return found


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
) -> Any:
    """Makes an operation of a function, which may do anything with its tensors: NumPy, ctypes.

    ``name`` is "namespace::name". ``mutates_args`` are the names of the arguments that it writes
    to. Parameters and the result need annotations, unless a ``schema`` is given: a string as
    ``"(Tensor x, float alpha) -> Tensor"``. The results must be new tensors. Without ``fn`` a
    decorator is returned. The result is a :class:`CustomOpDef`, with ``register_fake``,
    ``register_autograd`` and ``register_kernel``.

    ``fn`` may be a function of C: one of ctypes, or an address. It is called as
    ``int f(const struct {void *data; int64_t dtype, rank; const int64_t *shape;} *arrays,
    int64_t count, const double *numbers, int64_t number_count)``, without Python's lock. The arrays
    are the results (of the form that ``register_fake`` gives), the mutated arguments, then the
    other tensors, each in row-major order; ``dtype`` is ``tinyt.dtype.number``. The numbers are the
    int, float and bool arguments. Anything but 0 is a RuntimeError.

    ValueError for a wrong name, argument name, annotation, device or schema.
    """
    namespace, separator, own = name.partition("::")
    if not (separator and namespace and own) or "::" in own or "." in own:
        raise ValueError(
            f"custom_op: the name must be as 'namespace::name', without further parts, got {name!r}"
        )
    _check_devices(name, device_types)

    def make(function: Any) -> CustomOpDef:
        parameters = _parameters_of(name, function, schema)
        return CustomOpDef(name, function, mutates_args, parameters)

    return make if fn is None else make(fn)


def _found(function: str, op: str | CustomOpDef) -> CustomOpDef:
    """The operation, or the one of that name; RuntimeError without one."""
    if isinstance(op, CustomOpDef):
        return op
    if op not in _defined:
        raise RuntimeError(
            f"{function}: there is no operation {op!r}; make it with library.custom_op first"
        )
    return _defined[op]


def register_fake(
    op: str | CustomOpDef,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """:meth:`CustomOpDef.register_fake` of an operation, or of the one of that name.

    >>> import tinyt
    >>> @tinyt.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: tinyt.Tensor) -> tinyt.Tensor:
    ...     return x + x
    >>> @tinyt.library.register_fake("docs::twice")
    ... def _(x):
    ...     return tinyt.empty_like(x)
    """
    return _found("register_fake", op).register_fake(func)


def impl_abstract(
    qualname: str, func: Callable[..., Any] | None = None, *, lib: None = None
) -> Any:
    """The older name of :func:`register_fake`."""
    return _found("impl_abstract", qualname).register_fake(func)


def register_kernel(
    op: str | CustomOpDef,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: None = None,
) -> Any:
    """:meth:`CustomOpDef.register_kernel` of an operation, or of the one of that name."""
    return _found("register_kernel", op).register_kernel(device_types, func)


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: None = None,
) -> None:
    """:meth:`CustomOpDef.register_autograd` of an operation, or of the one of that name."""
    _found("register_autograd", op).register_autograd(backward, setup_context=setup_context)


def _register_effectful_op(
    op: str | CustomOpDef, effect: EffectType | None, *, lib: None = None
) -> None:
    """:meth:`CustomOpDef.register_effect` of an operation, or of the one of that name."""
    _found("register_effect", op).register_effect(effect)
