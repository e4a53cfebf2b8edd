"""Recurrent layers: what `rnn_cells.py` does in one step, over whole sequences."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.dtypes import float32, float64
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.nn.rnn_cells import GATES, State, Weights, next_state
from tinyt.nn.utils.rnn import PackedSequence, lengths_of
from tinyt.ops import cat, empty, index_select, split, stack, zeros
from tinyt.ops.autocast import in_lower
from tinyt.tensor import Tensor, prim


def _run(
    mode: str, steps: Sequence[Tensor], state: State, weights: Weights, backwards: bool
) -> tuple[list[Tensor], State]:
    """Outputs of all time steps and the last state of each sequence.

    The number of rows falls from step to step where sequences end: going forwards the state of
    the ended ones is set aside, going backwards their first state joins when they begin.
    """
    initial, ended = state, []
    order = range(len(steps) - 1, -1, -1) if backwards else range(len(steps))
    rows = steps[order[0]].shape[0]
    if rows < initial[0].shape[0]:
        state = tuple(s[:rows] for s in initial)
    outputs: list[Tensor] = [initial[0]] * len(steps)
    for t in order:
        now = steps[t].shape[0]
        if now < rows:
            ended.append(tuple(s[now:] for s in state))
            state = tuple(s[:now] for s in state)
        elif now > rows:
            state = tuple(
                cat([s, first[rows:now]]) for s, first in zip(state, initial, strict=True)
            )
        rows = now
        state = next_state(mode, steps[t], state, weights)
        outputs[t] = state[0]
    if ended:
        parts = [state, *reversed(ended)]
        state = tuple(cat([part[i] for part in parts]) for i in range(len(state)))
    return outputs, state


def _is_one_row(gates: Tensor, sizes: list[int], state: State, weights: Weights) -> bool:
    """Whether the fused row `lstm` does a whole layer: sequences of one length, one dtype."""
    parts = (*state, weights[1])
    return (
        sizes[0] == sizes[-1]
        and weights[4] is None
        and gates.dtype in (float32, float64)
        and all(part.dtype == gates.dtype for part in parts)
    )


def _run_lstm(
    gates: Tensor, times: int, state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """Outputs of all time steps, one after the other, and the last state."""
    hidden, memory = state
    if weights[3] is not None:
        gates = gates + weights[3]
    gates = gates.reshape(times, hidden.shape[0], gates.shape[1])
    out, last, _ = prim.lstm(gates, hidden, memory, weights[1], backwards)
    found = out.reshape(times * hidden.shape[0], hidden.shape[1])
    return found, (out[0 if backwards else times - 1], last)


def run_layers(
    mode: str,
    data: Tensor,
    sizes: list[int],
    first: State,
    weights: Sequence[Sequence[Weights]],
    dropout: float,
    training: bool,
) -> tuple[Tensor, State]:
    """All layers over packed data, whose rows of time step t are the next ``sizes[t]``.

    ``weights`` has those of each direction of each layer. Returns outputs and last states.
    """
    directions = len(weights[0])
    last: list[State] = []
    for layer, of_layer in enumerate(weights):
        outputs = []
        for direction, parts in enumerate(of_layer):
            state = tuple(s[layer * directions + direction] for s in first)
            gates = F.linear(data, parts[0], parts[2])
            if mode == "LSTM" and _is_one_row(gates, sizes, state, parts):
                found, state = _run_lstm(gates, len(sizes), state, parts, direction == 1)
            else:
                steps, state = _run(mode, split(gates, sizes), state, parts, direction == 1)
                found = cat(steps)
            outputs.append(found)
            last.append(state)
        data = outputs[0] if directions == 1 else cat(outputs, 1)
        if dropout and layer + 1 < len(weights):
            data = F.dropout(data, dropout, training)
    return data, tuple(stack([s[i] for s in last]) for i in range(len(first)))


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """`tensor.index_select(dim, permutation)`, under an older name that warns."""
    warnings.warn(
        "apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return index_select(tensor, dim, permutation)


_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")  # of `Weights`


class RNNBase(Module):
    """Layers of recurrent cells over a sequence, in one or both directions.

    Shapes: input (L, N, input_size), with N first if `batch_first`, without N, or a packed
    sequence; output (L, N, D * H) and states (D * num_layers, N, H), with D = 2 if `bidirectional`
    and H the size of the output. Parameters per layer k (and `_reverse`): `weight_ih_lk`,
    `weight_hh_lk`, `bias_ih_lk`, `bias_hh_lk`, `weight_hr_lk`; uniform on ±1/sqrt(hidden_size).
    """

    __constants__: ClassVar[list[str]] = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], got {dropout}")
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError("hidden_size and num_layers must be greater than zero")
        if proj_size < 0 or proj_size >= hidden_size or (proj_size and mode != "LSTM"):
            raise ValueError(
                f"proj_size is for LSTM, positive and smaller than hidden_size, got {proj_size}"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout}",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        size, gates = proj_size or hidden_size, GATES[mode] * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else size * (2 if bidirectional else 1)
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (gates, inputs),
                "weight_hh": (gates, size),
            }
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[: 2 if bidirectional else 1]:
                for name, shape in shapes.items():
                    value = Parameter(empty(shape, dtype=dtype, device=device))
                    self.register_parameter(f"{name}_l{layer}{suffix}", value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: there is no packed copy of the weights."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each direction of each layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _all_weights(self) -> list[list[str]]:
        suffixes = ("", "_reverse")[: 2 if self.bidirectional else 1]
        ends = [f"_l{layer}{suffix}" for layer in range(self.num_layers) for suffix in suffixes]
        return [[name + end for name in self._weight_names()] for end in ends]

    def _weight_names(self) -> list[str]:
        """The parameters of one direction of one layer."""
        names = ["weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ())]
        return [*names, "weight_hr"] if self.proj_size else names

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """The parameters as the layer computes with them; setting it sets the attributes."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Sequence[Any]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    def _weights(self, layer: int, direction: int) -> Weights:
        end = f"_l{layer}{'_reverse' if direction else ''}"
        # In variables: a recording guards attributes under such names, too.
        ih, hh, bias_ih, bias_hh, hr = (name + end for name in _WEIGHTS)
        return (
            getattr(self, ih),
            getattr(self, hh),
            getattr(self, bias_ih) if self.bias else None,
            getattr(self, bias_hh) if self.bias else None,
            getattr(self, hr) if self.proj_size else None,
        )

    def _state_sizes(self) -> tuple[int, ...]:
        """Features of each state."""
        size = self.proj_size or self.hidden_size
        return (size, self.hidden_size) if self.mode == "LSTM" else (size,)

    def _initial(self, given: State | None, batch: int, like: Tensor) -> State:
        """The first states (layers, N, features), zeros if none are given."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(layers, batch, size) for size in self._state_sizes()]
        if given is None:
            return tuple(zeros(shape, dtype=like.dtype, device=like.device) for shape in shapes)
        for state, shape in zip(given, shapes, strict=True):
            if tuple(state.shape) != shape:
                raise RuntimeError(f"Expected hidden size {shape}, got {tuple(state.shape)}")
        return given

    def _run_layers(self, data: Tensor, sizes: list[int], first: State) -> tuple[Tensor, State]:
        """All layers over packed data: rows of time step t are the next sizes[t]."""
        directions = 2 if self.bidirectional else 1
        weights = [
            [self._weights(layer, direction) for direction in range(directions)]
            for layer in range(self.num_layers)
        ]
        return run_layers(self.mode, data, sizes, first, weights, self.dropout, self.training)

    def _check_shape(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )

    def _forward(
        self, input: Tensor | PackedSequence, given: State | None
    ) -> tuple[Tensor | PackedSequence, State]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, given)
        self._check_shape(input)
        single = input.dim() == 2
        turn = self.batch_first and not single
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if turn else input
        if single and given is not None:
            given = tuple(s.unsqueeze(1) for s in given)
        times, batch = x.shape[0], x.shape[1]
        if times == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        first = self._initial(given, batch, x)
        if self.mode == "LSTM" and not self.proj_size:  # one operation in PyTorch
            first = tuple(map(in_lower, first))
        data = x.reshape(times * batch, x.shape[2])
        data, last = self._run_layers(data, [batch] * times, first)
        out = data.reshape(times, batch, data.shape[1])
        if single:
            return out.squeeze(1), tuple(s.squeeze(1) for s in last)
        return (out.transpose(0, 1) if turn else out), last

    def _forward_packed(
        self, input: PackedSequence, given: State | None
    ) -> tuple[PackedSequence, State]:
        sizes = lengths_of(input.batch_sizes)
        if given is not None and input.sorted_indices is not None:
            given = tuple(index_select(s, 1, input.sorted_indices) for s in given)
        first = self._initial(given, sizes[0], input.data)
        data, last = self._run_layers(input.data, sizes, first)
        if input.unsorted_indices is not None:
            last = tuple(index_select(s, 1, input.unsorted_indices) for s in last)
        return input._replace(data=data), last

    # PyTorch's checks, which programs that derive from these layers call.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """RuntimeError for an input of another rank or number of features."""
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.shape[-1]:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the hidden state for an input."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return layers, batch, self.proj_size or self.hidden_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """RuntimeError for a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """RuntimeError where input or state do not fit this layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its sequences in another order."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        options = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, usual in options.items():
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu with `nonlinearity="relu"`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        output, state = self._forward(input, None if hx is None else (hx,))
        return output, state[0]


class GRU(RNNBase):
    """Gated recurrent unit: reset, update and new gates, in this order in the parameters.

    r = σ(W_ir x + W_hr h), z = σ(W_iz x + W_hz h), n = tanh(W_in x + r (W_hn h)),
    h' = (1 - z) n + z h, each product with its bias.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            0, device, dtype,
        )  # fmt: skip

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        output, state = self._forward(input, None if hx is None else (hx,))
        return output, state[0]


class LSTM(RNNBase):
    """Long short-term memory: input, forget, cell and output gates, in this order.

    c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'), projected by `weight_hr` if `proj_size`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            proj_size, device, dtype,
        )  # fmt: skip

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the memory for an input."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """RuntimeError where input, hidden state or memory do not fit this layer."""
        super().check_forward_args(input, hidden[0], batch_sizes)
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Hidden state and memory with their sequences in another order."""
        if permutation is None:
            return hx
        return tuple(_apply_permutation(state, permutation) for state in hx)

    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        output, (hidden, memory) = self._forward(input, hx)
        return output, (hidden, memory)
