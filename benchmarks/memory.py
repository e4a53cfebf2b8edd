"""Peak memory of a case in one library, measured in a process of its own (Linux).

Both libraries are measured the same way, as the operating system sees them: the growth of the
process's own pages from before the case is set up to the highest point of its third to fifth
call. So it counts parameters, gradients, optimiser state, activations, scratch memory and what an
allocator keeps. It does not count the pages of the library's code, nor what a first training step
makes once and for all (modules imported late, pools of threads): tiny steps come before.

    python -m benchmarks.memory torch "training/LeNet-5, batch 64" --seed 1
"""

from __future__ import annotations

import argparse
import gc
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import networks
from benchmarks.case import integers, normal
from benchmarks.cases import compile, find
from benchmarks.cases.training import step

STATUS = Path("/proc/self/status")
RESET_PEAK = Path("/proc/self/clear_refs")


def status(*fields: str) -> int:
    """The sum of fields of the process's status, in bytes."""
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE))
    return sum(int(found[field]) for field in fields) * 1024


def warm_up(lib: Any) -> None:
    """Tiny training steps with what the cases use."""
    for optimizer in ("AdamW", "SGD"):
        for bf16 in (False, True):
            options: dict[str, Any] = {"optimizer": optimizer, "bf16": bf16}
            small = (
                step("", networks.digits, normal(2, 1, 8, 8), 10, 2, **options),
                step("", networks.gpt(8, 8, 1, 1, 4), integers(8, 2, 4), 8, 2, 4, **options),
                # No case has one of halves, which PyTorch refuses below AVX-512.
                step("", networks.lstm(8, 8), integers(8, 2, 4), 8, 2, 4, optimizer=optimizer),
            )
            for case in small:
                case.call(lib, case.arrays(0))()
    case = compile.step("", "", networks.mlp(8, 8), normal(2, 8), 8, 2)
    case.call(lib, case.arrays(0))()


def growth(library: str, case_id: str, seed: int) -> int:
    """Bytes; in this process, which should be fresh."""
    lib = importlib.import_module(library)
    case = find(case_id, seed)
    arrays = case.arrays(seed)
    warm_up(lib)
    gc.collect()
    before = status("RssAnon")
    call = case.call(lib, arrays)
    for _ in range(2):
        call()
    RESET_PEAK.write_text("5")  # proc(5): the peak becomes the present size
    for _ in range(3):
        call()
    return status("VmHWM") - status("RssFile", "RssShmem") - before


def peak(library: str, case_id: str, seed: int) -> int | None:
    """Bytes, from a fresh process with this one's environment; None where it cannot be measured."""
    if not RESET_PEAK.exists():
        return None
    command = [sys.executable, "-m", "benchmarks.memory", library, case_id, "--seed", str(seed)]
    result = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    return int(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=["tinyt", "torch"])
    parser.add_argument("case")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(growth(args.library, args.case, args.seed))


if __name__ == "__main__":
    main()
