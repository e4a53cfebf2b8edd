# Fast paths of views, copies and new tensors.

cdef object sized_view(int op, PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs attrs
    if x is None or not add_sizes(attrs, args + 1, n - 1):
        return NotImplemented
    return run_one(op, x, attrs)


cdef object fast_reshape(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return sized_view(OP_RESHAPE, args, n, names)


cdef object fast_permute(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return sized_view(OP_PERMUTE, args, n, names)


cdef object fast_expand(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return sized_view(OP_EXPAND, args, n, names)


cdef object fast_view(PyObject* const* args, Py_ssize_t n, PyObject* names):
    out = NotImplemented if is_recording() else sized_view(OP_RESHAPE, args, n, names)
    if out is NotImplemented or &(<TensorBase>out).t.storage() != &(
            <TensorBase><object>args[0]).t.storage():
        return NotImplemented   # a copy is no view
    return out


cdef object swapped(TensorBase x, int64_t a, int64_t b):
    cdef Attrs order
    cdef int64_t d, rank = x.t.rank()
    order.add(rank)
    for d in range(rank):
        order.add(b if d == a else a if d == b else d)
    return run_one(OP_PERMUTE, x, order)


cdef object fast_transpose(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef int64_t a, b
    if x is None or n != 3 or not (as_dim(<object>args[1], x.t.rank(), &a)
                                   and as_dim(<object>args[2], x.t.rank(), &b)):
        return NotImplemented
    return swapped(x, a, b)


cdef object fast_t(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    if x is None or n != 1 or x.t.rank() > 2:
        return NotImplemented
    return swapped(x, 0, x.t.rank() - 1)


cdef object fast_reversed(PyObject* const* args, Py_ssize_t n, PyObject* names):
    """``x.T``."""
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs order
    cdef int64_t d
    if x is None or n != 1:
        return NotImplemented
    order.add(x.t.rank())
    for d in range(x.t.rank()):
        order.add(x.t.rank() - 1 - d)
    return run_one(OP_PERMUTE, x, order)


cdef object fast_matrix_transposed(PyObject* const* args, Py_ssize_t n, PyObject* names):
    """``x.mT``."""
    cdef TensorBase x = operand(args, n, names)
    return NotImplemented if x is None or n != 1 or x.t.rank() < 2 else transposed(x)


cdef object fast_unsqueeze(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs shape
    cdef int64_t at, d
    if x is None or n != 2 or not as_dim(<object>args[1], x.t.rank() + 1, &at):
        return NotImplemented
    shape.add(x.t.rank() + 1)
    for d in range(x.t.rank() + 1):
        if d == at:
            shape.add(1)
        else:
            add_sizes_of(shape, x.t, d - (d > at), d - (d > at) + 1)
    return run_one(OP_RESHAPE, x, shape)


cdef object fast_squeeze(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs shape
    cdef vector[size_t] kept
    cdef int64_t at = -1, d
    if x is None or n > 2 or (n == 2 and not as_dim(<object>args[1], x.t.rank(), &at)):
        return NotImplemented
    for d in range(x.t.rank()):
        if (n == 2 and d != at) or not size_is(x.t, d, 1):
            kept.push_back(d)
    shape.add(<int64_t>kept.size())
    for at in kept:
        add_sizes_of(shape, x.t, at, at + 1)
    return run_one(OP_RESHAPE, x, shape)


cdef object fast_flatten(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs shape
    cdef int64_t first = 0, last, d
    if x is None or n > 3 or x.t.rank() == 0:
        return NotImplemented
    last = x.t.rank() - 1
    if n > 1 and not as_dim(<object>args[1], x.t.rank(), &first) or (
            n > 2 and not as_dim(<object>args[2], x.t.rank(), &last)) or first > last:
        return NotImplemented
    shape.add(x.t.rank() - (last - first))
    for d in range(x.t.rank()):
        if d < first or d > last:
            add_sizes_of(shape, x.t, d, d + 1)
        elif d == last:
            add_sizes_of(shape, x.t, first, last + 1)
    return run_one(OP_RESHAPE, x, shape)


# ---- copies and conversions

cdef object fast_clone(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    return NotImplemented if x is None or n != 1 else run_one(OP_COPY, x, Attrs())


cdef object fast_contiguous(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    if x is None or n != 1:
        return NotImplemented
    return x if is_dense(x.t) else run_one(OP_COPY, x, Attrs())


cdef object fast_to(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    if x is None or n != 2 or not isinstance(<object>args[1], dtype):
        return NotImplemented
    return convert(x, <DType>(<dtype><object>args[1]).number)


# ---- new tensors

cdef bint plain_dtype(PyObject* const* args, Py_ssize_t n, PyObject* names, int* number):
    """Reads ``dtype=``, the only keyword of a plain call; the default where there is none."""
    number[0] = <int>default_dtype()
    if names == NULL:
        return True
    if not only_name(names, "dtype"):
        return False
    if isinstance(<object>args[n], dtype):
        number[0] = (<dtype><object>args[n]).number
        return True
    return <object>args[n] is None


cdef object constant(PyObject* const* args, Py_ssize_t n, PyObject* names, int value):
    cdef Operands none
    cdef Attrs attrs
    cdef int number
    if not plain_dtype(args, n, names, &number) or not add_sizes(attrs, args, n):
        return NotImplemented
    attrs.add(number).add(value).add(code_of(t_device)).add_float(value).add_float(0)
    return finish(OP_FILL, none, attrs, None)


cdef object fast_zeros(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return constant(args, n, names, 0)


cdef object fast_ones(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return constant(args, n, names, 1)


cdef object fast_tensor(PyObject* const* args, Py_ssize_t n, PyObject* names):
    """A number, or one list or tuple of numbers."""
    cdef int number = -1
    if n != 1 or is_recording() or (
            names != NULL and not plain_dtype(args, n, names, &number)):
        return NotImplemented
    if names != NULL and <object>args[1] is None:
        number = -1
    data = <object>args[0]
    if type(data) is list or type(data) is tuple:
        for item in data:
            if not is_plain_number(item):
                return NotImplemented
    elif not is_plain_number(data):
        return NotImplemented
    made = wrap(from_sequence(<PyObject*>data, number, False))
    if has_other_devices():
        made.t = to_device(made.t, t_device)
    return made


cdef inline bint is_plain_number(object x):
    return PyFloat_CheckExact(x) or PyLong_CheckExact(x) or type(x) is bool
