"""The `tinyt` command."""
