# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=False
"""The tape's nodes, compiled gradient rules and the backward pass."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

import threading

from core cimport *
from tinyt._capture cimport grad_of, index, record_touched, set_grad, with_rows
from tinyt._tensor cimport (
    DTYPES, OP_NAMES, OP_NUMBERS, TensorBase, binary, check_complex_write, convert, dtype, empty,
    finish, inplace, no_complex_gradient, operand, run_one, swapped, tuple_of, wrap)

cdef tuple EMPTY = ()

include "wants_grad.pxi"
include "autograd/node.pxi"
include "autograd/function.pxi"
include "autograd/vjp.pxi"
include "autograd/backward_pass.pxi"

for _kind in (Node, Vjp):
    tinyt_forbid_new(_kind)
del _kind

include "self_check.pxi"
check_selves(globals(), type(next_number))
