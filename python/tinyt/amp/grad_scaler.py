"""`GradScaler`: keeps small gradients from vanishing in half precision (Micikevicius et al. 2018).

The loss is multiplied by a scale before backward and the gradients divided by it after. A step
whose gradients are not finite is left out and the scale shrinks; after a while without, it grows.

Scale and counter are tensors, which a compiled step writes as any other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tinyt._capture import MISSING, recorder
from tinyt._core import CaptureError, scale_all, set_step_condition
from tinyt.autograd import no_grad
from tinyt.drivers import NAMES, count
from tinyt.dtypes import float16, float32, float64
from tinyt.nesting import deeper
from tinyt.ops import tensor, where
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from tinyt.optim import Optimizer


def _times(x: Tensor, factor: Tensor) -> Tensor:
    """`x` times a 0-d tensor that counts as a number: it changes no dtype."""
    return x * factor if x.dim() else (x.reshape(1) * factor).reshape(())


def _all_finite(tensors: list[Tensor]) -> Any:
    """Whether no element is infinite or nan; in a recording a tensor that says so."""
    if recorder() is not None:
        # 0 or nan: a sum needs no memory where it is fused with the unscaling.
        return _every([(x * 0.0).sum() == 0.0 for x in tensors])
    whole = [x for x in tensors if x.dtype is float32]
    # A finite sum of squares proves it in one pass; large elements overflow in theirs.
    if whole and bool(prim.sum_squares(whole).isfinite().all()):
        tensors = [x for x in tensors if x.dtype is not float32]
    return all(bool(x.isfinite().all()) for x in tensors)


def _every(checks: list[Any]) -> Any:
    """Whether all are true: bools, or tensors of one bool."""
    found = checks[0]
    for check in checks[1:]:
        found = found & check
    return found


def _step_where(finite: Tensor, optimizer: Optimizer) -> Any:
    """Records a step that is left out where `finite` is false."""
    if not optimizer._steps_all_at_once():
        raise CaptureError(
            f"GradScaler: a step of {type(optimizer).__name__} cannot be left out in a compiled "
            "function; call scaler.step(optimizer) and scaler.update() outside"
        )
    if optimizer._hooks["step_pre"] or optimizer._hooks["step_post"]:
        raise CaptureError(
            "GradScaler: hooks of a step that may be left out cannot be compiled; call "
            "scaler.step(optimizer) and scaler.update() outside"
        )
    owner = recorder()
    assert owner is not None
    owner.let_wait(True)  # a step that is left out makes no states
    set_step_condition(finite)
    try:
        result = optimizer.step()
    finally:
        set_step_condition(None)
    owner.let_wait(False)
    return result


# What a step reads, beside its tensors.
_READS = ("_growth_factor", "_backoff_factor", "_growth_interval")


class GradScaler:
    """Scales losses, unscales gradients, and leaves out steps whose gradients are not finite.

    Args:
        device: "cpu"; "cuda" (the default, as in PyTorch) and "mps" warn and are off where there is
            none.
        init_scale: the first scale.
        growth_factor: by which it grows after `growth_interval` steps in a row that were taken.
        backoff_factor: by which it shrinks after a step that was left out.
        growth_interval: see growth_factor.
        enabled: False makes every method pass through.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if device in NAMES and enabled and not count(device):
            warnings.warn(
                f"GradScaler is enabled, but {NAMES[device]} is not available. Disabling.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError(f"The growth factor must be > 1.0, got {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._enabled = enabled
        self._scale = tensor(init_scale, dtype=float64)
        self._has_scaled = False
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = tensor(0)
        # Of each optimiser unscaled since the last update: whether its gradients were finite; None
        # where it had none.
        self._finite: dict[int, Any] = {}
        self._stepped: set[int] = set()

    def _need_scaled(self, method: str) -> None:
        if not self._has_scaled:
            raise AssertionError(
                f"Attempted {method} but _scale is None. This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        owner = recorder()
        is_recorded = [isinstance(x, Tensor) for x in self._finite.values()]
        if owner is None:
            if any(is_recorded):  # left by a recording that failed
                self._finite.clear()
                self._stepped.clear()
            return
        owner.reads.extend((self.__dict__, key, self.__dict__[key]) for key in _READS)
        if not all(is_recorded):
            raise CaptureError(
                "GradScaler: unscale_(), step() and update() belong together, in one compiled "
                "function or outside of any"
            )

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each in an iterable, times the scale."""
        return self._scaled(outputs, 0) if self._enabled else outputs

    def _scaled(self, outputs: Any, depth: int) -> Any:
        if isinstance(outputs, Tensor):
            self._has_scaled = True
            is_double = outputs.dtype is float64
            return outputs * (self._scale if is_double else self._scale.float())
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes)):
            depth = deeper("GradScaler.scale", depth)
            scaled = [self._scaled(x, depth) for x in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the optimiser's gradients by the scale, as for clipping before `step`."""
        if not self._enabled:
            return
        self._need_scaled("unscale_")
        key = id(optimizer)
        if key in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if key in self._finite:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        params = (param for group in optimizer.param_groups for param in group["params"])
        grads = [param.grad for param in params if param.grad is not None]
        if any(grad.dtype is float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        with no_grad():
            inverse = 1.0 / self._scale
            owner = recorder()
            for i in range(len(grads)) if owner is not None else scale_all(grads, inverse.item()):
                grads[i].copy_(_times(grads[i], inverse))
            self._finite[key] = _all_finite(grads) if grads else None
        if owner is not None:  # a program holds where they are not unscaled yet
            owner.reads.append((self._finite, key, MISSING))

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)` if all gradients are finite, after unscaling them."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need_scaled("step")
        key = id(optimizer)
        if key in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if key not in self._finite:
            self.unscale_(optimizer)
        if self._finite[key] is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        self._stepped.add(key)
        finite = self._finite[key]
        if isinstance(finite, Tensor):
            return _step_where(finite, optimizer)
        return optimizer.step() if finite else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Ends an iteration: the scale shrinks, grows, or becomes `new_scale`."""
        if not self._enabled:
            return
        self._need_scaled("update")
        checks = [finite for finite in self._finite.values() if finite is not None]
        if new_scale is not None:
            self._set_scale(new_scale)
        elif not checks:
            raise AssertionError("No inf checks were recorded prior to update.")
        else:
            self._adapt(_every(checks))
        self._finite.clear()
        self._stepped.clear()

    def _set_scale(self, value: float | Tensor) -> None:
        x = value.reshape(()) if isinstance(value, Tensor) else tensor(value, dtype=float64)
        with no_grad():
            self._scale.copy_(x)

    def _adapt(self, finite: Any) -> None:
        """Shrinks the scale, or counts a step that was taken; at the interval the scale grows."""
        taken = finite if isinstance(finite, Tensor) else tensor(finite)
        count = self._growth_tracker + 1
        grows = count == self._growth_interval
        scale = where(grows, self._scale * self._growth_factor, self._scale)
        self._set_scale(where(taken, scale, self._scale * self._backoff_factor))
        self._growth_tracker.copy_(where(taken & ~grows, count, 0))

    def get_scale(self) -> float:
        """The scale; 1 where the scaler is off."""
        return float(self._scale.item()) if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what `get_growth_factor` gives."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what `get_backoff_factor` gives."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets what `get_growth_interval` gives."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it grows; empty where the scaler is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker.item(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._set_scale(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker.fill_(state_dict["_growth_tracker"])
