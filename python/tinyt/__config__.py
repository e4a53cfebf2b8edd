"""`torch.__config__`: how this build was made."""

from __future__ import annotations

from tinyt.config import get_num_interop_threads, get_num_threads, show_config

__all__ = ["parallel_info", "show"]


def show() -> str:
    """`tinyt.show_config()`: instruction sets, threads, compiler and flags."""
    return show_config()


def parallel_info() -> str:
    """How many threads compute."""
    return (
        f"get_num_threads() : {get_num_threads()}\n"
        f"get_num_interop_threads() : {get_num_interop_threads()}"
    )
