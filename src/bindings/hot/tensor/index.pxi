# x[...] and x[...] = v without Python frames, where the index is plain: integers, slices, None and
# Ellipsis outside the tape (one view), one tensor of positions, or a mask. Everything else, errors
# included, is tinyt.ops.index.indexing's.

cdef extern from "Python.h":
    int PySlice_Check(object)
    int PySlice_Unpack(object, Py_ssize_t*, Py_ssize_t*, Py_ssize_t*) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t*, Py_ssize_t*, Py_ssize_t)

cdef object GENERAL_GETITEM = None
cdef object GENERAL_SETITEM = None


def set_general_indexing(getitem, setitem):
    """Registers ``getitem(x, index)`` and ``setitem(x, index, value)`` for what is not plain."""
    global GENERAL_GETITEM, GENERAL_SETITEM
    GENERAL_GETITEM = getitem
    GENERAL_SETITEM = setitem


cdef object get_item(TensorBase x, object index):
    cdef bint tape = grad_mode() and wants_grad(x)
    if not is_recording():
        if isinstance(index, TensorBase):
            found = picked(x, <TensorBase>index)
        else:
            found = None if tape else plain_view(x, index)
        if found is not None:
            return found
    return general_get_item(x, index)


cdef object general_get_item(TensorBase x, object index):
    cdef CreationDevice place
    place.enter(x.t.device())   # lists become tensors there
    return GENERAL_GETITEM(x, index)


cdef int set_item(TensorBase x, object index, object value) except -1:
    cdef TensorBase view
    cdef bint number = is_number(value)
    if number:
        value = exact_number(value)
    if not is_recording() and not (grad_mode() and (
            wants_grad(x) or (isinstance(value, TensorBase) and wants_grad(<TensorBase>value)))):
        if isinstance(index, TensorBase):
            if number and fill_mask(x, (<TensorBase>index).t, value):
                return 0
        elif number or isinstance(value, TensorBase):
            view = plain_view(x, index)
            if view is not None and (number or (<TensorBase>value).t.rank() <= view.t.rank()):
                if number:
                    check_item(value, x.t.dtype())
                view._assign(value)
                return 0
    general_set_item(x, index, value)
    return 0


cdef object general_set_item(TensorBase x, object index, object value):
    cdef CreationDevice place
    place.enter(x.t.device())
    GENERAL_SETITEM(x, index, value)


cdef inline object exact_number(object x):
    """A number of a subclass of Python's as the number itself, so that its use runs no Python code;
    those that a recording follows as they are."""
    if PyFloat_CheckExact(x) or PyLong_CheckExact(x) or type(x) is bool or is_symbolic(x):
        return x
    if isinstance(x, float):
        return float.__float__(x)
    return int.__int__(x) if isinstance(x, int) else complex(x.real, x.imag)


cdef inline int check_item(object value, DType to) except -1:
    """Fails where a dtype cannot hold a number; halves take large ones as inf, as in PyTorch."""
    cdef bint half = to == DType.Float16 or to == DType.BFloat16
    return check_number("index", value, DType.Float64 if half else to)


def require_item(value, dtype to not None):
    """RuntimeError where a number cannot be written in brackets to a tensor of a dtype."""
    check_item(value, <DType>to.number)


cdef inline bint is_plain_slice(object item):
    """Whether it is a slice of exact ints and None: reading others runs Python code."""
    return PySlice_Check(item) and is_plain_bound(item.start) and (
        is_plain_bound(item.stop) and is_plain_bound(item.step))


cdef inline bint is_plain_bound(object x):
    return x is None or PyLong_CheckExact(x)


cdef TensorBase plain_view(TensorBase x, object index):
    """The view, or None where the general function must decide."""
    cdef Dims shape, strides
    cdef int64_t offset = x.t.offset()
    cdef Py_ssize_t rank = x.t.rank(), dim = 0, used = 0, size, at, start, stop, step, i, dots = 0
    cdef int overflow
    cdef tuple items = index if type(index) is tuple else (index,)
    for item in items:
        if item is Ellipsis:
            dots += 1
        elif item is not None:
            used += 1
    if used > rank or dots > 1:
        return None
    for item in items:
        if item is None:
            shape.push_back(1)
            strides.push_back(x.t.size(dim) * x.t.strides()[dim] if dim < rank else 1)
            continue
        if item is Ellipsis:
            for i in range(rank - used):
                shape.push_back(x.t.size(dim))
                strides.push_back(x.t.strides()[dim])
                dim += 1
            continue
        size = x.t.size(dim)
        if PyLong_CheckExact(item):
            at = PyLong_AsLongLongAndOverflow(item, &overflow)
            if overflow or at < -size or at >= size:
                return None
            offset += (at + size if at < 0 else at) * x.t.strides()[dim]
        elif is_plain_slice(item):
            PySlice_Unpack(item, &start, &stop, &step)
            if step < 1:
                return None
            i = PySlice_AdjustIndices(size, &start, &stop, step)
            shape.push_back(i)
            strides.push_back(x.t.strides()[dim] * step if i > 1 else x.t.strides()[dim])
            if i > 0:
                offset += start * x.t.strides()[dim]
        else:
            return None
        dim += 1
    while dim < rank:
        shape.push_back(x.t.size(dim))
        strides.push_back(x.t.strides()[dim])
        dim += 1
    return view_of(x, make_view(x.t, shape, strides, offset))


cdef bint covers(const CTensor& mask, const CTensor& x):
    """Whether a tensor is a mask of the leading dimensions of x."""
    cdef int64_t d
    if not is_bool(mask.dtype()) or mask.rank() == 0 or mask.rank() > x.rank() or (
            not mask.device() == x.device()):
        return False
    for d in range(mask.rank()):
        if mask.size(d) != x.size(d):
            return False
    return True


cdef object picked(TensorBase x, TensorBase index):
    """``x[index]`` for a tensor of positions or a mask; None where the general function decides."""
    cdef Operands operands, rows
    cdef Attrs none, attrs, dim
    cdef CTensor places
    cdef Dims sizes, strides
    cdef int64_t d
    if covers(index.t, x.t):
        operands.add(x.t, <PyObject*>x)
        operands.add(index.t, NULL)
        return finish(OP_MASKED_SELECT, operands, none, None)
    if not index.t.rank() or not x.t.rank() or not is_position(index.t.dtype()) or (
            not index.t.device() == x.t.device()):
        return None
    operands.add(index.t, NULL)
    attrs.add(1).add(x.t.size(0)).add(1).add(0)
    places = call(OP_LINEAR_INDEX, operands, attrs, NULL).first
    sizes.push_back(places.numel())
    strides.push_back(1)
    for d in range(1, x.t.rank()):
        sizes.push_back(x.t.size(d))
        strides.push_back(0)
    rows.add(x.t, <PyObject*>x)
    rows.add(make_view(places, sizes, strides, places.offset()), NULL)
    dim.add(0)
    out = finish(OP_GATHER, rows, dim, None)
    if index.t.rank() == 1:
        return out
    return run_one(OP_RESHAPE, <TensorBase>out, picked_shape(index.t.shape(), x.t.shape()))


cdef Attrs picked_shape(const Dims& index, const Dims& x):
    """The shape of an index, then the dimensions of x that it leaves."""
    cdef Attrs attrs
    cdef size_t d
    attrs.add(<int64_t>(index.size() + x.size() - 1))
    for d in range(index.size()):
        attrs.add(index[d])
    for d in range(1, x.size()):
        attrs.add(x[d])
    return attrs


cdef bint fill_mask(TensorBase x, const CTensor& mask, object value) except -1:
    """``x[mask] = number``, with a mask of every element, in one pass; False where it is not that."""
    cdef Operands operands
    cdef Attrs none
    cdef CTensor number
    if mask.rank() != x.t.rank() or not covers(mask, x.t) or not x.t.is_contiguous() or (
            x.t.storage().read_only or &mask.storage() == &x.t.storage()):
        return False
    check_item(value, x.t.dtype())
    if is_float(x.t.dtype()) and not isinstance(value, complex):
        number = CTensor.number(value)
    elif is_integral(x.t.dtype()) and isinstance(value, int):
        number = CTensor.integer(value)
    else:
        return False
    check_inplace(x)
    operands.add(mask, NULL)
    operands.add(cast(number, x.t.dtype()), NULL)
    operands.add(x.t, NULL)
    call_into(OP_WHERE, operands, none, x.t)
    return True


cdef TensorBase view_of(TensorBase x, const CTensor& t):
    """A tensor that follows writes to what it is a view of."""
    cdef TensorBase out = wrap(t)
    out.base = x if x.base is None else x.base
    out.seen_rebases = out.base.rebases
    return out
