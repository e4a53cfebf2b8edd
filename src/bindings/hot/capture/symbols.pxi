# Sizes while a recording is traced: as Python's numbers, but what is computed of them is a formula,
# what is compared is noted, and whoever takes the plain number holds it.

import operator
import os
import sys

cdef extern from "core/graph/trace.h" namespace "tinyt":
    cdef cppclass Graph "tinyt::Graph":
        CTrace* trace
        void share_numbers(const Graph&)
    cdef enum class TraceOp "tinyt::Trace::Op":
        Size, Stride, Offset, Add, Sub, Mul, FloorDiv, Mod, Real, RealAdd, RealSub, RealMul, RealDiv
    cdef cppclass CTrace "tinyt::Trace":
        CTrace(const Graph&)
        int64_t value(int64_t)
        int64_t constant(int64_t) except +raise_python_error
        int64_t of(TraceOp, const CTensor&, int64_t) except +raise_python_error
        int64_t apply(TraceOp, int64_t, int64_t) except +raise_python_error
        cbool test(SizeTest, int64_t, int64_t) except +raise_python_error
        void hold(int64_t) except +raise_python_error
        void fail(string)
        const string& failure()
        size_t tests()
        optional[vector[int64_t]] replay(vector[CTensor], Graph&, string&, int64_t&) except +raise_python_error
        void (*on_test)(void*)
        void* owner
    CTrace* tracing()

cdef extern from * namespace "tinyt":
    """
    namespace tinyt {
    inline int64_t bits_of(double v) { return std::bit_cast<int64_t>(v); }
    inline double real_of_bits(int64_t v) { return std::bit_cast<double>(v); }
    }
    """
    int64_t bits_of(double)
    double real_of_bits(int64_t)

cdef str LIBRARY = os.path.dirname(os.path.abspath(__file__)) + os.sep
cdef object MOST = 1 << 63
cdef object MOST_REAL = 1 << 53


cdef object core_object(object x, kind):
    """An object of the core, whose address is taken; TypeError for another."""
    if not isinstance(x, kind):
        raise TypeError(f"expected a {kind.__name__}, got {type(x).__name__}")
    return x


cdef str user_line():
    """The line of the user's own code that runs."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARY):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


cdef int note_test_for_core(void* owner) except -1:
    (<Trace><object>owner).lines.append(user_line())
    return 0


cdef class Trace:
    """How sizes come to be and what is decided by them while a graph is recorded, from when this is
    made until the recording ends: the recording is then made again for other arguments, without the
    recorded function."""

    cdef CTrace* log
    cdef readonly list lines      # of the user's code, one for each test

    def __cinit__(self, core):
        cdef Graph* graph = <Graph*><size_t>core_object(core, tinyt._core.Graph).address
        self.lines = []
        self.log = new CTrace(graph[0])
        self.log.on_test, self.log.owner = note_test_or_throw, <void*>self
        graph.trace = self.log

    def __dealloc__(self):
        del self.log

    @property
    def failure(self):
        """Why the recording cannot be made again; "" where it can."""
        return self.log.failure().decode()

    @property
    def tests(self):
        """How many different questions there were."""
        return self.log.tests()

    def replay(self, core, again, list arguments, list numbers):
        """Records into ``again`` what ``core`` is with other arguments (None: as they were).
        Returns the plain numbers that stand for some now; or, where the recorded function would do
        something else, a word on why."""
        cdef vector[CTensor] given
        cdef string why
        cdef int64_t test = -1
        cdef Graph* graph = <Graph*><size_t>core_object(again, tinyt._core.Graph).address
        cdef optional[vector[int64_t]] rows
        cdef vector[int64_t] values
        for x in arguments:
            given.push_back(CTensor() if x is None else (<TensorBase?>x).t)
        core_object(core, tinyt._core.Graph)
        graph.share_numbers((<Graph*><size_t>core.address)[0])
        rows = self.log.replay(given, graph[0], why, test)
        if not rows.has_value():
            line = self.lines[test] if 0 <= test < len(self.lines) else ""
            return why.decode() + (f" ({line})" if line else "")
        values = rows.value()
        return [values[<size_t>(<Symbol>x).row] if type(x) is Symbol else x for x in numbers]


@cython.final
cdef class Symbol:
    """A size in a traced recording, or what is computed of some."""

    @property
    def __class__(self):   # for isinstance
        return type(self.value)

    def __add__(self, other):
        return combined(TraceOp.Add, TraceOp.RealAdd, operator.add, self, other)

    def __radd__(self, other):
        return combined(TraceOp.Add, TraceOp.RealAdd, operator.add, other, self)

    def __sub__(self, other):
        return combined(TraceOp.Sub, TraceOp.RealSub, operator.sub, self, other)

    def __rsub__(self, other):
        return combined(TraceOp.Sub, TraceOp.RealSub, operator.sub, other, self)

    def __mul__(self, other):
        return combined(TraceOp.Mul, TraceOp.RealMul, operator.mul, self, other)

    def __rmul__(self, other):
        return combined(TraceOp.Mul, TraceOp.RealMul, operator.mul, other, self)

    def __truediv__(self, other):
        return combined(TraceOp.RealDiv, TraceOp.RealDiv, operator.truediv, self, other)

    def __rtruediv__(self, other):
        return combined(TraceOp.RealDiv, TraceOp.RealDiv, operator.truediv, other, self)

    def __floordiv__(self, other):
        return combined(TraceOp.FloorDiv, TraceOp.FloorDiv, operator.floordiv, self, other)

    def __rfloordiv__(self, other):
        return combined(TraceOp.FloorDiv, TraceOp.FloorDiv, operator.floordiv, other, self)

    def __mod__(self, other):
        return combined(TraceOp.Mod, TraceOp.Mod, operator.mod, self, other)

    def __rmod__(self, other):
        return combined(TraceOp.Mod, TraceOp.Mod, operator.mod, other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __neg__(self):
        return self * -1

    def __pos__(self):
        return self

    def __abs__(self):
        return -self if self < 0 else self

    def __richcmp__(self, other, int op):
        cdef CTrace* log = log_of(self)
        if isinstance(other, TensorBase):
            return NotImplemented
        if log != NULL and is_whole(self) and is_whole(other):
            return log.test(SIZE_TESTS[op], self.row, row_of(log, other))
        return COMPARISONS[op](plain_symbol(self), plain_symbol(other))

    def __bool__(self):
        return self != 0

    def __hash__(self):
        return hash(plain_symbol(self))

    def __index__(self):
        return operator.index(plain_symbol(self))

    def __int__(self):
        return int(plain_symbol(self))

    def __float__(self):
        return float(plain_symbol(self))

    def __complex__(self):
        return complex(plain_symbol(self))

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

    def __getattr__(self, name):
        return getattr(plain_symbol(self) if hasattr(self.value, name) else self.value, name)

    def __invert__(self):
        return ~plain_symbol(self)

    def __pow__(self, other, modulus):
        return pow(plain_symbol(self), plain_symbol(other), plain_symbol(modulus))

    def __rpow__(self, other, modulus):
        return pow(plain_symbol(other), plain_symbol(self), plain_symbol(modulus))

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


cdef list COMPARISONS = [None] * 6
COMPARISONS[Py_LT], COMPARISONS[Py_LE] = operator.lt, operator.le
COMPARISONS[Py_EQ], COMPARISONS[Py_NE] = operator.eq, operator.ne
COMPARISONS[Py_GT], COMPARISONS[Py_GE] = operator.gt, operator.ge


cdef inline CTrace* log_of(Symbol x) noexcept:
    """The trace that it belongs to, while that is under way."""
    return tracing() if x.graph == recording_id() else NULL


cpdef object index(x):
    """``operator.index``, which leaves a traced size what it is."""
    return x if type(x) is Symbol and is_whole(x) else operator.index(x)


cdef inline bint is_whole(object x):
    """Whether it is an int of 64 bits."""
    return PyLong_CheckExact((<Symbol>x).value) if type(x) is Symbol else (
        PyLong_CheckExact(x) and -MOST <= x < MOST)


def stop_tracing(str why):
    """What is recorded is not followed any further, and cannot be made for other sizes."""
    if tracing() != NULL:
        tracing().fail(why.encode())


cdef object symbol(int64_t row, bint real=False):
    cdef Symbol out = <Symbol>Symbol.__new__(Symbol)
    cdef int64_t value = tracing().value(row)
    out.graph, out.row = recording_id(), row
    out.value = real_of_bits(value) if real else value
    return out


cdef object plain_symbol(object x):
    """The number itself, on which what is recorded depends from now on."""
    cdef CTrace* log
    if type(x) is not Symbol:
        return x
    log = log_of(<Symbol>x)
    if log != NULL:
        log.hold((<Symbol>x).row)
    return (<Symbol>x).value


cdef int64_t row_of(CTrace* log, object x) except -1:
    """Of a symbol or number."""
    if type(x) is Symbol and log_of(<Symbol>x) != NULL:
        return (<Symbol>x).row
    if type(x) is Symbol:
        x = (<Symbol>x).value
    return log.constant(x if PyLong_CheckExact(x) else bits_of(x))


cdef int64_t real_row_of(CTrace* log, object x) except -1:
    cdef int64_t row = row_of(log, x)
    return log.apply(TraceOp.Real, row, -1) if is_whole(x) else row


cdef inline bint is_real_number(object x):
    return PyLong_CheckExact(x) or PyFloat_CheckExact(x)


cdef object combined(TraceOp whole, TraceOp real, function, left, right):
    """What Python computes, as a formula where it is one."""
    cdef CTrace* log = NULL
    cdef int64_t row
    if isinstance(left, TensorBase) or isinstance(right, TensorBase):
        return NotImplemented
    a = (<Symbol>left).value if type(left) is Symbol else left
    b = (<Symbol>right).value if type(right) is Symbol else right
    for x in (left, right):
        if type(x) is Symbol and log == NULL:
            log = log_of(<Symbol>x)
    if log == NULL or not is_real_number(a) or not is_real_number(b) or (
            b == 0 and whole >= TraceOp.FloorDiv):
        return function(plain_symbol(left), plain_symbol(right))
    result = function(a, b)
    if type(result) is int and -MOST <= result < MOST and (
            -MOST <= a < MOST and -MOST <= b < MOST):
        if type(right) is int and (
                (b == 1 and whole == TraceOp.Mul) or (b == 0 and whole == TraceOp.Add)):
            return left
        if type(left) is int and (
                (a == 1 and whole == TraceOp.Mul) or (a == 0 and whole == TraceOp.Add)):
            return right
        return symbol(log.apply(whole, row_of(log, left), row_of(log, right)))
    if type(result) is float and real >= TraceOp.RealAdd and all(
            [type(x) is float or -MOST_REAL <= x <= MOST_REAL for x in (a, b)]):
        return symbol(log.apply(real, real_row_of(log, left), real_row_of(log, right)), True)
    return function(plain_symbol(left), plain_symbol(right))


cdef CTensor symbol_operand(Symbol x) except *:
    """A number as an operand of operations."""
    cdef CTensor out
    if PyLong_CheckExact(x.value):
        out = CTensor.integer(<int64_t>x.value)
    else:
        out = CTensor.number(<double>x.value)
    return out if log_of(x) == NULL else of_row(out, x.row)


cdef int64_t symbol_row_for_core(void* x) noexcept:
    cdef object value = <object>x
    if type(value) is Symbol and is_whole(value) and log_of(<Symbol>value) != NULL:
        return (<Symbol>value).row
    return -1


cdef void* symbol_for_core(int64_t row) noexcept:
    out = symbol(row)
    Py_INCREF(out)
    return <void*>out


cdef object with_rows(object plain, const vector[int64_t]& rows):
    """Numbers with the formulas that they come from, where a trace is under way."""
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
        rows.push_back(tracing().of(TraceOp.Stride, t, d))
    return with_rows(tuple_of(t.plain_strides()), rows)


cdef object offset_of(const CTensor& t):
    if traced_of(t) < 0:
        return t.plain_offset()
    return symbol(tracing().of(TraceOp.Offset, t, -1))


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
note_test = note_test_for_core
