"""Recorded graphs as Python objects, and what they mean."""
