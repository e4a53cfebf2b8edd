"""Capture: a call recorded as a graph, and the guards that say when it stands for another call."""
