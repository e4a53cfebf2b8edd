"""Ends of a process, and interruptions: none may abort, hang, or leave something half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import tinyt

# What a daemon thread is in the middle of when the interpreter ends.
DAEMON = """
import threading, sys, time
import tinyt
from tinyt.data import DataLoader

tinyt.set_num_threads(2)
x = tinyt.randn(300, 300)
program = tinyt.compile(lambda a: (a @ a).relu().sum(0))

@tinyt.library.custom_op("exits::host", mutates_args=())
def host(x: tinyt.Tensor) -> tinyt.Tensor:
    sum(range(1000))
    return x * 1

@host.register_fake
def _(x):
    return tinyt.empty_like(x)

with_host = tinyt.compile(lambda a: host(a) + 1)

def lazy():
    with tinyt.lazy():
        y = (x * 2).relu().sum()
    return y

def backward():
    w = x.detach().requires_grad_()
    (w @ x).sum().backward()

class Products:
    def __len__(self):
        return 1000000
    def __getitem__(self, i):
        return x @ x

works = {
    "eager": lambda: x @ x,
    "compiled": lambda: program(x),
    "host": lambda: with_host(x),
    "lazy": lazy,
    "backward": backward,
    "capture": lambda: tinyt.compile(lambda a: a * 2 + 1)(x),
}
kind = sys.argv[1]
if kind == "loader":
    batches = iter(DataLoader(Products(), 64, num_workers=2))
    next(batches)
else:
    def forever(started):
        while True:
            works[kind]()
            started.set()
    for _ in range(2):
        started = threading.Event()
        threading.Thread(target=forever, args=(started,), daemon=True).start()
        started.wait(10)
    time.sleep(0.01)
print("end", flush=True)
"""
KINDS = ("eager", "compiled", "host", "lazy", "backward", "capture", "loader")


@pytest.mark.parametrize("kind", KINDS)
def test_end_while_a_daemon_thread_computes(kind: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", DAEMON, kind], capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stdout) == (0, "end\n"), found.stderr


def test_interrupted_while_loop() -> None:
    """Ctrl-C ends a compiled loop without end; what is there is as it was."""

    def count(x: Any, end: Any) -> Any:
        return tinyt.while_loop(lambda a, n: (a < n).all(), lambda a, n: (a + 1, n), (x, end))[0]

    program, x = tinyt.compile(count), tinyt.zeros(3)
    for end in (3.0, 4.0, 5.0):
        program(x, tinyt.tensor(end))
    live = tinyt.memory.live_tensors()
    # To the main thread, as from a terminal.
    main = threading.main_thread().ident
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT))
    # A shell starts what it puts into the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            program(x, tinyt.tensor(float("inf")))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert tinyt.memory.live_tensors() == live
    assert program(x, tinyt.tensor(6.0)).tolist() == [6.0] * 3
    assert x.tolist() == [0.0] * 3


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=env | variables,
        timeout=60,
    )


SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
{first}
other = interpreters.create()
code = '''
try:
    import tinyt
except ImportError as error:
    print(error)
'''
interpreters.run_string(other, code)
"""


@pytest.mark.parametrize("first", ["", "import tinyt"])
def test_import_in_a_subinterpreter(first: str) -> None:
    found = run(SUBINTERPRETER.format(first=first))
    if "No module named '_xxsubinterpreters'" in found.stderr:
        pytest.skip("no subinterpreters")
    assert "tinyt: cannot be imported in a subinterpreter" in found.stdout, found.stderr


THREADS = "import tinyt; print(tinyt.get_num_threads())"


def test_default_threads() -> None:
    assert run(THREADS, TINYT_NUM_THREADS="3").stdout == "3\n"
    assert run(THREADS, OMP_NUM_THREADS="5").stdout == "5\n"
    assert run(THREADS, OMP_NUM_THREADS="6,2", TINYT_NUM_THREADS="").stdout == "6\n"
    assert run(THREADS, OMP_NUM_THREADS="5", TINYT_NUM_THREADS="3").stdout == "3\n"
    default = run(THREADS).stdout
    assert run(THREADS, OMP_NUM_THREADS="many").stdout == default  # not ours to refuse


@pytest.mark.parametrize("bad", ["0", "-2", "four", "2x", " 2", "1e3", "9" * 30])
def test_bad_number_of_threads(bad: str) -> None:
    found = run("import tinyt", TINYT_NUM_THREADS=bad)
    assert found.returncode == 1
    assert "ValueError: TINYT_NUM_THREADS: must be a whole number of at least 1" in found.stderr
    assert f"got '{bad}'" in found.stderr


# Files below /proc/self and /sys/fs/cgroup, and the cores that they grant.
QUOTAS = {
    "none": ({}, None),
    "v2": ({"cgroup": "0::/a/b\n", "a/b/cpu.max": "150000 100000\n"}, 2),
    "v2 without": ({"cgroup": "0::/a\n", "a/cpu.max": "max 100000\n"}, None),
    "v2 of a group around it": (
        {"cgroup": "0::/a/b\n", "a/b/cpu.max": "400000 100000", "a/cpu.max": "100000 100000"},
        1,
    ),
    "v2 in a container": ({"cgroup": "0::/\n", "cpu.max": "250000 100000\n"}, 3),
    "v2 less than a core": ({"cgroup": "0::/\n", "cpu.max": "5000 100000\n"}, 1),
    "v1": (
        {
            "cgroup": "5:memory:/m\n4:cpu,cpuacct:/a\n",
            "cpu,cpuacct/a/cpu.cfs_quota_us": "200000\n",
            "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "v1 without": (
        {
            "cgroup": "4:cpu:/a\n",
            "cpu/a/cpu.cfs_quota_us": "-1\n",
            "cpu/a/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "v1 in a container": (
        {
            "cgroup": "4:cpu,cpuacct:/docker/x\n",
            "cpu/cpu.cfs_quota_us": "350000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
        },
        4,
    ),
    "nonsense": ({"cgroup": "0::/\nx\n:\n", "cpu.max": "much 0\n"}, None),
    "period 0": ({"cgroup": "0::/\n", "cpu.max": "100 0\n"}, None),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_cpu_quota(name: str, tmp_path: Any) -> None:
    files, want = QUOTAS[name]
    for path, text in files.items():
        folder = tmp_path / ("proc/self" if path == "cgroup" else "sys/fs/cgroup")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    assert tinyt._core.cpu_quota(str(tmp_path)) == want
