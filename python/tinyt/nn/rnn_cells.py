"""One step of recurrent layers, and cells that take it.

Sources: Elman 1990, "Finding structure in time"; Hochreiter & Schmidhuber 1997, "Long short-term
memory"; Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder".
"""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

import math
from typing import Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import chunk, empty, relu, sigmoid, tanh, zeros
from tinyt.tensor import Tensor

State = tuple[Tensor, ...]
# One direction of one layer: weight_ih, weight_hh, bias_ih, bias_hh, weight_hr.
Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def next_state(mode: str, from_input: Tensor, state: State, weights: Weights) -> State:
    """The next state; ``from_input`` is the input's part of the gates, bias included."""
    _, weight_hh, _, bias_hh, weight_hr = weights
    hidden = state[0]
    from_hidden = F.linear(hidden, weight_hh, bias_hh)
    if mode == "GRU":
        reset, update, new = chunk(from_input, 3, 1)
        hidden_reset, hidden_update, hidden_new = chunk(from_hidden, 3, 1)
        candidate = tanh(new + sigmoid(reset + hidden_reset) * hidden_new)
        return (candidate + sigmoid(update + hidden_update) * (hidden - candidate),)
    gates = from_input + from_hidden
    if mode != "LSTM":
        return (relu(gates) if mode == "RNN_RELU" else tanh(gates),)
    entry, forget, cell, output = chunk(gates, 4, 1)
    memory = sigmoid(forget) * state[1] + sigmoid(entry) * tanh(cell)
    hidden = sigmoid(output) * tanh(memory)
    return (hidden if weight_hr is None else F.linear(hidden, weight_hr)), memory


class RNNCellBase(Module):
    """One step of a recurrent layer: input (N, input_size) or (input_size,).

    Args:
        input_size, hidden_size: features of the input and of the state.
        bias: whether biases are added.
        num_chunks: how many gates there are, of `hidden_size` rows each in the parameters.
    """

    __constants__: ClassVar[list[str]] = ["input_size", "hidden_size", "bias"]
    _mode: str  # as `next_state` takes it

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        for name, shape in (
            ("weight_ih", (gates, input_size)),
            ("weight_hh", (gates, hidden_size)),
            ("bias_ih", (gates,)),
            ("bias_hh", (gates,)),
        ):
            there = bias or name.startswith("weight")
            value = empty(shape, dtype=dtype, device=device) if there else None
            self.register_parameter(name, None if value is None else Parameter(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _forward(self, input: Tensor, given: State | None) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: expected {self.input_size} input features, got {tuple(input.shape)}"
            )
        single = input.dim() == 1
        x = input.unsqueeze(0) if single else input
        if given is None:
            count = 2 if self._mode == "LSTM" else 1
            given = tuple(
                zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
                for _ in range(count)
            )
        elif single:
            given = tuple(s.unsqueeze(0) for s in given)
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None)
        state = next_state(self._mode, F.linear(x, self.weight_ih, self.bias_ih), given, weights)
        return tuple(s.squeeze(0) for s in state) if single else state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else f"{text}, bias={self.bias}"


class RNNCell(RNNCellBase):
    """One step of RNN."""

    __constants__: ClassVar[list[str]] = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity: {nonlinearity}")
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def _mode(self) -> str:  # type: ignore[override]
        return f"RNN_{self.nonlinearity.upper()}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._forward(input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class GRUCell(RNNCellBase):
    """One step of GRU."""

    _mode = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, GATES[self._mode], device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._forward(input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of LSTM; returns the hidden state and the memory."""

    _mode = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, GATES[self._mode], device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        hidden, memory = self._forward(input, hx)
        return hidden, memory
