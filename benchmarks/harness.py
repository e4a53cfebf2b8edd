"""Interleaved timing of two libraries, and results with the facts that they depend on."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import tinyt
from tinyt import _core
from tinyt.cli.timing import interleaved

RESULTS = Path(__file__).parent / "results"


@dataclass
class Case:
    """Best seconds of one call in each library."""

    name: str
    tinyt: float
    torch: float

    @property
    def ratio(self) -> float:
        """Below one tinyt is faster."""
        return self.tinyt / self.torch


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 7
) -> Case:
    """Alternates the two, so that both see the same noise."""
    return Case(name, *interleaved([ours, theirs], rounds))


def facts() -> dict[str, object]:
    """What the figures depend on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    info = _core.build_info()
    return {
        "commit": commit,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "isa": info["isa"],
        "threads": tinyt.get_num_threads(),
        "compiler": info["build"],
    }


def report(topic: str, cases: list[Case]) -> None:
    """Prints the table; with ``--save`` writes it to ``results/`` too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="store_true", help="write a result of record")
    save = parser.parse_args().save
    width = max(len(c.name) for c in cases)
    print(f"{'case':{width}}  {'tinyt':>10}  {'torch':>10}  ratio")
    for c in cases:
        print(f"{c.name:{width}}  {c.tinyt * 1e6:8.2f}us  {c.torch * 1e6:8.2f}us  {c.ratio:5.2f}")
    if save:
        RESULTS.mkdir(exist_ok=True)
        head = facts()
        path = RESULTS / f"{topic}-{head['commit']}.json"
        rows = [asdict(c) | {"ratio": c.ratio} for c in cases]
        path.write_text(json.dumps({"topic": topic, **head, "cases": rows}, indent=2) + "\n")
        print(f"written: {path.relative_to(Path.cwd())}")
