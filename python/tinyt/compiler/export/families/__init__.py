"""Ops by families: what each of them is in C."""
