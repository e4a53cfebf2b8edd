"""Random graphs of all operations: eager, lazy blocks, the interpreter, programs and float64 agree.

    python -m tests.fuzz --seconds 60 --seed 7

`steps` is what a graph consists of, `draw` makes one, `check` compares, `shrink` makes a failure
small, and `case` prints it as a program. A further kind of step is a function of `steps` and a row
of `draw.KINDS`.
"""
