"""The device that a command runs a network on."""

from __future__ import annotations

import argparse

from tinyt import ops
from tinyt._tensor import device
from tinyt.cli.errors import CommandError, one_line


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declares --device."""
    parser.add_argument(
        "--device",
        default="cpu",
        metavar="NAME",
        help="where the network is, as cpu or opencl:1; results of two devices agree within "
        "rounding (default: cpu)",
    )


def find_device(name: str) -> device:
    """The device of that name, which must hold numbers and be here."""
    try:
        found = device(name)
        if found.type == "meta":
            raise CommandError("the device meta holds no numbers; choose another one")
        ops.empty(1, device=found)
    except (RuntimeError, ValueError) as error:
        raise CommandError(one_line(error)) from None
    return found
