"""Random numbers, from the seeds and counters of the program's generators."""

from __future__ import annotations

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import c_type

_STEPS = {dtypes.float16: "0x1p11f", dtypes.bfloat16: "0x1p8f"}  # of numbers in [0, 1)


@emits("random_bits")
def _random_bits(call: Call) -> None:
    call.run("draws", "tt_random_bits", *_begin(call), call.y[0], call.y[0].numel)


@emits("uniform", "normal")
def _draw(call: Call) -> None:
    y, name = call.y[0], f"tt_{call.op}_T"
    made = call.scratch(y.shape, dtypes.float32) if y.dtype in _STEPS else y
    if call.op == "normal":
        call.out.scalar("log", made.dtype)
        if made.dtype is dtypes.float64:
            call.out.scalar("cos", made.dtype)
            call.out.scalar("sin", made.dtype)
    call.run("draws", name, *_begin(call), made, y.numel, T=c_type(made.dtype))
    if made is not y:
        if call.op == "uniform":
            call.run("draws", "tt_cut", made, y.numel, _STEPS[y.dtype])
        call.cast(made, y)


def _begin(call: Call) -> tuple[str, str]:
    """The seed, and the first counter."""
    if call.draw is None:
        mask = 2**64 - 1
        return f"{call.attrs['seed'] & mask}u", f"{call.attrs['offset'] & mask}u"
    generator, first = call.draw
    return f"seeds[{generator}]", f"counters[{generator}] + {first}u"
