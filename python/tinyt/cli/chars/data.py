"""Text as numbers: the vocabulary, and windows of a fixed length in random order."""

from __future__ import annotations

import hashlib
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tinyt import ops
from tinyt.cli.errors import CommandError
from tinyt.dtypes import int64
from tinyt.tensor import Tensor

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_MAX_CLASSES = 1000


def read_text(path: str) -> str:
    """A UTF-8 file's text; Python's own documentation of its language for an empty path."""
    if not path:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
        return "\n\n".join(topics[name] for name in sorted(topics))
    try:
        # "\r\n" and "\n" are one character to the network.
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from (
            None
        )


def digest(text: str) -> str:
    """Tells whether a text is still the one that a run began with."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Vocabulary:
    """The characters that a network knows, numbered; all others are one class, `UNKNOWN`."""

    def __init__(self, characters: str) -> None:
        if not characters or len(set(characters)) != len(characters):
            raise ValueError("Vocabulary: the characters must be at least one, each once")
        self.characters = characters
        self._number = {c: i for i, c in enumerate(characters)}

    @classmethod
    def of(cls, text: str) -> Vocabulary:
        """The characters of a text; the thousand most frequent ones of a text with more."""
        counts = Counter(text)
        if len(counts) <= _MAX_CLASSES:
            return cls("".join(sorted(counts)))
        kept = [c for c, _ in counts.most_common(_MAX_CLASSES - 1) if c != UNKNOWN]
        return cls("".join(sorted([*kept, UNKNOWN])))

    def __len__(self) -> int:
        return len(self.characters)

    def unknown(self, text: str) -> str:
        """The characters of `text` that have no number, each once."""
        if UNKNOWN in self._number:
            return ""
        return "".join(sorted(set(text) - set(self._number)))

    def encode(self, text: str) -> Tensor:
        """The number of every character: int64 of shape (len(text),)."""
        missing = self.unknown(text)
        if missing:
            raise CommandError(f"the network's text has no character {missing[:20]!r}")
        other = self._number.get(UNKNOWN, 0)
        return ops.tensor([self._number.get(c, other) for c in text], dtype=int64)

    def decode(self, numbers: list[int]) -> str:
        """The characters of these numbers."""
        return "".join(self.characters[n] for n in numbers)


class Windows:
    """Batches (inputs, targets), both (batch, context), of windows of a text.

    Each pass cuts the text into windows from a new random place on and gives them in a new random
    order; the targets are the inputs one character on. A last batch that is short is left out.
    """

    def __init__(self, text: Tensor, context: int, batch_size: int) -> None:
        self._text, self._context, self._batch_size = text, context, batch_size
        # One window less than there is room for, so that they can begin anywhere.
        self._windows = (len(text) - 1) // context - 1

    def __len__(self) -> int:
        return max(self._windows // self._batch_size, 0)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        shift = int(ops.randint(self._context, ()).item())
        starts = ops.randperm(self._windows) * self._context + shift
        for i in range(len(self)):
            some = starts[i * self._batch_size : (i + 1) * self._batch_size]
            yield cut(self._text, some, self._context)


def cut(text: Tensor, starts: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """The windows of `text` (N,) from `starts` (B,) on, and the same one character on."""
    whole = text[starts.unsqueeze(1) + ops.arange(context + 1)]
    return whole[:, :-1], whole[:, 1:]
