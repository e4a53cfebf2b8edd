"""Complete networks used by the command and the documentation."""

from __future__ import annotations

from tinyt.models.chars import CharTransformer
from tinyt.models.digits import DigitsCNN, DigitsMLP

__all__ = ["CharTransformer", "DigitsCNN", "DigitsMLP"]
