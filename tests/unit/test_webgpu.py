"""WebGPU devices, each time in a process of its own: others have no accelerator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apart import has_device, run, run_tests, try_to_open
from faulty import faulty_library

FOLDER = Path(__file__).parents[1] / "webgpu"


FEW = "in_place or launches or moves or faults"


def need_device() -> None:
    if not has_device("webgpu"):
        pytest.skip("needs the package wgpu and an adapter: mesa-vulkan-drivers is one")


# The second time as on an adapter with the least that WebGPU promises, fewer groups, and five
# kernels that are kept; then with small buffers; then as on one without 64-bit integers; then with
# kernels of groups of threads, of which the last row of groups has more than there are.
@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ("test", {}),
        (FEW, {"TINYT_WEBGPU_LIMITS": "8,600,33554432,5"}),
        ("in_pieces or in_place", {"TINYT_WEBGPU_LIMITS": "8,600,65536"}),
        ("test", {"TINYT_WEBGPU_INT64": "0"}),
        (
            "products_of or attention_of or network or rows_of or reductions",
            {"TINYT_WEBGPU_AS_GPU": "1", "TINYT_WEBGPU_LIMITS": "32,90"},
        ),
    ],
    ids=[
        "all",
        "some with the least limits",
        "small buffers",
        "all without 64-bit integers",
        "products, attention and rows as on a GPU",
    ],
)
def test_cases(chosen: str, variables: dict[str, str]) -> None:
    need_device()
    run_tests(FOLDER / "cases.py", "-k", chosen, **variables)


def library() -> str:
    """That of the devices of other tests here."""
    if own := os.environ.get("TINYT_WEBGPU_LIBRARY"):
        return own
    import importlib.util

    spec = importlib.util.find_spec("wgpu")
    assert spec is not None
    assert spec.origin is not None
    return str(next((Path(spec.origin).parent / "resources").glob("*wgpu_native*")))


def faulty() -> dict[str, str]:
    """Variables of a library that fails where it is told to."""
    need_device()
    built = faulty_library("webgpu/faulty.cpp")
    if built is None:
        pytest.skip("needs a C++ compiler")
    return {"TINYT_WEBGPU_LIBRARY": built, "FAULTY_WEBGPU": library()}


def test_faults() -> None:
    run_tests(FOLDER / "faults.py", **faulty())


def test_few_kernels_are_kept() -> None:
    limits = "32,65535,134217728,5"
    run_tests(FOLDER / "faults.py", "-k", "kept", TINYT_WEBGPU_LIMITS=limits, **faulty())


# At the last of these wgpu-native says that it is lost; at the others it reports an error.
@pytest.mark.parametrize(
    "function",
    [
        "wgpuDeviceCreateBuffer",
        "wgpuDeviceCreateBindGroup",
        "wgpuDeviceCreateShaderModuleTrusted",
        "wgpuDeviceCreateComputePipeline",
        "wgpuQueueWriteBuffer",
        "wgpuCommandEncoderFinish",
        "wgpuBufferMapAsync",
        "wgpuDeviceCreateCommandEncoder",
    ],
)
def test_a_device_that_is_lost(function: str) -> None:
    run_tests(FOLDER / "lost.py", FAULTY_LOST=function, **faulty())


# As many buffers as the process has memory for, by the errors of wgpu-native itself.
FULL = """
import resource, tinyt
x = tinyt.ones(3, device="webgpu")
(x + x).cpu()
if "llvmpipe" not in tinyt.devices()[-1].hardware:
    raise SystemExit(77)
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + (400 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
kept = []
try:
    while True:
        kept.append(tinyt.empty(16 << 20, device="webgpu"))
except tinyt.OutOfMemoryError as error:
    print(error)
print(len(kept) > 0)
del kept
print(tinyt.empty(16 << 20, device="webgpu").numel(), (x + x).tolist())
"""


def test_no_memory_in_the_process() -> None:
    need_device()
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    done = run("-c", FULL)
    if done.returncode == 77:
        pytest.skip("needs an adapter that has the process's memory: llvmpipe")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("empty: webgpu:0 has no more, asked for 67108864 bytes, in use ")
    assert lines[1:] == ["True", "16777216 [2.0, 2.0, 2.0]"]


WORKS = "[1.0, 1.0] 1"
NO_ADAPTER = "DeviceError ones: WebGPU's library knows no adapter that runs kernels"
NO_DEVICE = "DeviceError ones: there is no device on "
# Of llvmpipe, which needs it for a fused multiply-add; others may do without.
NO_FLOAT64 = ("DeviceError ones: llvmpipe", WORKS)
SHORT, BROKEN = "OutOfMemoryError ones: ", "RuntimeError ones: "


# The faults of faulty.cpp: 1 no memory, 3 refused, 4 lost, 5 nothing is done. A call that names a
# device tries twice to open it: fast, then by Python.
@pytest.mark.parametrize(
    ("failures", "first", "second"),
    [
        ("CreateInstance:1:2:5", "DeviceError ones: WebGPU's library does not start", WORKS),
        ("InstanceEnumerateAdapters:1:4:5", NO_ADAPTER, WORKS),
        ("AdapterHasFeature:1:-1:5", *[NO_FLOAT64] * 2),
        ("AdapterRequestDevice:1:2:3", NO_DEVICE, WORKS),
        ("AdapterRequestDevice:1:-1:3", *[NO_DEVICE] * 2),
        ("DeviceCreateBuffer:1:6:1", SHORT, WORKS),
        ("DeviceCreateBuffer:3:1:1 DeviceCreateBuffer:6:1:1", SHORT, WORKS),
        ("DeviceCreateBuffer:4:2:2", SHORT, WORKS),
        ("DeviceCreateBindGroup:1:2:3", BROKEN, WORKS),
        ("DeviceCreateShaderModuleTrusted:1:2:3", BROKEN, WORKS),
        ("BufferMapAsync:1:2:3", BROKEN, WORKS),
        ("BufferMapAsync:1:2:1", "DeviceError ones: ", WORKS),
        ("QueueWriteBuffer:1:1:1", WORKS, WORKS),
        ("QueueWriteBuffer:1:4:1", SHORT, WORKS),
        ("DeviceCreateBuffer:2:1:4", *["DeviceError ones: "] * 2),
    ],
)
def test_devices_that_do_not_open(
    failures: str, first: str | tuple[str, ...], second: str | tuple[str, ...]
) -> None:
    rules = " ".join("wgpu" + rule for rule in failures.split())
    lines = try_to_open("webgpu", FAULTY_FAIL=rules, **faulty())
    assert lines[0].startswith(first), lines
    assert lines[1].startswith(second), lines
    assert lines[2].startswith("[1.0, 1.0]"), lines


def test_no_library_is_opened_before_it_is_asked_for() -> None:
    code = (
        "import sys, tinyt; (tinyt.ones(3) + 1).sum(); tinyt.device('webgpu:1'); "
        "print('wgpu' in open('/proc/self/maps').read(), 'wgpu' in sys.modules)"
    )
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    assert run("-c", code).stdout == "False False\n"


SHOW_ERROR = """
import tinyt
for _ in range(2):
    try:
        tinyt.ones(1, device="webgpu")
    except tinyt.DeviceError as error:
        print(error)
print(tinyt.ones(1).item(), tinyt.accelerator.is_available())
print([d.missing[:30] for d in tinyt.devices() if d.name == "webgpu"])
"""


def test_an_absent_package_is_a_device_error() -> None:
    absent = "import importlib.util; importlib.util.find_spec = lambda *names: None"
    lines = run("-c", absent + SHOW_ERROR).stdout.splitlines()
    assert lines[0] == lines[1]
    assert "the package wgpu is not installed" in lines[0]
    assert "tinyt[webgpu]" in lines[0]
    assert lines[2] == "1.0 False"
    assert lines[3] == "['there is no WebGPU library: th']"


def test_a_wrong_library_is_a_device_error(tmp_path: Path) -> None:
    import tinyt._core

    none = run("-c", SHOW_ERROR, TINYT_WEBGPU_LIBRARY=str(tmp_path / "none.so")).stdout
    assert "there is no WebGPU library (" in none
    other = run("-c", SHOW_ERROR, TINYT_WEBGPU_LIBRARY=tinyt._core.__file__).stdout
    assert "is not wgpu-native" in other


def test_another_version_is_a_device_error(tmp_path: Path) -> None:
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("unsigned wgpuGetVersion(void) { return 0x16000301; }", encoding="utf-8")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("needs a C compiler")
    shown = run("-c", SHOW_ERROR, TINYT_WEBGPU_LIBRARY=str(library)).stdout
    assert "is wgpu-native 22.0, of which version 29 is needed" in shown
    assert "wgpu 0.32" in shown


def test_without_an_adapter_it_is_a_device_error(tmp_path: Path) -> None:
    import importlib.util

    if importlib.util.find_spec("wgpu") is None or sys.platform != "linux":
        pytest.skip("needs the package wgpu on Linux")
    none = str(tmp_path / "none.json")
    shown = run("-c", SHOW_ERROR, VK_ICD_FILENAMES=none, VK_DRIVER_FILES=none).stdout
    assert "knows no adapter that runs kernels" in shown
    assert "mesa-vulkan-drivers" in shown
