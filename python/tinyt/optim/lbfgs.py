"""L-BFGS, a quasi-Newton method of limited memory (Liu & Nocedal 1989)."""

from __future__ import annotations

from typing import Any

from tinyt._capture import recorder
from tinyt._core import CaptureError
from tinyt.autograd import enable_grad, no_grad
from tinyt.ops import cat, zeros_like
from tinyt.optim.optimizer import Closure, Optimizer, ParamGroup, Params, ParamState, learning_rate
from tinyt.optim.wolfe import Point, strong_wolfe
from tinyt.tensor import Tensor

_LEAST_CURVATURE = 1e-10  # of a step that is remembered


class LBFGS(Optimizer):
    """Steps along -H g, where H approximates the inverse Hessian by the last `history_size` steps
    and changes of the gradient g; one call of `step` makes up to `max_iter` of them.

    All parameters are one vector: there is one group. The state, in PyTorch's layout, is kept under
    the first parameter: as many numbers as all parameters, `2 history_size + 2` times.

    Args:
        params: the parameters.
        lr: learning rate; the first length that a line search tries.
        max_iter: iterations of a call of `step`.
        max_eval: calls of the closure in a call of `step`; ``max_iter * 5 // 4`` if None.
        tolerance_grad: ends where no element of the gradient is larger.
        tolerance_change: ends where neither a parameter nor the loss changes by more.
        history_size: how many steps are remembered.
        line_search_fn: "strong_wolfe", or None for steps of length `lr`.

    Raises:
        ValueError: a negative lr, or several groups.

    >>> import tinyt
    >>> x = tinyt.nn.Parameter(tinyt.tensor([3.0, -2.0]))
    >>> optimizer = tinyt.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - tinyt.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> float(optimizer.step(closure))
    20.0
    >>> bool((x - tinyt.tensor([1.0, 2.0])).abs().max() < 1e-5)
    True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    # PyTorch's inner names, which optimisers that derive from this one call.

    @property
    def _params(self) -> list[Tensor]:
        """The parameters."""
        params: list[Tensor] = self.param_groups[0]["params"]
        return params

    def _numel(self) -> int:
        """How many numbers the parameters are."""
        return sum(param.numel() for param in self._params)

    def _gather_flat_grad(self) -> Tensor:
        """The gradients as one vector, with zeros where there is none."""
        grads = [zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return cat([grad.reshape(-1) for grad in grads])

    def step(self, closure: Closure | None = None) -> Any:
        """Makes up to `max_iter` iterations; returns the loss before the first.

        Args:
            closure: sets the gradients to zero, computes the loss and its gradients, and returns
                the loss. It may be a compiled function.

        Raises:
            TypeError: no closure.
            RuntimeError: a line search that there is not.
            CaptureError: inside a compiled function: how often the closure is called depends on
                its values.
        """
        if closure is None:
            raise TypeError("LBFGS.step: needs a closure that computes the loss and its gradients")
        if recorder() is not None:
            raise CaptureError(
                "compile: how often LBFGS.step calls its closure depends on values; call step "
                "outside of the compiled function, with a closure that is compiled"
            )
        with no_grad():
            return _Run(self, closure).run()


class _Run:
    """One call of `step`."""

    def __init__(self, optimizer: LBFGS, closure: Closure) -> None:
        self.closure = closure
        self.optimizer = optimizer
        group: ParamGroup = optimizer.param_groups[0]
        self.group = group
        self.params: list[Tensor] = group["params"]
        self.state: ParamState = optimizer.state[self.params[0]]
        self.state.setdefault("func_evals", 0)
        self.state.setdefault("n_iter", 0)

    def run(self) -> Any:
        group, state = self.group, self.state
        first = self.call()
        loss, calls = float(first), 1
        state["func_evals"] += 1
        grad = self.grad()
        if self.is_optimal(grad):
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self.direction(grad)
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = grad.clone()
            else:
                state["prev_flat_grad"].copy_(grad)
            state["prev_loss"] = before = loss
            state["t"] = length = self.first_length(grad)
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            is_last = iteration == group["max_iter"]
            start = Point(0.0, loss, grad, slope)
            end, evaluations = self.advance(start, direction, length, calls, is_last)
            loss, grad, state["t"] = end.value, end.grad, end.step
            calls += evaluations
            state["func_evals"] += evaluations
            if (
                is_last
                or calls >= group["max_eval"]
                or self.is_optimal(grad)
                or self.is_small(direction.mul(end.step))
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def call(self) -> Any:
        """The closure's loss."""
        with enable_grad():
            return self.closure()

    def grad(self) -> Tensor:
        """All gradients as one vector; zeros for those that are None."""
        return self.optimizer._gather_flat_grad()

    def is_optimal(self, grad: Tensor) -> bool:
        return bool(grad.abs().max().item() <= self.group["tolerance_grad"])

    def is_small(self, change: Tensor) -> bool:
        return bool(change.abs().max().item() <= self.group["tolerance_change"])

    def first_length(self, grad: Tensor) -> float:
        lr = float(learning_rate(self.group))
        if self.state["n_iter"] > 1:
            return lr
        total = grad.abs().sum().item()
        return min(1.0, 1.0 / total if total else 1.0) * lr

    def direction(self, grad: Tensor) -> Tensor:
        """-H g by the two loops of Nocedal & Wright, algorithm 7.4."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            state["d"] = grad.neg()
            return state["d"]  # type: ignore[no-any-return]
        self.remember(grad)
        changes, steps = state["old_dirs"], state["old_stps"]
        rho = [float(x) for x in state["ro"]]
        if "al" not in state:
            state["al"] = [None] * self.group["history_size"]
        alpha: list[Any] = state["al"]
        q = grad.neg()
        for i in reversed(range(len(changes))):
            alpha[i] = steps[i].dot(q).item() * rho[i]
            q.add_(changes[i], alpha=-alpha[i])
        d = q.mul(float(state["H_diag"]))
        for i in range(len(changes)):
            beta = changes[i].dot(d).item() * rho[i]
            d.add_(steps[i], alpha=alpha[i] - beta)
        state["d"] = d
        return d

    def remember(self, grad: Tensor) -> None:
        """Adds the last step and its change of the gradient, unless that shows no curvature."""
        state = self.state
        change = grad.sub(state["prev_flat_grad"])
        step = state["d"].mul(float(state["t"]))
        curvature = change.dot(step).item()
        if not curvature > _LEAST_CURVATURE:
            return
        memory = (state["old_dirs"], state["old_stps"], state["ro"])
        for kept, new in zip(memory, (change, step, 1.0 / curvature), strict=True):
            if len(kept) == self.group["history_size"]:
                kept.pop(0)
            kept.append(new)
        state["H_diag"] = curvature / change.dot(change).item()

    def advance(
        self, start: Point, direction: Tensor, length: float, calls: int, is_last: bool
    ) -> tuple[Point, int]:
        """Moves the parameters along the direction; the new point, and how often the closure was
        called."""
        search = self.group["line_search_fn"]
        if search is None:
            self.move(direction, length)
            if is_last:  # nobody asks for the loss there
                return Point(length, start.value, start.grad, start.slope), 0
            loss = float(self.call())
            return Point(length, loss, self.grad(), start.slope), 1
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        kept = [param.clone() for param in self.params]

        def evaluate(step: float) -> Point:
            self.move(direction, step)
            loss, grad = float(self.call()), self.grad()
            for param, value in zip(self.params, kept, strict=True):
                param.copy_(value)
            return Point(step, loss, grad, grad.dot(direction).item())

        end, count = strong_wolfe(
            evaluate,
            start,
            length,
            direction.abs().max().item(),
            self.group["tolerance_change"],
            self.group["max_eval"] - calls,
        )
        self.move(direction, end.step)
        return end, count

    def move(self, direction: Tensor, length: float) -> None:
        """Adds a multiple of the direction to the parameters."""
        at = 0
        for param in self.params:
            part = direction[at : at + param.numel()]
            param.add_(part.reshape(tuple(param.shape)), alpha=length)
            at += param.numel()
