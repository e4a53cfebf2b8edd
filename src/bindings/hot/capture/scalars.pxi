# Symbolic scalars as Python's numbers: what is computed of them is an expression, a comparison is a
# guard, and whoever takes the plain number (C code, a format, a hash) guards on its value.

import math
import operator

cdef object MOST = 1 << 63
cdef object MOST_REAL = 1 << 53

cdef ScalarTest[6] TESTS
TESTS[Py_LT], TESTS[Py_LE], TESTS[Py_EQ] = ScalarTest.Lt, ScalarTest.Le, ScalarTest.Eq
TESTS[Py_NE], TESTS[Py_GT], TESTS[Py_GE] = ScalarTest.Ne, ScalarTest.Gt, ScalarTest.Ge
cdef list COMPARISONS = [None] * 6
COMPARISONS[Py_LT], COMPARISONS[Py_LE] = operator.lt, operator.le
COMPARISONS[Py_EQ], COMPARISONS[Py_NE] = operator.eq, operator.ne
COMPARISONS[Py_GT], COMPARISONS[Py_GE] = operator.gt, operator.ge

# No operation on ints, or on floats, that a table has.
cdef ScalarOp NONE = ScalarOp.Int

cdef enum Owner:   # whose table of expressions
    RUNTIME   # the recording's: floats that a program reads anew at every run
    LOG       # the recording's capture log: sizes of tensors
    PASSES    # that of a SizeGuards: sizes in a graph that passes simplify


cdef class SymScalar:
    """An int or float that a compiled program reads anew, and what is computed of it.

    It is no subclass of either, so that C code must ask for its value, which is a guard then; for
    ``isinstance`` it is one.
    """

    def __add__(self, other):
        return combined(ScalarOp.Add, ScalarOp.RealAdd, operator.add, self, other)

    def __radd__(self, other):
        return combined(ScalarOp.Add, ScalarOp.RealAdd, operator.add, other, self)

    def __sub__(self, other):
        return combined(ScalarOp.Sub, ScalarOp.RealSub, operator.sub, self, other)

    def __rsub__(self, other):
        return combined(ScalarOp.Sub, ScalarOp.RealSub, operator.sub, other, self)

    def __mul__(self, other):
        return combined(ScalarOp.Mul, ScalarOp.RealMul, operator.mul, self, other)

    def __rmul__(self, other):
        return combined(ScalarOp.Mul, ScalarOp.RealMul, operator.mul, other, self)

    def __truediv__(self, other):
        return combined(NONE, ScalarOp.RealDiv, operator.truediv, self, other)

    def __rtruediv__(self, other):
        return combined(NONE, ScalarOp.RealDiv, operator.truediv, other, self)

    def __floordiv__(self, other):
        return combined(ScalarOp.FloorDiv, NONE, operator.floordiv, self, other)

    def __rfloordiv__(self, other):
        return combined(ScalarOp.FloorDiv, NONE, operator.floordiv, other, self)

    def __mod__(self, other):
        return combined(ScalarOp.Mod, NONE, operator.mod, self, other)

    def __rmod__(self, other):
        return combined(ScalarOp.Mod, NONE, operator.mod, other, self)

    def __divmod__(self, other):
        if not is_plain_number(other) and not is_symbolic(other):
            return divmod(plain_symbol(self), other)
        return self // other, self % other

    def __rdivmod__(self, other):
        if not is_plain_number(other):
            return divmod(other, plain_symbol(self))
        return other // self, other % self

    def __pow__(self, other, modulus):
        if modulus is not None:
            return pow(plain_symbol(self), plain_symbol(other), plain_symbol(modulus))
        return combined(NONE, ScalarOp.RealPow, operator.pow, self, other)

    def __rpow__(self, other, modulus):
        if modulus is not None:
            return pow(plain_symbol(other), plain_symbol(self), plain_symbol(modulus))
        return combined(NONE, ScalarOp.RealPow, operator.pow, other, self)

    def __pos__(self):
        return self

    def __richcmp__(self, other, int op):
        cdef SymbolicScalars* table
        if isinstance(other, TensorBase):
            return NotImplemented
        table = table_of(self)
        other = of_table(table, other)
        value = (<SymScalar>other).value if is_symbolic(other) else other
        if table == NULL or not is_exact(value):
            return COMPARISONS[op](plain_symbol(self), plain_symbol(other))
        if PyLong_CheckExact(self.value) and PyLong_CheckExact(value):
            return table.test(TESTS[op], self.row, row_of(table, other))
        if not is_double(self.value) or not is_double(value):   # Python compares them exactly
            return COMPARISONS[op](plain_symbol(self), plain_symbol(other))
        return table.test(TESTS[op], real_row_of(table, self), real_row_of(table, other))

    def __bool__(self):
        return self != 0

    def __hash__(self):
        # Passes compare equal keys, which is a guard.
        return hash(self.value if self.owner == Owner.PASSES else plain_symbol(self))

    def __int__(self):
        return int(plain_symbol(self))

    def __float__(self):
        return float(plain_symbol(self))

    def __complex__(self):
        return complex(plain_symbol(self))

    def __trunc__(self):
        return math.trunc(plain_symbol(self))

    def __floor__(self):
        return math.floor(plain_symbol(self))

    def __ceil__(self):
        return math.ceil(plain_symbol(self))

    def __round__(self, digits=None):
        return round(plain_symbol(self), digits)

    def __repr__(self):
        return repr(plain_symbol(self))

    def __str__(self):
        return str(plain_symbol(self))

    def __format__(self, str spec not None):
        return format(plain_symbol(self), spec)

    def __reduce__(self):
        return type(self.value), (plain_symbol(self),)

    def __array__(self, dtype=None, copy=None):
        import numpy
        return numpy.array(plain_symbol(self), dtype, copy=copy)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return getattr(ufunc, method)(*map(plain_symbol, inputs), **options)

    @property
    def real(self):
        """The number itself."""
        return self

    def conjugate(self):
        """The number itself."""
        return self

    def __getattr__(self, name):
        return getattr(plain_symbol(self) if hasattr(self.value, name) else self.value, name)

    @property
    def position(self):
        """Where a program finds it among its runtime scalars; -1 where it is none of them."""
        return self.row if self.owner == Owner.RUNTIME and table_of(self) != NULL else -1


@cython.final
cdef class SymInt(SymScalar):
    """A size, or what is computed of some."""

    @property
    def __class__(self):   # for isinstance
        return int

    def __neg__(self):
        return self * -1

    def __abs__(self):
        return -self if self < 0 else self

    def __index__(self):
        return plain_symbol(self)

    def __invert__(self):
        return ~plain_symbol(self)

    def __lshift__(self, other):
        return plain_symbol(self) << plain_symbol(other)

    def __rlshift__(self, other):
        return plain_symbol(other) << plain_symbol(self)

    def __rshift__(self, other):
        return plain_symbol(self) >> plain_symbol(other)

    def __rrshift__(self, other):
        return plain_symbol(other) >> plain_symbol(self)

    def __and__(self, other):
        return plain_symbol(self) & plain_symbol(other)

    def __rand__(self, other):
        return plain_symbol(other) & plain_symbol(self)

    def __or__(self, other):
        return plain_symbol(self) | plain_symbol(other)

    def __ror__(self, other):
        return plain_symbol(other) | plain_symbol(self)

    def __xor__(self, other):
        return plain_symbol(self) ^ plain_symbol(other)

    def __rxor__(self, other):
        return plain_symbol(other) ^ plain_symbol(self)


@cython.final
cdef class SymFloat(SymScalar):
    """A float that a program reads anew, or what is computed of some, or of sizes."""

    @property
    def __class__(self):   # for isinstance
        return float

    def __neg__(self):
        return alone(ScalarOp.RealNeg, self, -self.value)

    def __abs__(self):
        return alone(ScalarOp.RealAbs, self, abs(self.value))


cdef SymbolicScalars* table_of(SymScalar x) noexcept:
    """The table that it is an expression of, while that is being recorded; else NULL."""
    if x.owner == Owner.PASSES:
        return &(<SizeGuards>x.holder).log.table()
    if x.graph == 0 or x.graph != recording_id():
        if x.holder is not None and (<list>x.holder)[0] != PyThread_get_thread_ident():
            (<list>x.holder)[1] = True
        return NULL
    if x.owner == Owner.RUNTIME:
        return &recorded_scalars().table()
    return &tracing().table() if tracing() != NULL else NULL


cpdef object index(x):
    """``operator.index``, which leaves a symbolic int what it is."""
    return x if type(x) is SymInt else operator.index(x)


cdef inline bint is_exact(object x):
    """Whether it is an int of 64 bits or a float, of no other class."""
    return PyFloat_CheckExact(x) or (PyLong_CheckExact(x) and -MOST <= x < MOST)


cdef inline bint is_double(object x):
    return PyFloat_CheckExact(x) or -MOST_REAL <= x <= MOST_REAL


cdef inline bint is_plain_number(object x):
    return isinstance(x, (int, float))


cdef object scalar_of(Owner owner, object holder, int64_t row):
    """What stands for an expression."""
    cdef SymScalar out
    cdef SymbolicScalars* table
    if owner == Owner.PASSES:
        table = &(<SizeGuards>holder).log.table()
    else:
        table = &recorded_scalars().table() if owner == Owner.RUNTIME else &tracing().table()
    if is_real_row(table[0], row):
        out = <SymScalar>SymFloat.__new__(SymFloat)
        out.value = table.real(row)
    else:
        out = <SymScalar>SymInt.__new__(SymInt)
        out.value = table.value(row)
    out.owner, out.holder, out.row = owner, holder, row
    if owner != Owner.PASSES:
        out.graph = recording_id()
    if owner == Owner.RUNTIME:
        out.holder = (<Recorder><object>recording_owner()).thread
        (<Recorder><object>recording_owner()).scalars.append(out)
    return out


cdef object symbol(int64_t row):
    return scalar_of(Owner.LOG, None, row)


cdef object runtime_scalar(int64_t row):
    return scalar_of(Owner.RUNTIME, None, row)


cdef object plain_symbol(object x):
    """The number itself, on which what is recorded depends from now on."""
    cdef SymbolicScalars* table
    if not is_symbolic(x):
        return x
    table = table_of(<SymScalar>x)
    if table != NULL:
        table.guard_on((<SymScalar>x).row)
    return (<SymScalar>x).value


cdef object of_table(SymbolicScalars* table, object x):
    """A number that is no expression of another table; a bool as an int."""
    if is_symbolic(x) and (table == NULL or table_of(<SymScalar>x) != table):
        return plain_symbol(x)
    return int(x) if type(x) is bool else x


cdef int64_t row_of(SymbolicScalars* table, object x) except -1:
    """Of an expression of the table, or a number."""
    if is_symbolic(x):
        return (<SymScalar>x).row
    return table.real_constant(<double>x) if PyFloat_CheckExact(x) else table.constant(<int64_t>x)


cdef int64_t real_row_of(SymbolicScalars* table, object x) except -1:
    if type(x) is SymInt:
        return table.apply(ScalarOp.ToReal, (<SymScalar>x).row, -1)
    return row_of(table, x) if is_symbolic(x) else table.real_constant(float(x))


cdef object combined(ScalarOp whole, ScalarOp real, function, left, right):
    """What Python computes, as an expression where the table has the operation: ``whole`` for
    ints, ``real`` for floats."""
    cdef SymScalar first
    cdef SymbolicScalars* table
    if isinstance(left, TensorBase) or isinstance(right, TensorBase):
        return NotImplemented
    first = left if is_symbolic(left) else right
    table = table_of(first)
    if table == NULL and is_symbolic(left) and is_symbolic(right):
        first = right
        table = table_of(first)
    left, right = of_table(table, left), of_table(table, right)
    a = (<SymScalar>left).value if is_symbolic(left) else left
    b = (<SymScalar>right).value if is_symbolic(right) else right
    if table == NULL or not is_exact(a) or not is_exact(b) or (
            b == 0 and whole >= ScalarOp.FloorDiv):
        return function(plain_symbol(left), plain_symbol(right))
    try:
        result = function(a, b)
    except ArithmeticError:
        plain_symbol(left), plain_symbol(right)
        raise
    if whole != NONE and PyLong_CheckExact(result) and -MOST <= result < MOST:
        if type(right) is int and (
                (b == 1 and whole == ScalarOp.Mul) or (b == 0 and whole == ScalarOp.Add)):
            return left
        if type(left) is int and (
                (a == 1 and whole == ScalarOp.Mul) or (a == 0 and whole == ScalarOp.Add)):
            return right
        row = table.apply(whole, row_of(table, left), row_of(table, right))
    elif real != NONE and first.owner != Owner.PASSES and (
            PyFloat_CheckExact(result) and is_double(a) and is_double(b)):
        row = table.apply(real, real_row_of(table, left), real_row_of(table, right))
    else:
        return function(plain_symbol(left), plain_symbol(right))
    return scalar_of(<Owner>first.owner, first.holder, row)


cdef object alone(ScalarOp op, SymScalar x, object result):
    cdef SymbolicScalars* table = table_of(x)
    return result if table == NULL else scalar_of(
        <Owner>x.owner, x.holder, table.apply(op, x.row, -1))


cdef CTensor symbol_operand(SymScalar x) except *:
    """A number as an operand of operations."""
    cdef CTensor out
    if table_of(x) != NULL and x.owner == Owner.RUNTIME:
        return scalar_cell(x.row)
    if PyLong_CheckExact(x.value):
        out = CTensor.integer(<int64_t>x.value)
    else:
        out = CTensor.number(<double>x.value)
    return out if table_of(x) == NULL else of_row(out, x.row)


cdef object recorded_item(TensorBase x):
    """The value of a tensor that is there, as a recording may use it: anew at every run."""
    cdef int64_t row = recorded_scalars().item(x.t)
    if is_float(x.t.dtype()):
        return runtime_scalar(row)
    recorded_scalars().table().guard_on(row)
    return element_to_python((x.t if is_on_host(x.t) else host_copy(x.t)).host_data(), x.t.dtype())


cdef int64_t scalar_index_for_core(void* x) noexcept:
    """In the recording's runtime scalars; -1: a plain number."""
    value = <object>x
    return -1 if not is_symbolic(value) else (<SymScalar>value).position


cdef int64_t symbol_row_for_core(void* x) noexcept:
    cdef object value = <object>x
    if type(value) is SymInt and (<SymInt>value).owner == Owner.LOG and (
            table_of(<SymScalar>value) != NULL):
        return (<SymInt>value).row
    return -1


cdef void* symbol_for_core(int64_t row) noexcept:
    out = symbol(row)
    Py_INCREF(out)
    return <void*>out


cdef object with_rows(object plain, const vector[int64_t]& rows):
    """Numbers with the expressions that they come from, where a capture log is kept."""
    cdef size_t i
    if rows.empty():
        return plain
    return type(plain)([symbol(rows[i]) for i in range(rows.size())])


cdef object shape_of(const CTensor& t, object kind=tuple):
    if traced_of(t) < 0:
        return tuple_of(t.plain_shape(), kind)
    return with_rows(tuple_of(t.plain_shape(), kind), size_rows(t))


cdef object length_of(const CTensor& t, size_t d):
    return t.plain_size(d) if traced_of(t) < 0 else shape_of(t)[d]


cdef object strides_of(const CTensor& t):
    cdef vector[int64_t] rows
    cdef int64_t d
    for d in range(0 if traced_of(t) < 0 else t.rank()):
        rows.push_back(tracing().of(ScalarOp.Stride, t, d))
    return with_rows(tuple_of(t.plain_strides()), rows)


cdef object offset_of(const CTensor& t):
    if traced_of(t) < 0:
        return t.plain_offset()
    return symbol(tracing().of(ScalarOp.Offset, t, -1))


cdef object product_of(const CTensor& t):
    """The number of elements."""
    if traced_of(t) < 0:
        return t.plain_numel()
    product = 1
    for n in shape_of(t):
        product = product * n
    return product


python_seam().symbol_row = symbol_row_for_core
python_seam().symbol_of_row = symbol_for_core
