"""What the command tells a user whose request cannot be met."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType


class CommandError(Exception):
    """Ends the command with a message and exit code 1."""


_MOST_CHARACTERS = 1000


def one_line(error: Exception) -> str:
    """An error's text without line ends and other control characters, which files may hold."""
    text = str(error)[:_MOST_CHARACTERS]
    shown = "".join(c if c.isprintable() else " " if c in "\n\t" else repr(c)[1:-1] for c in text)
    return shown if len(str(error)) <= _MOST_CHARACTERS else shown + "..."


def is_installed(package: str) -> bool:
    """Whether `package` can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def require(package: str, project: str, purpose: str) -> ModuleType:
    """Imports an optional package.

    Args:
        package: name to import.
        project: name to install.
        purpose: what it is needed for, to complete "... is needed for".

    Raises:
        CommandError: saying how to install it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise CommandError(
            f'{project} is needed for {purpose}: pip install "tinyt[demo]" ({error})'
        ) from None


_LARGEST = 2**63 - 1


def at_least(smallest: int) -> Callable[[str], int]:
    """A parser of whole numbers from `smallest` on, for argparse."""

    def parse(text: str) -> int:
        value = int(text)
        if not smallest <= value <= _LARGEST:
            raise argparse.ArgumentTypeError(
                f"must be at least {smallest} and below 2**63, got {value}"
            )
        return value

    parse.__name__ = "integer"  # argparse names it in "invalid integer value"
    return parse


def number(smallest: float) -> Callable[[str], float]:
    """A parser of finite numbers from `smallest` on, for argparse."""

    def parse(text: str) -> float:
        value = float(text)
        if not smallest <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"must be a number of at least {smallest}, got {text}")
        return value

    parse.__name__ = "number"
    return parse
