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


cdef bint add_sizes(Attrs& attrs, PyObject* const* args, Py_ssize_t n):
    """Adds sizes given one by one, or as a tuple or list; False where they are no plain ints."""
    cdef int64_t size
    cdef Py_ssize_t i
    if n == 1 and isinstance(<object>args[0], (tuple, list)):
        attrs.add(<int64_t>len(<object>args[0]))
        for item in <object>args[0]:
            if not as_int(item, &size):
                return False
            attrs.add(size)
        return True
    attrs.add(<int64_t>n)
    for i in range(n):
        if not as_int(<object>args[i], &size):
            return False
        attrs.add(size)
    return n > 0


cdef inline TensorBase operand(PyObject* const* args, Py_ssize_t n, PyObject* names):
    """The first argument of a call without keywords, or None where it is no tensor."""
    return <TensorBase>args[0] if names == NULL and n > 0 and isinstance(
        <object>args[0], TensorBase) else None


cdef object sized_view(int op, PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs attrs
    if x is None or not add_sizes(attrs, args + 1, n - 1):
        return NotImplemented
    return run_one(op, x, attrs)


cdef object direct_reshape(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return sized_view(OP_RESHAPE, args, n, names)


cdef object direct_permute(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return sized_view(OP_PERMUTE, args, n, names)


cdef object direct_expand(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return sized_view(OP_EXPAND, args, n, names)


cdef object direct_view(PyObject* const* args, Py_ssize_t n, PyObject* names):
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


cdef object direct_transpose(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef int64_t a, b
    if x is None or n != 3 or not (as_dim(<object>args[1], x.t.rank(), &a)
                                   and as_dim(<object>args[2], x.t.rank(), &b)):
        return NotImplemented
    return swapped(x, a, b)


cdef object direct_t(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    if x is None or n != 1 or x.t.rank() > 2:
        return NotImplemented
    return swapped(x, 0, x.t.rank() - 1)


cdef object direct_unsqueeze(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs shape
    cdef int64_t at, d
    if x is None or n != 2 or not as_dim(<object>args[1], x.t.rank() + 1, &at):
        return NotImplemented
    shape.add(x.t.rank() + 1)
    for d in range(x.t.rank() + 1):
        shape.add(1 if d == at else x.t.size(d - (d > at)))
    return run_one(OP_RESHAPE, x, shape)


cdef object direct_squeeze(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Dims kept
    cdef Attrs shape
    cdef int64_t at = -1, d
    if x is None or n > 2 or (n == 2 and not as_dim(<object>args[1], x.t.rank(), &at)):
        return NotImplemented
    for d in range(x.t.rank()):
        if x.t.size(d) != 1 or (n == 2 and d != at):
            kept.push_back(x.t.size(d))
    shape.add(<int64_t>kept.size())
    for d in range(<int64_t>kept.size()):
        shape.add(kept[d])
    return run_one(OP_RESHAPE, x, shape)


cdef object direct_flatten(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    cdef Attrs shape
    cdef int64_t first = 0, last, d, joined = 1
    if x is None or n > 3 or x.t.rank() == 0:
        return NotImplemented
    last = x.t.rank() - 1
    if n > 1 and not as_dim(<object>args[1], x.t.rank(), &first) or (
            n > 2 and not as_dim(<object>args[2], x.t.rank(), &last)) or first > last:
        return NotImplemented
    shape.add(x.t.rank() - (last - first))
    for d in range(x.t.rank()):
        if d < first or d > last:
            shape.add(x.t.size(d))
            continue
        joined *= x.t.size(d)
        if d == last:
            shape.add(joined)
    return run_one(OP_RESHAPE, x, shape)


# ---- copies and conversions

cdef object direct_clone(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    return NotImplemented if x is None or n != 1 else run_one(OP_COPY, x, Attrs())


cdef object direct_contiguous(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    if x is None or n != 1:
        return NotImplemented
    return x if x.t.is_contiguous() else run_one(OP_COPY, x, Attrs())


cdef object direct_to(PyObject* const* args, Py_ssize_t n, PyObject* names):
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
    if len(<tuple><object>names) != 1 or (<tuple><object>names)[0] != "dtype":
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
    attrs.add(number).add(value).add_float(value).add_float(0)
    return finish(OP_FILL, none, attrs, None)


cdef object direct_zeros(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return constant(args, n, names, 0)


cdef object direct_ones(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return constant(args, n, names, 1)


# ---- reductions and layers

cdef bint add_reduced(Attrs& attrs, TensorBase x, PyObject* const* args, Py_ssize_t n,
                      PyObject* names):
    """Adds the dims and keepdim of a reduction, given as none or one of each."""
    cdef int64_t dim
    keepdim = False
    if names != NULL:
        if len(<tuple><object>names) != 1 or (<tuple><object>names)[0] != "keepdim" or n != 2:
            return False
        keepdim = <object>args[n]
    elif n == 3:
        keepdim = <object>args[2]
    if n > 3 or not isinstance(keepdim, bool):
        return False
    if n > 1:
        if not as_dim(<object>args[1], x.t.rank(), &dim):
            return False
        attrs.add(1).add(dim)
    else:
        attrs.add(0)
    attrs.add(<int64_t>(keepdim is True))
    return True


cdef object direct_sum(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, NULL)
    cdef Attrs attrs
    if x is None or not add_reduced(attrs, x, args, n, names):
        return NotImplemented
    return run_one(OP_SUM, x, attrs)


cdef Attrs whole():
    """The attributes of a reduction of everything."""
    cdef Attrs attrs
    attrs.add(0).add(0)
    return attrs


cdef object average(TensorBase x, int64_t count, const Attrs& attrs):
    """The sum that the attributes say, divided by the number of elements in it."""
    cdef Operands quotient
    cdef Attrs none
    total = run_one(OP_SUM, x, attrs)
    quotient.add((<TensorBase>total).t, <PyObject*>total)
    quotient.add(CTensor.number(<double>count), NULL)
    return finish(OP_DIV, quotient, none, None)


cdef object direct_mean(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, NULL)
    cdef Attrs attrs
    cdef int64_t dim, count
    if x is None or not add_reduced(attrs, x, args, n, names) or not (
            is_float(x.t.dtype()) or is_complex(x.t.dtype())):
        return NotImplemented
    count = x.t.numel()
    if n > 1:
        as_dim(<object>args[1], x.t.rank(), &dim)
        count = x.t.size(dim)
    return average(x, count, attrs)


cdef object direct_linear(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names), weight, columns, bias
    cdef Operands operands
    cdef Attrs attrs
    if x is None or n < 2 or n > 3 or not isinstance(<object>args[1], TensorBase):
        return NotImplemented
    weight = <TensorBase>args[1]
    if x.t.rank() == 0 or weight.t.rank() != 2 or (
            x.t.size(x.t.rank() - 1) != weight.t.size(1)):
        return NotImplemented
    if n == 2 or <object>args[2] is None:
        return binary(OP_MATMUL, x, swapped(weight, 0, 1))
    if not isinstance(<object>args[2], TensorBase):
        return NotImplemented
    bias = <TensorBase>args[2]
    if bias.t.rank() != 1 or bias.t.dtype() != x.t.dtype():
        return NotImplemented
    columns = <TensorBase>swapped(weight, 0, 1)
    operands.add(x.t, <PyObject*>x)
    operands.add(columns.t, <PyObject*>columns)
    operands.add(bias.t, <PyObject*>bias)
    return finish(OP_MATMUL_ADD, operands, attrs, None)


cdef object direct_relu(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    return NotImplemented if x is None or n != 1 else run_one(OP_RELU, x, Attrs())


cdef object along(int op, PyObject* const* args, Py_ssize_t n, PyObject* names):
    """An op of one tensor and a dim, by position or by name."""
    cdef TensorBase x = operand(args, n, NULL)
    cdef Attrs attrs
    cdef int64_t dim
    if names != NULL and (len(<tuple><object>names) != 1 or (<tuple><object>names)[0] != "dim"):
        return NotImplemented
    if x is None or n + (names != NULL) != 2 or not as_dim(<object>args[1], x.t.rank(), &dim):
        return NotImplemented
    attrs.add(dim)
    return run_one(op, x, attrs)


cdef object direct_softmax(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return along(OP_SOFTMAX, args, n, names)


cdef object direct_log_softmax(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return along(OP_LOG_SOFTMAX, args, n, names)


cdef bint same_shape(TensorBase part, const Dims& shape):
    return part is None or part.t.shape() == shape


cdef object direct_layer_norm(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names), weight = None, bias = None
    cdef Operands operands
    cdef Attrs attrs
    cdef Dims shape
    cdef CTensor one
    cdef double eps = 1e-5
    cdef int64_t size
    cdef Py_ssize_t lead
    if x is None or n < 2 or n > 5 or not is_float(x.t.dtype()) or not isinstance(
            <object>args[1], (tuple, list)):
        return NotImplemented
    for item in <object>args[1]:
        if not as_int(item, &size):
            return NotImplemented
        shape.push_back(size)
    lead = x.t.rank() - <Py_ssize_t>shape.size()
    if lead < 0 or shape.size() == 0:
        return NotImplemented
    for size in range(<int64_t>shape.size()):
        if shape[size] != x.t.size(size + lead):
            return NotImplemented
    if n > 2 and <object>args[2] is not None:
        weight = <TensorBase?><object>args[2]
    if n > 3 and <object>args[3] is not None:
        bias = <TensorBase?><object>args[3]
    if n > 4:
        eps = <object>args[4]
    if not same_shape(weight, shape) or not same_shape(bias, shape):
        return NotImplemented
    if (weight is not None and weight.t.dtype() != x.t.dtype()) or (
            bias is not None and bias.t.dtype() != x.t.dtype()):
        return NotImplemented
    operands.add(x.t, <PyObject*>x)
    if weight is None or bias is None:
        one = cast(CTensor.number(1), x.t.dtype())
    for part in (weight, bias):
        if part is None:
            operands.add(one, NULL)
        else:
            operands.add((<TensorBase>part).t, <PyObject*>part)
    attrs.add(<int64_t>shape.size()).add(1).add_float(eps)
    return finish(OP_LAYER_NORM, operands, attrs, None)[0]


cdef object direct_mse_loss(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names), target
    if x is None or n != 2 or not isinstance(<object>args[1], TensorBase):
        return NotImplemented
    target = <TensorBase>args[1]
    if not is_float(x.t.dtype()) or not is_float(target.t.dtype()) or not (
            x.t.shape() == target.t.shape()):
        return NotImplemented
    losses = run_one(OP_SQUARE, <TensorBase>binary(OP_SUB, x, target), Attrs())
    return average(<TensorBase>losses, (<TensorBase>losses).t.numel(), whole())


cdef object direct_cat(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef Operands tensors
    cdef Attrs attrs
    cdef int64_t dim = 0
    if names != NULL or n < 1 or n > 2 or not isinstance(<object>args[0], (tuple, list)) or (
            n == 2 and not as_int(<object>args[1], &dim)):
        return NotImplemented
    for x in <object>args[0]:
        if not isinstance(x, TensorBase):
            return NotImplemented
        tensors.add((<TensorBase>x).t, <PyObject*>x)
    attrs.add(dim)
    return finish(OP_CAT, tensors, attrs, None)


cdef DirectCall direct_form(str name):
    if name == "view": return direct_view
    if name == "reshape": return direct_reshape
    if name == "permute": return direct_permute
    if name == "expand": return direct_expand
    if name == "transpose": return direct_transpose
    if name == "t": return direct_t
    if name == "unsqueeze": return direct_unsqueeze
    if name == "squeeze": return direct_squeeze
    if name == "flatten": return direct_flatten
    if name == "clone": return direct_clone
    if name == "contiguous": return direct_contiguous
    if name == "to": return direct_to
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
