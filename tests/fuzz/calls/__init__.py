"""Random calls of the whole public interface: no argument may crash, hang or confuse the library.

    python -m tests.fuzz.calls --seconds 60 --seed 7

`targets` lists what can be called, `draw` makes call number k of a seed as the text of an
expression (`expr`), from samples of the tables of operations and layers with arguments exchanged
for hostile ones (`odd`). `worker` evaluates calls in a process with little memory, `pool` watches
the workers, and `shrink` makes a call that killed one small.
"""
