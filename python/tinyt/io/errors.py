"""The error of a damaged file."""

from __future__ import annotations


class SerializationError(RuntimeError):
    """A file that is damaged, or is not what it claims to be."""
