# Fast paths of frequent composites: the same primitives, without a Python frame. Each takes the
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


cdef inline bint only_name(PyObject* names, str name):
    """Whether a call has this one keyword."""
    return len(<tuple><object>names) == 1 and (<tuple><object>names)[0] == name


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


cdef FastPath fast_path(str name):
    if name == "view": return fast_view
    if name == "reshape": return fast_reshape
    if name == "permute": return fast_permute
    if name == "expand": return fast_expand
    if name == "transpose": return fast_transpose
    if name == "t": return fast_t
    if name == "_all_reversed": return fast_reversed
    if name == "_matrix_transposed": return fast_matrix_transposed
    if name == "unsqueeze": return fast_unsqueeze
    if name == "squeeze": return fast_squeeze
    if name == "flatten": return fast_flatten
    if name == "clone": return fast_clone
    if name == "contiguous": return fast_contiguous
    if name == "to": return fast_to
    if name == "tensor": return fast_tensor
    if name == "zeros": return fast_zeros
    if name == "ones": return fast_ones
    if name == "sum": return fast_sum
    if name == "mean": return fast_mean
    if name == "linear": return fast_linear
    if name == "relu": return fast_relu
    if name == "softmax": return fast_softmax
    if name == "log_softmax": return fast_log_softmax
    if name == "layer_norm": return fast_layer_norm
    if name == "mse_loss": return fast_mse_loss
    if name == "backward": return fast_backward
    if name == "cat": return fast_cat
    return NULL


Composite = composite_class()


def composite(function, handler, policy=None):
    """``function`` as users call it: its fast path first, where one of its name is known.

    ``handler(function, args, kwargs, error)`` is given every error that a call ends in; it returns
    ``(result,)``, or the error to raise. ``policy(composite, args, kwargs)`` takes the calls inside
    ``autocast``.
    """
    cdef PyObject* inside = NULL
    if policy is not None:
        inside = <PyObject*>policy
    name = function.__name__
    # A pass that failed half way cannot be run again.
    return make_composite(<PyObject*>function, <PyObject*>handler, inside, fast_path(name),
                          name == "backward")


def has_fast_path(str name):
    """Whether composites of this name have a form without a Python frame."""
    return fast_path(name) != NULL
