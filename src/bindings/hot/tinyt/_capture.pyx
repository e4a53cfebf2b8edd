# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=False
"""Recordings as Python sees them, numbers and sizes in them, and compiled functions."""
cimport cython
from cpython.object cimport PyObject, Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE
from cpython.ref cimport Py_INCREF

from core cimport *
from tinyt._autograd cimport TRACE, Node, edge_of, hooks_of
from tinyt._tensor cimport (
    DTYPES, PUBLIC, TensorBase, dtype, finish, run_one, tuple_of, wrap)

import gc
import os
import sys
import weakref

import tinyt._core
import tinyt.nesting
from tinyt._core import CaptureError
from tinyt._tensor import device as _device

include "wants_grad.pxi"
include "capture/recorder.pxi"
include "capture/log.pxi"
include "capture/size_guards.pxi"
include "capture/scalars.pxi"
include "capture/guard.pxi"
include "capture/compiled.pxi"

for _kind in (SymScalar, SymInt, SymFloat):
    tinyt_forbid_new(_kind)
del _kind, _device

include "self_check.pxi"
# All that there are, by ids: programs read numbers from their options.
OPTIMIZERS = weakref.WeakValueDictionary()

check_selves(globals(), type(describe))
