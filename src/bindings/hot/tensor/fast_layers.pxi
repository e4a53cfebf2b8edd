# Fast paths of reductions, layers and what joins tensors.

cdef bint add_reduced(Attrs& attrs, TensorBase x, PyObject* const* args, Py_ssize_t n,
                      PyObject* names):
    """Adds the dims and keepdim of a reduction, given as none or one of each."""
    cdef int64_t dim
    keepdim = False
    if names != NULL:
        if n != 2 or not only_name(names, "keepdim"):
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


cdef object fast_sum(PyObject* const* args, Py_ssize_t n, PyObject* names):
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


cdef object average(TensorBase x, CTensor count, const Attrs& attrs):
    """The sum that the attributes say, divided by the number of elements in it."""
    cdef Operands quotient
    cdef Attrs none
    cdef DType kept = x.t.dtype()
    if kept == DType.Float16:   # whose range the sum may leave
        x = convert(x, DType.Float32)
    total = run_one(OP_SUM, x, attrs)
    quotient.add((<TensorBase>total).t, <PyObject*>total)
    quotient.add(count, NULL)
    return convert(<TensorBase>finish(OP_DIV, quotient, none, None), kept)


cdef object fast_mean(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, NULL)
    cdef Attrs attrs
    cdef int64_t dim
    if x is None or not add_reduced(attrs, x, args, n, names) or not (
            is_float(x.t.dtype()) or is_complex(x.t.dtype())):
        return NotImplemented
    if n == 1:
        return average(x, count_of(x.t, 0, x.t.rank()), attrs)
    as_dim(<object>args[1], x.t.rank(), &dim)
    return average(x, count_of(x.t, dim, dim + 1), attrs)


cdef object fast_linear(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names), weight, bias = None
    cdef Operands operands
    cdef Attrs none
    if x is None or n < 2 or n > 3 or not isinstance(<object>args[1], TensorBase):
        return NotImplemented
    weight = <TensorBase>args[1]
    if n == 3 and <object>args[2] is not None:
        if not isinstance(<object>args[2], TensorBase):
            return NotImplemented
        bias = <TensorBase>args[2]
        if bias.t.rank() == 0:   # none, to the primitive
            return NotImplemented
    operands.add(x.t, <PyObject*>x)
    operands.add(weight.t, <PyObject*>weight)
    if bias is None:
        operands.add(CTensor.number(0), NULL)
    else:
        operands.add(bias.t, <PyObject*>bias)
    return finish(OP_LINEAR, operands, none, None)


cdef object fast_relu(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names)
    return NotImplemented if x is None or n != 1 else run_one(OP_RELU, x, Attrs())


cdef object along(int op, PyObject* const* args, Py_ssize_t n, PyObject* names):
    """An op of one tensor and a dim, by position or by name."""
    cdef TensorBase x = operand(args, n, NULL)
    cdef Attrs attrs
    cdef int64_t dim
    if names != NULL and not only_name(names, "dim"):
        return NotImplemented
    if x is None or n + (names != NULL) != 2 or not as_dim(<object>args[1], x.t.rank(), &dim):
        return NotImplemented
    attrs.add(dim)
    return run_one(op, x, attrs)


cdef object fast_softmax(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return along(OP_SOFTMAX, args, n, names)


cdef object fast_log_softmax(PyObject* const* args, Py_ssize_t n, PyObject* names):
    return along(OP_LOG_SOFTMAX, args, n, names)


cdef bint same_shape(TensorBase part, const Dims& shape):
    return part is None or part.t.shape() == shape


cdef object fast_layer_norm(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names), weight = None, bias = None
    cdef Operands operands
    cdef Attrs attrs
    cdef Dims shape
    cdef CTensor one
    cdef double eps = 1e-5
    cdef int64_t size
    cdef Py_ssize_t lead
    if x is None or n < 2 or n > 5 or not isinstance(<object>args[1], (tuple, list)):
        return NotImplemented
    if n > 4:
        eps = <object>args[4]   # whose conversion may run Python code: before x is looked at
    if not is_float(x.t.dtype()):
        return NotImplemented
    for item in <object>args[1]:
        if not as_int(plain_symbol(item), &size):
            return NotImplemented
        shape.push_back(size)
    lead = x.t.rank() - <Py_ssize_t>shape.size()
    if lead < 0 or shape.size() == 0:
        return NotImplemented
    for size in range(<int64_t>shape.size()):
        if not size_is(x.t, size + lead, shape[size]):
            return NotImplemented
    if n > 2 and <object>args[2] is not None:
        weight = <TensorBase?><object>args[2]
    if n > 3 and <object>args[3] is not None:
        bias = <TensorBase?><object>args[3]
    if not same_shape(weight, shape) or not same_shape(bias, shape):
        return NotImplemented
    if (weight is not None and weight.t.dtype() != x.t.dtype()) or (
            bias is not None and bias.t.dtype() != x.t.dtype()):
        return NotImplemented
    operands.add(x.t, <PyObject*>x)
    if weight is None or bias is None:
        one = to_device(cast(CTensor.number(1), x.t.dtype()), x.t.device())
    for part in (weight, bias):
        if part is None:
            operands.add(one, NULL)
        else:
            operands.add((<TensorBase>part).t, <PyObject*>part)
    attrs.add(<int64_t>shape.size()).add(1).add_float(eps)
    return finish(OP_LAYER_NORM, operands, attrs, None, True)


cdef object fast_mse_loss(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase x = operand(args, n, names), target, losses
    if x is None or n != 2 or not isinstance(<object>args[1], TensorBase):
        return NotImplemented
    target = <TensorBase>args[1]
    if not is_float(x.t.dtype()) or not is_float(target.t.dtype()) or not (
            same_sizes(x.t, target.t)):
        return NotImplemented
    losses = <TensorBase>run_one(OP_SQUARE, <TensorBase>binary(OP_SUB, x, target), Attrs())
    return average(losses, count_of(losses.t, 0, losses.t.rank()), whole())


cdef object fast_cat(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef Operands tensors
    cdef Attrs attrs
    cdef int64_t dim = 0
    if names != NULL or n < 1 or n > 2 or not isinstance(<object>args[0], (tuple, list)) or (
            n == 2 and not as_int(<object>args[1], &dim)):
        return NotImplemented
    parts = tuple(<object>args[0])   # another thread may change a list while the op runs
    for x in <tuple>parts:
        if not isinstance(x, TensorBase):
            return NotImplemented
        tensors.add((<TensorBase>x).t, <PyObject*>x)
    attrs.add(dim)
    return finish(OP_CAT, tensors, attrs, None)
