"""What the command tells a user whose request cannot be met."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


class CommandError(Exception):
    """Ends the command with a message and exit code 1."""


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
