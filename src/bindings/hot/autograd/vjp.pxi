# The functions of the most frequent gradient rules, compiled. The rules themselves, which name what
# each reads, are those of tinyt.autograd.rules; like all functions there, these call recorded
# operations, so that second derivatives follow.

ctypedef object (*VjpCall)(TensorBase, Node)


@cython.final
cdef class Vjp:
    """A compiled ``f(g, n)``; where it declines, the Python function that it stands for."""

    cdef VjpCall compiled
    cdef object general

    def __call__(self, TensorBase g not None, Node n not None):
        return vjp(self, g, n)


cdef object vjp(object function, TensorBase g, Node n):
    """The gradient that a function of a rule gives."""
    if type(function) is not Vjp:
        return function(g, n)
    result = (<Vjp>function).compiled(g, n)
    return (<Vjp>function).general(g, n) if result is NotImplemented else result


cdef object vjp_same(TensorBase g, Node n):
    return g


cdef object vjp_negative(TensorBase g, Node n):
    return run_one(OP_NEG, g, Attrs())


cdef object vjp_times_left(TensorBase g, Node n):
    return binary(OP_MUL, g, n.unpack(0, 0))


cdef object vjp_times_right(TensorBase g, Node n):
    return binary(OP_MUL, g, n.unpack(1, 1))


cdef object vjp_over_right(TensorBase g, Node n):
    return binary(OP_DIV, g, n.unpack(1, 1))


cdef object vjp_square(TensorBase g, Node n):
    return binary(OP_MUL, g, binary(OP_MUL, n.unpack(0, 0), 2.0))


# The rows of activations' gradients, by the activation's number.
cdef vector[int] ACTIVATION_GRADIENTS
_numbers = {op_name(_op): _op for _op in range(kCallableCount)}
for _op in range(kCallableCount):
    ACTIVATION_GRADIENTS.push_back(_numbers.get(op_name(_op) + "_backward", -1))


cdef object vjp_from_input(TensorBase g, Node n):
    """By the row of an activation's gradient, unless that is differentiated too."""
    if grad_mode():
        return NotImplemented
    return binary(ACTIVATION_GRADIENTS[n.op], g, n.unpack(0, 0))


cdef object vjp_from_output(TensorBase g, Node n):
    if grad_mode():
        return NotImplemented
    return binary(ACTIVATION_GRADIENTS[n.op], g, n.unpack(n.data.inputs.size(), -1))


cdef object vjp_reshape(TensorBase g, Node n):
    return run_one(OP_RESHAPE, g, sizes_attr(n.data.inputs[0]))


cdef object vjp_permute(TensorBase g, Node n):
    """By the inverse of the order."""
    cdef Attrs order
    cdef int64_t d, rank = g.t.rank(), at
    order.add(rank)
    for d in range(rank):
        for at in range(rank):
            if n.data.attrs.ints[1 + at] == d:
                order.add(at)
    return run_one(OP_PERMUTE, g, order)


cdef object vjp_sum(TensorBase g, Node n):
    """Repeated along the dimensions that were summed."""
    cdef const Dims* shape = &n.data.inputs[0].shape
    cdef int64_t i, count = n.data.attrs.ints[0], next = 0
    cdef Attrs kept
    if n.data.attrs.ints[1 + count] == 0 and count:   # without keepdim
        kept.add(<int64_t>shape.size())
        for i in range(<int64_t>shape.size()):
            if next < count and n.data.attrs.ints[1 + next] == i:
                kept.add(1)
                next += 1
            else:
                add_sizes_of(kept, n.data.inputs[0], i, i + 1)
        g = <TensorBase>run_one(OP_RESHAPE, g, kept)
    return run_one(OP_EXPAND, g, sizes_attr(n.data.inputs[0]))


cdef object transposed(TensorBase x):
    """x with its last two dimensions swapped."""
    return swapped(x, x.t.rank() - 2, x.t.rank() - 1)


cdef object vjp_matmul_left(TensorBase g, Node n):
    if n.data.inputs[0].shape.size() < 2 or n.data.inputs[1].shape.size() < 2:
        return NotImplemented
    return binary(OP_MATMUL, g, transposed(n.unpack(1, 1)))


cdef object vjp_matmul_right(TensorBase g, Node n):
    if n.data.inputs[0].shape.size() < 2 or n.data.inputs[1].shape.size() < 2:
        return NotImplemented
    if n.data.inputs[1].shape.size() == 2:
        return product_over_rows(n.unpack(0, 0), g)
    return binary(OP_MATMUL, transposed(n.unpack(0, 0)), g)


cdef object product_over_rows(TensorBase a, TensorBase b):
    """The transpose of one times the other, both as matrices: no product for each of a batch."""
    return binary(OP_MATMUL, transposed(as_rows(a)), as_rows(b))


cdef TensorBase as_rows(TensorBase x):
    """x as a matrix of its lines along the last dimension."""
    cdef Attrs shape
    cdef int64_t rank = x.t.rank()
    if x.t.rank() == 2:
        return x
    shape.add(2)
    add_sizes_of(shape, x.t, 0, rank - 1)
    add_sizes_of(shape, x.t, rank - 1, rank)
    return <TensorBase>run_one(OP_RESHAPE, x, shape)


cdef object vjp_linear_input(TensorBase g, Node n):
    return binary(OP_MATMUL, g, n.unpack(1, 1))


cdef object vjp_linear_weight(TensorBase g, Node n):
    return product_over_rows(g, n.unpack(0, 0))


cdef Attrs list_attr(const Dims& values):
    cdef Attrs attrs
    cdef size_t i
    attrs.add(<int64_t>values.size())
    for i in range(values.size()):
        attrs.add(values[i])
    return attrs


def compiled_vjp(str name, general=None):
    """The compiled function of a gradient rule; ``general`` is called where it declines."""
    cdef Vjp out = <Vjp>Vjp.__new__(Vjp)
    out.general = general
    if name == "same": out.compiled = vjp_same
    elif name == "negative": out.compiled = vjp_negative
    elif name == "times_left": out.compiled = vjp_times_left
    elif name == "times_right": out.compiled = vjp_times_right
    elif name == "over_right": out.compiled = vjp_over_right
    elif name == "square": out.compiled = vjp_square
    elif name == "from_input": out.compiled = vjp_from_input
    elif name == "from_output": out.compiled = vjp_from_output
    elif name == "reshape": out.compiled = vjp_reshape
    elif name == "permute": out.compiled = vjp_permute
    elif name == "sum": out.compiled = vjp_sum
    elif name == "matmul_left": out.compiled = vjp_matmul_left
    elif name == "matmul_right": out.compiled = vjp_matmul_right
    elif name == "linear_input": out.compiled = vjp_linear_input
    elif name == "linear_weight": out.compiled = vjp_linear_weight
    else:
        raise ValueError(f"slope: {name!r} is not compiled")
    return out
