"""Shared by every test: the leak check, the seed, and running a seeded part of the suite."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import zlib
from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest

import host2
import sampling
import standin
import tinyt

hypothesis.settings.register_profile(
    "ci", max_examples=50, deadline=None, derandomize=True, database=None
)
hypothesis.settings.register_profile("long", max_examples=2000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Kernels are compiled as in a process that is the first one; others that tests start have it, too.
os.environ.setdefault("TINYT_KERNEL_CACHE_DIR", "")

# A process that does not seed draws differently in each run; tests draw the same.
tinyt.manual_seed(tinyt.Generator().initial_seed())

# Random numbers that depend on tensors: kernels of GPUs do not draw them.
DRAWS = [
    row["name"] for row in tinyt._core.op_table() if "random" in row["flags"] and row["inputs"] > 0
]

# Devices with kernels of src/gpu, and a pattern of the dtypes that they have no arithmetic of.
GPUS = {"cuda": "none", "opencl": "none", "webgpu": "float64|complex128"}

FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tinyt")
    group.addoption(
        "--sample",
        type=float,
        default=1.0,
        metavar="FRACTION",
        help="run this part of the tests (for further instruction-set levels)",
    )
    group.addoption(
        "--device",
        default="cpu",
        help="where tensors of the tests are; 'host2': in the test library's hidden memory; "
        "'standin': on CUDA's devices, with the library that stands for its driver",
    )
    group.addoption(
        "--lacks",
        choices=["nothing", "fused", "complex", "all"],
        default="nothing",
        help="with --device host2, which rows that has no kernel for, or none for complex numbers: "
        "decompositions, and then the CPU, run in their place",
    )
    group.addoption(
        "--part",
        type=as_part,
        default=(1, 1),
        metavar="K/N",
        help="the K-th of N parts of the tests that run, which are the same at every run",
    )
    group.addoption("--choice", type=int, default=0, help="seed of which part --sample runs")
    group.addoption("--seed", type=int, default=0, help="seed of test data")


def pytest_configure(config: pytest.Config) -> None:
    device = config.getoption("--device")
    if device == "cpu":
        return
    if device == "host2":
        library = host2.library()
        if library is None:
            raise pytest.UsageError("--device host2 needs a C compiler")
        lack_kernels(config)
        tinyt.backends.load(library)
    if device == "standin":
        variables = standin.standin()
        if variables is None:
            raise pytest.UsageError("--device standin needs a C++ compiler")
        # Where NVRTC is there it has to take each kernel, too.
        os.environ.update(variables | {"STANDIN_NVRTC": standin.nvrtc()})
        device = config.option.device = "cuda"
    if device in GPUS:
        draws = "|".join(DRAWS)
        use_host_fallback(config, rf"(\w+. no kernel for ({GPUS[device]})|({draws}). no kernel)")
    tinyt.set_default_device(device)
    to_array = tinyt.Tensor.__array__
    # Tests compare with NumPy's functions.
    tinyt.Tensor.__array__ = lambda x, *rest, **names: to_array(x.cpu(), *rest, **names)  # type: ignore[method-assign]
    if tinyt.accelerator.device_count() > 1:
        sampling.PLACE = tinyt.device(device, 1)


def lack_kernels(config: pytest.Config) -> None:
    lacks = config.getoption("--lacks")
    if lacks == "fused":
        os.environ["HOST2_LACKS"] = ",".join(host2.FUSED)
    elif lacks == "complex":
        os.environ["HOST2_LACKS"] = ",".join(host2.COMPLEX)
    elif lacks == "all":
        os.environ["HOST2_LACKS"] = "*"
        use_host_fallback(config)


def use_host_fallback(config: pytest.Config, lack: str = "") -> None:
    """Operations whose warnings begin so may run on the CPU."""
    os.environ["TINYT_HOST_FALLBACK"] = "1"
    config.addinivalue_line("filterwarnings", f"ignore:{lack}.*it runs on the CPU:RuntimeWarning")


def as_part(text: str) -> tuple[int, int]:
    """(number of the part, from 1; how many there are)."""
    number, count = (int(word) for word in text.split("/"))
    if not 1 <= number <= count:
        raise ValueError(text)
    return number, count


def pytest_report_header(config: pytest.Config) -> str:
    names = ("--device", "--lacks", "--part", "--sample", "--choice", "--seed")
    return "tinyt: " + " ".join(f"{name} {config.getoption(name)}" for name in names)


# Files that take minutes: begun last, one worker would be alone with each.
LONGEST = ("test_opencl.py", "test_webgpu.py", "test_cuda.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if not config.option.markexpr:
        # Long sweeps run only where they are asked for: -m slow.
        slow = [i for i in items if i.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [i for i in items if i not in set(slow)]
    if config.getoption("--device") != "cpu":
        marked = ["host", "tiles"]
        if config.getoption("--lacks") != "nothing" or config.getoption("--device") in GPUS:
            marked.append("kernels")
        here = [i for i in items if any(map(i.get_closest_marker, marked))]
        config.hook.pytest_deselected(items=here)
        items[:] = [i for i in items if i not in set(here)]
    fraction, choice = config.getoption("--sample"), config.getoption("--choice")
    part, parts = config.getoption("--part")
    if fraction >= 1.0 and parts == 1:
        return

    # By node id, so that the choice does not depend on what else is collected.
    def is_kept(item: pytest.Item) -> bool:
        if zlib.crc32(item.nodeid.encode()) % parts != part - 1:
            return False
        return random.Random(f"{choice} {item.nodeid}").random() < fraction

    kept = [i for i in items if is_kept(i)]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(kept)])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def forget() -> None:
    """Programs and decompositions that are kept hold tensors."""
    tinyt.lazy.cache_clear()
    tinyt._core.forget_decompositions()


def settle() -> None:
    """What a test left running ends; an index out of range that it did not look at is its own."""
    for index in range(tinyt.accelerator.device_count()):
        with contextlib.suppress(IndexError):
            tinyt.accelerator.synchronize(index)


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Live tensors return to what they were, with the garbage collector off: reference cycles
    count as leaks. (`pytest.raises(...) as info` makes such a cycle; use `match=`.)"""
    gc.collect()
    gc.freeze()  # what is left (modules, results of tests) is not looked at again
    gc.disable()
    forget()
    before = tinyt.memory.live_tensors()
    try:
        yield
        settle()
        forget()
        after = tinyt.memory.live_tensors()
    finally:
        gc.enable()
    # A failed test's traceback keeps its tensors; its own message matters more.
    if not request.node.stash.get(FAILED, False):
        assert after == before, f"{after - before} tensors leaked (or are held by a cycle)"


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """A test may set the number of threads; the next one has what there was."""
    with tinyt.num_threads(tinyt.get_num_threads()):
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Seeded by --seed and the name of the test."""
    name = zlib.crc32(request.node.nodeid.encode())
    return np.random.default_rng([request.config.getoption("--seed"), name])
