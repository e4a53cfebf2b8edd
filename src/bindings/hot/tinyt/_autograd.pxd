# The tape: nodes, and what calls do to them.
cimport cython
from core cimport *
from cpython.object cimport PyObject

cdef class Node

from tinyt._tensor cimport TensorBase


@cython.final
cdef class Node:
    cdef int op                    # -1: a Python function
    cdef NodeData data
    cdef readonly tuple edges      # per input: Node, leaf Tensor or None
    cdef readonly uint64_t seq
    cdef readonly int outputs
    cdef public object function    # callable(node, output gradients) -> list, for op -1
    cdef public dict hooks         # by handle: (output number, callable)
    cdef public object trace       # where the call was made, in anomaly mode
    cdef dict packed               # slot -> what a pack hook made of the saved tensor
    cdef object unpacker           # the hook that turns it back
    cdef bint freed
    cdef int require_input(self, int i) except -1
    cdef TensorBase unpack(self, size_t slot, int which)
    cdef check_alive(self)


cdef object TRACE

cdef attach(Node node, TensorBase out, Outputs* all=*)
cdef check_inplace(TensorBase x)
cdef check_rebase(TensorBase x)
cdef object edge_of(TensorBase x)
cdef Node overwriting(TensorBase into, TensorBase source=*)
cdef rebase(TensorBase x, Node node, int output=*)
cdef Node record(int op, Operands& args, const Attrs& attrs, TensorBase into=*)
cdef object fast_backward(PyObject* const* args, Py_ssize_t n, PyObject* names)
cdef TensorBase filled(const CTensor& t, double value)
cdef tuple hooks_of(dict hooks)
cdef object transposed(TensorBase x)
