# The hot base class of Tensor, and what runs a call: for the other hot modules.
from core cimport *
from cpython.object cimport PyObject

cdef class TensorBase

from tinyt._autograd cimport Node


cdef class dtype:
    cdef readonly int number
    cdef readonly str name


cdef class TensorBase:
    cdef CTensor t
    cdef Node node               # what computed it, while that wants gradients
    cdef int output              # which output of the node
    cdef bint leaf_grad          # a leaf that wants its gradient in .grad
    cdef public TensorBase _grad
    cdef TensorBase base         # of a view: the tensor that owns the memory
    cdef uint64_t rebases        # times the node of this base was replaced by a write
    cdef uint64_t seen_rebases   # of a view: the base's count that node belongs to
    cdef public dict _hooks          # by handle: called with the gradient of a leaf
    cdef public dict _post_hooks     # by handle: called with a leaf whose .grad was filled
    cdef int64_t _wrap(self, str what, int64_t dim) except -1
    cdef object _number(self, str what)
    cdef object _real_item(self, str what)
    cdef _check_strides(self, int flags)
    cdef _check_stream(self, stream, bint on_host)


cdef list DTYPES
cdef dict OP_NUMBERS
cdef list OP_NAMES
cdef object PUBLIC

cdef object tuple_of(const Dims& dims, object kind=*)
cdef TensorBase wrap(const CTensor& t)
cdef check_complex_write(str what, TensorBase into)
cdef no_complex_gradient(str what, DType dtype)
cdef TensorBase convert(TensorBase x, DType dtype)
cdef object finish(int op, Operands& args, Attrs& attrs, object into, bint alone=*)
cdef object run_one(int op, TensorBase x, Attrs attrs)
cdef object binary(int op, object left, object right)
cdef object inplace(int op, TensorBase left, object right)
cdef object swapped(TensorBase x, int64_t a, int64_t b)
cpdef object empty(sizes, dtype dt)


cdef inline TensorBase operand(PyObject* const* args, Py_ssize_t n, PyObject* names):
    """The first argument of a call without keywords, or None where it is no tensor."""
    return <TensorBase>args[0] if names == NULL and n > 0 and isinstance(
        <object>args[0], TensorBase) else None
