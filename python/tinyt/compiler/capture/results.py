"""What a returned leaf is: an output of the graph, an argument, a number, the object itself, a view
on the tape of one of these, another tensor of the same memory, or the gradient that a tensor has
then (ResultKind of compiled.pxi)."""

from __future__ import annotations

OUTPUT, ARGUMENT, NUMBER, OBJECT, VIEW, ALIAS, GRAD = range(7)
