# Direct forms of frequent composites: the same primitives, without a Python frame. Each takes the
# plain form of its call and returns NotImplemented for any other, whose arguments, errors included,
# are the Python function's business.

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*)


cdef inline bint as_int(object item, int64_t* value):
    """Reads an exact int; False for another object, and for one beyond 64 bits."""
    cdef int overflow = 0
    if not PyLong_CheckExact(item):
        return False
    value[0] = PyLong_AsLongLongAndOverflow(item, &overflow)
    return overflow == 0


cdef inline bint as_dim(object item, int64_t rank, int64_t* dim):
    """Reads a dimension number in range as one in [0, rank)."""
    if not as_int(item, dim) or dim[0] < -rank or dim[0] >= rank:
        return False
    if dim[0] < 0:
        dim[0] += rank
    return True


cdef inline bint add_size(Attrs& attrs, object item):
    """Adds an exact int, or a size that is traced."""
    cdef int64_t size
    if as_int(item, &size):
        attrs.add(size)
        return True
    size = symbol_row(<PyObject*>item)
    if size >= 0:
        add_row(attrs, size)
    return size >= 0


cdef bint add_sizes(Attrs& attrs, PyObject* const* args, Py_ssize_t n):
    """Adds sizes given one by one, or as a tuple or list; False where they are no plain ints."""
    cdef Py_ssize_t i
    if n == 1 and isinstance(<object>args[0], (tuple, list)):
        attrs.add(<int64_t>len(<object>args[0]))
        for item in <object>args[0]:
            if not add_size(attrs, item):
                return False
        return True
    attrs.add(<int64_t>n)
    for i in range(n):
        if not add_size(attrs, <object>args[i]):
            return False
    return n > 0


cdef inline TensorBase operand(PyObject* const* args, Py_ssize_t n, PyObject* names):
    """The first argument of a call without keywords, or None where it is no tensor."""
    return <TensorBase>args[0] if names == NULL and n > 0 and isinstance(
        <object>args[0], TensorBase) else None


cdef DirectCall direct_form(str name):
    if name == "view": return direct_view
    if name == "reshape": return direct_reshape
    if name == "permute": return direct_permute
    if name == "expand": return direct_expand
    if name == "transpose": return direct_transpose
    if name == "t": return direct_t
    if name == "_all_reversed": return direct_reversed
    if name == "_matrix_transposed": return direct_matrix_transposed
    if name == "unsqueeze": return direct_unsqueeze
    if name == "squeeze": return direct_squeeze
    if name == "flatten": return direct_flatten
    if name == "clone": return direct_clone
    if name == "contiguous": return direct_contiguous
    if name == "to": return direct_to
    if name == "tensor": return direct_tensor
    if name == "zeros": return direct_zeros
    if name == "ones": return direct_ones
    if name == "sum": return direct_sum
    if name == "mean": return direct_mean
    if name == "linear": return direct_linear
    if name == "relu": return direct_relu
    if name == "softmax": return direct_softmax
    if name == "log_softmax": return direct_log_softmax
    if name == "layer_norm": return direct_layer_norm
    if name == "mse_loss": return direct_mse_loss
    if name == "backward": return direct_backward
    if name == "cat": return direct_cat
    return NULL


Composite = composite_class()


def composite(function, handler, policy=None):
    """``function`` as users call it: its direct form first, where one of its name is known.

    ``handler(function, args, kwargs, error)`` is given every error that a call ends in; it returns
    ``(result,)``, or the error to raise. ``policy(composite, args, kwargs)`` takes the calls inside
    ``autocast``.
    """
    cdef PyObject* inside = NULL
    if policy is not None:
        inside = <PyObject*>policy
    name = function.__name__
    # A pass that failed half way cannot be run again.
    return make_composite(<PyObject*>function, <PyObject*>handler, inside, direct_form(name),
                          name == "backward")


def has_direct_form(str name):
    """Whether composites of this name have a form without a Python frame."""
    return direct_form(name) != NULL
