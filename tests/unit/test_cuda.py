"""CUDA devices, each time in a process of its own: others have no accelerator. On the library that
stands for CUDA's driver and compiler; the cases on a GPU, too, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apart import has_device, run, run_tests, try_to_open
from standin import nvrtc, standin

FOLDER = Path(__file__).parents[1] / "cuda"


def need_standin() -> dict[str, str]:
    variables = standin()
    if variables is None:
        pytest.skip("needs a C++ compiler")
    return variables


GROUPS = "(rows or products or attention or factors) and not elementwise"


@pytest.mark.parametrize(
    ("chosen", "order"),
    [("elementwise", "forward"), ("not elementwise", "forward"), (GROUPS, "random")],
    ids=["elementwise", "others", "threads in any order"],
)
def test_cases(chosen: str, order: str) -> None:
    """A missing barrier shows when the threads of a group run in another order."""
    more = {"STANDIN_ORDER": order, "STANDIN_NVRTC": nvrtc() if order == "random" else ""}
    run_tests(FOLDER / "cases.py", "-k", chosen, **need_standin(), **more)


@pytest.mark.parametrize("order", ["forward", "random"])
@pytest.mark.parametrize(
    "cases", ["hand_cases.py", "attention_cases.py", "attention_backward_cases.py"]
)
def test_kernels_by_hand(cases: str, order: str) -> None:
    """NVRTC takes each of them, and no register spills."""
    more = {"STANDIN_ORDER": order, "STANDIN_NVRTC": nvrtc() if order == "forward" else ""}
    run_tests(FOLDER / cases, **need_standin(), **more)


ATTENTION = """
import sys, tinyt
dtype, features = getattr(tinyt, sys.argv[1]), int(sys.argv[2])
x = tinyt.ones(1, 1, 3, features, dtype=dtype, device="cuda").requires_grad_()
out = tinyt.nn.functional.scaled_dot_product_attention(x, x, x).sum()
out.backward()
print(out.item())
"""


@pytest.mark.parametrize(
    ("dtype", "features", "capability", "is_by_hand"),
    [
        ("bfloat16", 128, "80", True),
        ("float16", 8, "90", True),
        ("float32", 64, "100", True),
        ("bfloat16", 128, "75", False),
        ("float16", 136, "90", False),
        ("float64", 8, "90", False),
    ],
)
def test_attention_by_hand_is_what_runs(
    dtype: str, features: int, capability: str, is_by_hand: bool, tmp_path: Path
) -> None:
    """Kernels are kept with their texts, which name the file."""
    variables = {"TINYT_KERNEL_CACHE_DIR": str(tmp_path), "STANDIN_CAPABILITY": capability}
    done = run("-c", ATTENTION, dtype, str(features), **(need_standin() | variables))
    assert done.stdout == f"{3.0 * features}\n", done.stderr
    kept = [file.read_bytes() for file in tmp_path.glob("*.kernel")]
    assert kept
    for name in (b'"attention.cu"', b'"attention_backward.cu"'):
        assert any(name in kernel for kernel in kept) == is_by_hand


def test_older_devices_have_generated_kernels() -> None:
    """Without the instructions of those by hand."""
    variables = need_standin() | {"STANDIN_CAPABILITY": "75"}
    run_tests(FOLDER / "hand_cases.py", "-k", "bytes or batches or bias", **variables)
    run_tests(FOLDER / "attention_cases.py", "-k", "masks or special", **variables)


def test_cases_on_a_gpu() -> None:
    if not has_device("cuda"):
        pytest.skip("needs a GPU of NVIDIA's")
    run_tests(FOLDER / "cases.py")
    run_tests(FOLDER / "hand_cases.py")
    run_tests(FOLDER / "attention_cases.py")
    run_tests(FOLDER / "attention_backward_cases.py")


def test_faults() -> None:
    """Of launches one by one; graph_cases.py has those of graphs."""
    more = {"STANDIN_DEVICES": "3", "TINYT_CUDA_GRAPHS": "0"}
    run_tests(FOLDER / "faults.py", **need_standin(), **more)
    run_tests(FOLDER / "faults.py", "-k", "training and not lost", **need_standin())


@pytest.mark.parametrize("order", ["forward", "random"])
def test_graphs(order: str) -> None:
    """In any order that the edges between their nodes allow, too."""
    run_tests(FOLDER / "graph_cases.py", STANDIN_ORDER=order, **need_standin())


@pytest.mark.parametrize("order", ["forward", "random"])
def test_captured_graphs(order: str) -> None:
    run_tests(FOLDER / "capture_cases.py", STANDIN_ORDER=order, **need_standin())


@pytest.mark.parametrize("cases", ["interop_cases.py", "pinned_cases.py"])
def test_other_libraries_and_pinned_memory(cases: str) -> None:
    run_tests(FOLDER / cases, **need_standin())


@pytest.mark.parametrize("cases", ["api_cases.py", "stream_cases.py"])
def test_the_module(cases: str) -> None:
    run_tests(FOLDER / cases, **need_standin())


def test_twins() -> None:
    run_tests(FOLDER / "twin_cases.py", **need_standin())


WORKS = "[1.0, 1.0] 2"


@pytest.mark.parametrize(
    ("variables", "first", "second"),
    [
        (
            {"TINYT_CUDA_LIBRARY": ""},
            "DeviceError ones: there is no CUDA driver (it has",
            "",
        ),
        ({"STANDIN_DEVICES": "0"}, "DeviceError ones: CUDA's driver knows no device here", ""),
        ({"STANDIN_VERSION": "11080"}, "DeviceError ones: NVIDIA's driver is one of CUDA 11.8", ""),
        ({"FAULTY_FAIL": "cuInit:1:-1:999"}, "DeviceError ones: CUDA's driver does not", ""),
        (
            {"FAULTY_FAIL": "cuDeviceGetCount:1:-1:999"},
            "DeviceError ones: CUDA's devices do not",
            "",
        ),
        (
            {"FAULTY_FAIL": "cuDeviceGetAttribute:1:-1:101"},
            "DeviceError ones: CUDA's devices do not",
            "",
        ),
        ({"FAULTY_FAIL": "nvrtcVersion:1:-1:1"}, "DeviceError ones: NVRTC does not say", ""),
        (
            {"FAULTY_FAIL": "nvrtcGetSupportedArchs:1:-1:1"},
            "DeviceError ones: NVRTC does not say what it makes",
            "",
        ),
        ({"FAULTY_FAIL": "cuDevicePrimaryCtxRetain:1:1:2"}, "OutOfMemoryError", WORKS),
        ({"FAULTY_FAIL": "cuStreamCreate:1:1:2"}, "OutOfMemoryError", WORKS),
        ({"FAULTY_FAIL": "cuEventCreate:1:1:46"}, "DeviceError", WORKS),
        ({"STANDIN_CAPABILITY": "35"}, "DeviceError ones: cuda: NVRTC makes no code", ""),
        ({"STANDIN_CAPABILITY": "103"}, WORKS, WORKS),  # newer than the compiler knows
    ],
    ids=lambda x: " ".join(x.values()) if isinstance(x, dict) else "",
)
def test_devices_that_do_not_open(variables: dict[str, str], first: str, second: str) -> None:
    lines = try_to_open("cuda", **(need_standin() | variables))
    assert lines[0].startswith(first), lines
    assert lines[1].startswith(second or first), lines
    assert lines[2].startswith("[1.0, 1.0]"), lines


def test_an_absent_driver_or_compiler_is_a_device_error(tmp_path: Path) -> None:
    code = """
import tinyt
for _ in range(2):
    try:
        tinyt.ones(1, device="cuda")
    except tinyt.DeviceError as error:
        print(error)
print(tinyt.ones(1).item(), tinyt.accelerator.is_available(), tinyt.cuda.is_available())
print([d.missing[:23] for d in tinyt.devices() if d.name == "cuda"])
"""
    for library, text in (
        ("TINYT_CUDA_LIBRARY", "there is no CUDA driver"),
        ("TINYT_NVRTC_LIBRARY", "there is no NVRTC for CUDA 12"),
    ):
        variables = need_standin() | {library: str(tmp_path / "none.so")}
        lines = run("-c", code, **variables).stdout.splitlines()
        assert lines[0] == lines[1]
        assert text in lines[0]
        assert "none.so" in lines[0]
        assert lines[2] == "1.0 False False"
        assert lines[3] == f"['{text[:23]}']"
    assert "pip install 'tinyt[cuda12]'" in lines[0]


def test_a_library_of_something_else_is_named() -> None:
    import tinyt._core

    wrong = tinyt._core.__file__
    code = """
import tinyt
try:
    tinyt.ones(1, device="cuda")
except tinyt.DeviceError as error:
    print(error)
"""
    for variable, what in (
        ("TINYT_CUDA_LIBRARY", "CUDA's driver"),
        ("TINYT_NVRTC_LIBRARY", "NVRTC"),
    ):
        done = run("-c", code, **(need_standin() | {variable: wrong}))
        assert f"{wrong} is not {what}, or one that is too old: it has no " in done.stdout


ASKED_FOR = """
import tinyt
from tinyt import distributed, nn
x = tinyt.ones(2)
for call in (
    lambda: tinyt.set_default_device("cuda"),
    lambda: x.cuda(),
    lambda: nn.Linear(2, 2).cuda(),
    lambda: tinyt.Tensor([1], device="cuda"),
    lambda: tinyt.FloatTensor([1], device="cuda"),
    lambda: x.new([1], device="cuda"),
    lambda: distributed.init_process_group("gloo", device_id=tinyt.device("cuda:0")),
):
    try:
        call()
    except tinyt.DeviceError as error:
        print(str(error).partition("there is no CUDA driver")[1])
print(tinyt.get_default_device(), distributed.is_initialized())
"""


def test_whatever_asks_for_it_says_why_there_is_none() -> None:
    done = run("-c", ASKED_FOR, TINYT_CUDA_LIBRARY="")
    assert done.stdout.splitlines() == ["there is no CUDA driver"] * 7 + ["cpu False"], done.stderr


def test_no_library_is_opened_before_it_is_asked_for() -> None:
    code = """
import tinyt
(tinyt.ones(3) + 1).sum(); tinyt.device("cuda:1"); tinyt.cuda.is_initialized()
tinyt.cuda.memory_allocated(); tinyt.cuda.synchronize(); tinyt.cuda.empty_cache()
with open("/proc/self/maps") as maps:
    print("standin" in maps.read())
"""
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    assert run("-c", code, **need_standin()).stdout == "False\n"


ASKED = """
import tinyt
from tinyt import cuda
print(cuda.is_available(), cuda.device_count(), cuda.get_device_name(1))
cuda.manual_seed(3)
print(tinyt.accelerator.is_available(), cuda.is_initialized(), cuda.memory_allocated())
cuda.set_device(1)
print(tinyt.accelerator.current_accelerator(), tinyt.rand(2, device="cuda").device)
"""


def test_asking_for_devices_uses_none() -> None:
    done = run("-c", ASKED, **need_standin())
    assert done.stdout.splitlines() == [
        "True 2 the tests' stand-in 1 (a CPU)",
        "False False 0",
        "cuda cuda:1",
    ], done.stderr


NOT_THERE = """
import ctypes, os
import tinyt
print(tinyt.cuda.is_available(), tinyt.cuda.is_available(), tinyt.cuda.device_count())
path = os.environ["TINYT_CUDA_LIBRARY"]
print(ctypes.CDLL(path).faulty_calls(b"cuInit") if path else 1)
try:
    tinyt.cuda.current_device()
except tinyt.DeviceError as error:
    print(error)
tinyt.cuda.init()
"""


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"TINYT_CUDA_LIBRARY": ""}, "there is no CUDA driver ("),
        ({"STANDIN_DEVICES": "0"}, "CUDA's driver knows no device here"),
        ({"FAULTY_FAIL": "cuDeviceGetName:1:-1:999"}, "CUDA's devices do not open ("),
        ({"FAULTY_FAIL": "nvrtcVersion:1:-1:1"}, "NVRTC does not say its version"),
    ],
    ids=lambda x: " ".join(x.values()) if isinstance(x, dict) else "",
)
def test_no_device_is_no_error_before_one_is_needed(variables: dict[str, str], why: str) -> None:
    """The driver is asked once."""
    done = run("-c", NOT_THERE, **(need_standin() | variables))
    lines = done.stdout.splitlines()
    assert lines[:2] == ["False False 0", "1"], done.stderr
    assert lines[2].startswith(f"cuda.current_device: there is no CUDA device: {why}"), lines
    assert lines[2].endswith("check cuda.is_available() first")
    assert f"DeviceError: device: {why}" in done.stderr


BUILT = """
import ctypes, os
import tinyt
x = tinyt.tensor([0.5, -2.0]).to("cuda")
print([v.hex() for v in x.exp().tolist() + (x + x).tolist()])
calls = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"]).faulty_calls
print(calls(b"nvrtcCompileProgram"), calls(b"cuModuleLoadData"))
"""


def test_kernels_are_kept_for_later_processes(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"

    def built(**variables: str) -> list[str]:
        """The values; kernels from source, and what was loaded."""
        given = {"TINYT_KERNEL_CACHE_DIR": str(folder), **need_standin(), **variables}
        done = run("-c", BUILT, **given)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    values, counts = built()
    assert counts == "2 2"
    assert built() == [values, "0 2"]
    assert built(STANDIN_CAPABILITY="86") == [values, "2 2"]  # its own code
    assert built(FAULTY_FAIL="cuModuleLoadData:1:1:200") == [values, "1 3"]  # which was refused
    one = min(folder.glob("*.kernel"))
    data = bytearray(one.read_bytes())
    data[-100] ^= 1
    one.write_bytes(data)
    assert sorted(counts for _, counts in (built(), built(STANDIN_CAPABILITY="86"))) == [
        "0 2",
        "1 2",
    ]


FORKED = """
import os, tinyt
x = tinyt.ones(2, device="cuda")
child = os.fork()
if not child:
    try:
        x + x
    except tinyt.DeviceError as error:
        os._exit(7 if "spawn" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (x + x).tolist())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_may_not_use_it() -> None:
    assert run("-W", "ignore", "-c", FORKED, **need_standin()).stdout == "7 [2.0, 2.0]\n"


PINNED = """
import os, tinyt
x = tinyt.ones(2).pin_memory()
child = os.fork()
if not child:
    y = tinyt.ones(2).pin_memory()
    os._exit(7 if x.is_pinned() and not y.is_pinned() and (x + y).tolist() == [2, 2] else 1)
print(x.is_pinned(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_pins_nothing() -> None:
    assert run("-W", "ignore", "-c", PINNED, **need_standin()).stdout == "True 7\n"


CURRENT = """
import ctypes, os, tinyt
driver = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
def current():
    context = ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    return context.value
x, y = tinyt.ones(2, device="cuda:0"), tinyt.ones(2, device="cuda:1")
other = ctypes.c_void_p()
assert not driver.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1)
assert not driver.cuCtxSetCurrent(other)
z = (x + x).to("cuda:1") + y
print(z.tolist(), current() == other.value)
"""


def test_the_context_of_another_library_stays_current() -> None:
    done = run("-c", CURRENT, **need_standin())
    assert done.stdout == "[3.0, 3.0] True\n", done.stderr
