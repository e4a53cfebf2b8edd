"""`tinyt.mps` where there is no Metal device: it says so, and what programs call anyway does
nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tinyt
from tinyt import mps

CALLS: dict[str, Callable[[], object]] = {
    "Event": mps.Event,
    "get_rng_state": mps.get_rng_state,
    "set_rng_state": lambda: mps.set_rng_state(tinyt.get_rng_state()),
    "set_per_process_memory_fraction": lambda: mps.set_per_process_memory_fraction(0.5),
    "compile_shader": lambda: mps.compile_shader(""),
    "load_metallib": lambda: mps.load_metallib("none"),
    "profiler.start": mps.profiler.start,
    "profiler.stop": mps.profiler.stop,
    "get_name": tinyt.backends.mps.get_name,
    "get_core_count": tinyt.backends.mps.get_core_count,
}


@pytest.mark.skipif(mps.is_available(), reason="there is a device")
@pytest.mark.parametrize("name", CALLS)
def test_what_needs_a_device_says_why_there_is_none(name: str) -> None:
    with pytest.raises(tinyt.DeviceError, match=rf"mps\.{name}: there is no Metal device: .*check"):
        CALLS[name]()


@pytest.mark.skipif(mps.is_available(), reason="there is a device")
def test_what_programs_call_anyway() -> None:
    state = tinyt.get_rng_state()
    mps.manual_seed(3)
    mps.seed()
    mps.synchronize()
    mps.empty_cache()
    assert tinyt.equal(tinyt.get_rng_state(), state)
    assert mps.device_count() == mps.current_allocated_memory() == 0
    assert mps.driver_allocated_memory() == mps.recommended_max_memory() == 0
    assert not mps.profiler.is_capturing_metal()
    assert not mps.profiler.is_metal_capture_enabled()
    assert not tinyt.ones(1).is_mps


def test_wrong_fractions() -> None:
    with pytest.raises(TypeError, match="must be a float, got int"):
        mps.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match=r"from 0 to 2, got 2\.5"):
        mps.set_per_process_memory_fraction(2.5)


@pytest.mark.skipif(mps.is_available(), reason="there is a device")
def test_mixed_precision_is_off() -> None:
    with pytest.warns(UserWarning, match="'mps', but Metal is not available"):
        block = tinyt.autocast("mps")
    x = tinyt.ones(2, 2)
    with block:
        assert (x @ x).dtype == tinyt.float32
    with pytest.warns(UserWarning, match="GradScaler is enabled, but Metal is not available"):
        assert not tinyt.amp.GradScaler("mps").is_enabled()
    assert tinyt.get_autocast_dtype("mps") == tinyt.float16
