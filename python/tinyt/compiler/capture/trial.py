"""A call tried out: what it gives and writes, after which everything is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt import _core
from tinyt._capture import describe
from tinyt.dtypes import bfloat16, float32
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    import numpy as np

    from tinyt.compiler.capture.capture import Capture


class Difference(NamedTuple):
    """Where two values differ first, in row-major order (None: in more than elements), and how."""

    position: tuple[int, ...] | None
    message: str


class Seen:
    """A tensor as it was: its elements and what else of it a user sees."""

    def __init__(self, x: Tensor) -> None:
        self.copy = prim.copy(x.detach())
        steps = zip(x.stride(), x.shape, strict=True)
        self.form: dict[str, Any] = {
            "dtype": x.dtype.name,
            "shape": tuple(x.shape),
            "strides": tuple(s if n > 1 and x.numel() else 0 for s, n in steps),
            "requires_grad": x.requires_grad,
        }


class Raised(NamedTuple):
    """An error, without the frames that it and its causes hold."""

    kind: type[Exception]
    text: str


class Outcome(NamedTuple):
    """What a call did: its error or what it returned, gradients left in leaves, memory written (by
    the number of the storage), counters taken of generators, and gradients through the result."""

    error: Raised | None
    values: list[Any]
    grads: list[Any]
    memory: dict[int, Seen]
    draws: list[tuple[int, int]]
    gradients: list[Any]


def array_of(x: Tensor) -> np.ndarray[Any, Any]:
    """A copy of the values; bfloat16, which NumPy has not, exactly as float32."""
    x = prim.copy(x.detach().cpu())
    return (prim.cast(x, float32) if x.dtype is bfloat16 else x).numpy()


def element_difference(got: Tensor, want: Tensor) -> Difference | None:
    """The first element whose bits differ, NaN payloads aside; of one shape and dtype."""
    one, other = array_of(got), array_of(want)
    if one.tobytes() == other.tobytes():
        return None
    return at_first(_differs(one, other), one, other)


def _differs(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where bits differ, NaN payloads aside."""
    import numpy as np

    if a.dtype.kind == "c":
        return np.asarray(_differs(a.real, b.real) | _differs(a.imag, b.imag))
    wrong: np.ndarray[Any, Any] = np.asarray(a != b)
    if a.dtype.kind == "f":
        wrong |= np.signbit(a) != np.signbit(b)
        wrong &= ~(np.isnan(a) & np.isnan(b))
    return wrong


def at_first(wrong: np.ndarray[Any, Any], got: Any, want: Any) -> Difference | None:
    """Names the first element that is wrong."""
    import numpy as np

    count = int(wrong.sum())
    if count == 0:
        return None
    position = tuple(int(i) for i in np.argwhere(wrong)[0])
    of = f", {count} of {wrong.size} elements differ" if wrong.size > 1 else ""
    where = f"at {position} " if position else ""
    return Difference(position, f"{where}{got[position]!s} instead of {want[position]!s}{of}")


def difference(got: Any, want: Any, tape: bool) -> Difference | None:
    """Where one value of an outcome is not another; ``tape``: in requiring grad, too."""
    if not isinstance(got, Seen) or not isinstance(want, Seen):
        same = got is want or (type(got) is type(want) and (got == want or got != got))
        return None if same else Difference(None, f"{_short(got)} instead of {_short(want)}")
    for name, have in got.form.items():
        if have != want.form[name] and (tape or name != "requires_grad"):
            return Difference(None, f"{name} {have} instead of {want.form[name]}")
    return element_difference(got.copy, want.copy)


def _short(value: Any) -> str:
    return f"a tensor of shape {value.form['shape']}" if isinstance(value, Seen) else repr(value)


def outcome_difference(
    got: Outcome, want: Outcome, tape: bool = True
) -> tuple[str, Difference] | None:
    """What of a call is not as it was in another, and where it differs first."""
    if got.error or want.error:
        if got.error and want.error and got.error.kind is want.error.kind:
            return None
        said, wanted = (x.error.text if x.error else "no error" for x in (got, want))
        return "the call", Difference(None, f"{said} instead of {wanted}")
    lists: tuple[tuple[str, list[Any], list[Any]], ...] = (
        ("result", got.values, want.values),
        ("gradient of leaf", got.grads, want.grads),
        ("counters of generator", got.draws, want.draws),
        ("gradient through the result, of input", got.gradients, want.gradients),
    )
    for what, some, others in lists:
        if len(some) != len(others):
            return f"{what}s", Difference(None, f"{len(some)} instead of {len(others)}")
        for i, (one, other) in enumerate(zip(some, others, strict=True)):
            found = difference(one, other, tape)
            if found is not None:
                return f"{what} {i}", found
    for key in got.memory.keys() | want.memory.keys():
        one, other = got.memory.get(key), want.memory.get(key)
        if one is None or other is None:
            form = (one or other).form  # type: ignore[union-attr]
            how = "not written" if one is None else "written, which the function does not do"
            return f"memory of {form['dtype']} {list(form['shape'])}", Difference(None, how)
        found = difference(one, other, tape)
        if found is not None:
            return f"memory of {one.form['dtype']} {list(one.form['shape'])}", found
    return None


class State:
    """What a call of a captured function may change, to be put back: the memory, versions and
    gradients of all tensors that it touches, and its generators."""

    def __init__(self, capture: Capture, leaves: Sequence[Any]) -> None:
        inputs = [item.tensor for item in capture.graph.inputs]
        writes = [write.target for write in capture.graph.writes]
        of_grads = [leaf for leaf, _, _ in capture.set_grads]
        found: Iterable[Any] = (*leaves, *capture.tensors, *inputs, *writes, *of_grads)
        tensors = {id(x): x for x in found if isinstance(x, Tensor)}
        self._memories = {x._storage_id for x in tensors.values()}
        self._grads = [(x, x._grad) for x in tensors.values()]
        grads = [grad for _, grad in self._grads if grad is not None]
        self._snapshot = _core.Snapshot([*tensors.values(), *grads])
        self._generators = [(g, g.take(0)) for g, _ in capture.draws]

    def restore(self) -> None:
        """Puts it back."""
        self._snapshot.restore()
        for x, grad in self._grads:
            x._grad = grad
        for generator, (seed, first) in self._generators:
            generator.give_back(generator.take(0)[1] - first, (seed, first))

    def _written(self) -> dict[int, Seen]:
        """Not that of gradients, which count by their values: eager adds to them where they lie."""
        found = (x for x in self._snapshot.written() if x._storage_id in self._memories)
        return {x._storage_id: Seen(_whole(x)) for x in found}

    def outcome(
        self, run: Callable[[], Any], gradients: Callable[[list[Any]], list[Any]]
    ) -> Outcome:
        """What a call does; everything is put back. ``gradients`` gives those through the leaves of
        the result. MemoryError where there is not enough memory to tell."""
        error: Raised | None = None
        values: list[Any] = []
        through: list[Any] = []
        try:
            try:
                describe(run(), values, lambda x: isinstance(x, (Tensor, float)))
                through = list(map(_seen, gradients(values)))
            except MemoryError:
                raise  # it says nothing of what the call does
            except Exception as found:
                error = Raised(type(found), repr(found))
            return Outcome(
                error,
                list(map(_seen, values)),
                [_seen(x._grad) for x, _ in self._grads],
                self._written(),
                [generator.take(0) for generator, _ in self._generators],
                through,
            )
        finally:
            self.restore()


def _seen(x: Any) -> Any:
    return Seen(x) if isinstance(x, Tensor) else x


def _whole(x: Tensor) -> Tensor:
    return prim.as_strided(x.detach(), (x._storage_elements,), (1,), 0)
