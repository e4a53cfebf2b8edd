"""The parts of `make_stubs.py`."""
