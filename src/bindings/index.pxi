# x[...] for integers, slices, None and Ellipsis outside the tape: one view, no Python frames.
# Everything else, errors included, is tinyt.ops.indexing's.

cdef extern from "Python.h":
    int PySlice_Check(object)
    int PySlice_Unpack(object, Py_ssize_t*, Py_ssize_t*, Py_ssize_t*) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t*, Py_ssize_t*, Py_ssize_t)

cdef object GENERAL_GETITEM = None


def set_general_getitem(function):
    """Registers ``function(x, index)`` for every index that is not a plain view."""
    global GENERAL_GETITEM
    GENERAL_GETITEM = function


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
        elif PySlice_Check(item):
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


cdef TensorBase view_of(TensorBase x, const CTensor& t):
    """A tensor that follows writes to what it is a view of."""
    cdef TensorBase out = wrap(t)
    out.base = x if x.base is None else x.base
    out.seen_rebases = out.base.rebases
    return out
