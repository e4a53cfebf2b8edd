"""Programs of compiled functions as C99 (docs/export.md)."""
