# The sizes in a recorded graph, as passes see them: what they ask decides what they make.

cdef extern from "core/graph/sizes.h" namespace "tinyt":
    cdef enum class SizeOp "tinyt::Sizes::Op":
        Add, Sub, Mul, FloorDiv, Mod
    cdef enum class SizeTest "tinyt::Sizes::Test":
        Lt, Le, Eq, Ne, Gt, Ge
    cdef cppclass CSizes "tinyt::Sizes":
        CSizes(const Graph&) except +raise_python_error
        int64_t value(int64_t) except +raise_python_error
        int64_t constant(int64_t) except +raise_python_error
        int64_t apply(SizeOp, int64_t, int64_t) except +raise_python_error
        cbool test(SizeTest, int64_t, int64_t) except +raise_python_error
        void hold_number(int64_t) except +
        void merge_numbers(int64_t, int64_t) except +
        void keep(vector[int64_t], vector[SizePlace]) except +
        size_t tests()
        optional[vector[int64_t]] of(const Graph&, string&) except +raise_python_error

cdef extern from * namespace "tinyt":
    """
    namespace tinyt { using SizePlace = std::pair<size_t, int64_t>; }
    """
    cdef cppclass SizePlace:
        SizePlace(size_t, int64_t)

cdef SizeTest[6] SIZE_TESTS
SIZE_TESTS[Py_LT], SIZE_TESTS[Py_LE], SIZE_TESTS[Py_EQ] = SizeTest.Lt, SizeTest.Le, SizeTest.Eq
SIZE_TESTS[Py_NE], SIZE_TESTS[Py_GT], SIZE_TESTS[Py_GE] = SizeTest.Ne, SizeTest.Gt, SizeTest.Ge


cdef class Sizes:
    """What passes ask of the sizes in a recorded graph (`_core.Graph`) while they simplify it, and
    what they make of them: another recording that differs in sizes alone is simplified alike, where
    the answers are the same."""

    cdef CSizes* log
    cdef int64_t given        # sizes taken so far
    cdef object core          # the graph, kept alive

    def __cinit__(self, core):
        self.core = core_object(core, tinyt._core.Graph)
        self.log = new CSizes((<Graph*><size_t>core.address)[0])

    def __dealloc__(self):
        del self.log

    def take(self, tuple plain, str kinds=""):
        """The next sizes of the graph, in the place of numbers: all of them, or of attributes of
        these kinds (ops.def) the integers."""
        cdef list out = []
        cdef Py_ssize_t i
        for i in range(len(plain)):
            kind = kinds[i] if kinds else "i"
            if kind == "f":
                out.append(plain[i])
            elif kind == "I":
                self.given += 1   # its length
                out.append(tuple([length(self, self.next()) for _ in <tuple>plain[i]]))
            else:
                number = self.next()
                out.append(length(self, number) if kind == "i" else plain[i])
        return tuple(out)

    cdef int64_t next(self):
        self.given += 1
        return self.given - 1

    def hold_number(self, int64_t value):
        """What passes make depends on a number of Python's, an input, beyond its being 0 or 1."""
        self.log.hold_number(value)

    def merge_numbers(self, int64_t one, int64_t other):
        """A pass takes two of Python's numbers for one."""
        self.log.merge_numbers(one, other)

    def keep(self, list flat):
        """Notes what the passes made, as `Graph.rewritten` takes it; returns it in plain numbers."""
        cdef vector[int64_t] words
        cdef vector[SizePlace] places
        cdef list out = []
        for x in flat:
            if type(x) is Length:
                places.push_back(SizePlace(words.size(), (<Length>x).number))
                x = self.log.value((<Length>x).number)
            words.push_back(x)
            out.append(x)
        self.log.keep(words, places)
        return out

    def of(self, core):
        """What `Graph.rewritten` of another recording takes to simplify it alike, as bytes; or,
        where passes might make something else, a word on why."""
        cdef string why
        cdef optional[vector[int64_t]] flat
        core_object(core, tinyt._core.Graph)
        flat = self.log.of((<Graph*><size_t>core.address)[0], why)
        if not flat.has_value():
            return why.decode()
        return (<char*>flat.value().data())[:flat.value().size() * sizeof(int64_t)]

    @property
    def tests(self):
        """How many different questions there were."""
        return self.log.tests()


@cython.auto_pickle(False)
cdef class Length:
    """A size in a recorded graph: as a whole number of Python's, but what is asked of it is noted."""

    cdef Sizes sizes
    cdef int64_t number, value

    def __add__(self, other):
        return other_length(SizeOp.Add, self, other)

    def __radd__(self, other):
        return other_length(SizeOp.Add, self, other)

    def __sub__(self, other):
        return other_length(SizeOp.Sub, self, other)

    def __rsub__(self, other):
        return other_length(SizeOp.Sub, self, other, True)

    def __mul__(self, other):
        return other_length(SizeOp.Mul, self, other)

    def __rmul__(self, other):
        return other_length(SizeOp.Mul, self, other)

    def __floordiv__(self, other):
        return other_length(SizeOp.FloorDiv, self, other)

    def __rfloordiv__(self, other):
        return other_length(SizeOp.FloorDiv, self, other, True)

    def __mod__(self, other):
        return other_length(SizeOp.Mod, self, other)

    def __rmod__(self, other):
        return other_length(SizeOp.Mod, self, other, True)

    def __neg__(self):
        return 0 - self

    def __richcmp__(self, other, int op):
        cdef int64_t right
        if not length_number(self.sizes, other, &right):
            return NotImplemented
        return self.sizes.log.test(SIZE_TESTS[op], self.number, right)

    def __bool__(self):
        return self != 0

    def __hash__(self):   # equal keys are compared, and what compares is noted
        return hash(self.value)

    def __index__(self):
        return held_length(self)

    def __int__(self):
        return held_length(self)

    def __float__(self):
        return float(held_length(self))

    def __repr__(self):
        return repr(held_length(self))


cdef Length length(Sizes sizes, int64_t number):
    cdef Length out = <Length>Length.__new__(Length)
    out.sizes, out.number, out.value = sizes, number, sizes.log.value(number)
    return out


cdef object held_length(Length x):
    """The number itself, on which what is made depends from now on."""
    x.sizes.log.test(SizeTest.Eq, x.number, x.sizes.log.constant(x.value))
    return x.value


cdef bint length_number(Sizes sizes, object x, int64_t* number) except -1:
    if type(x) is Length:
        number[0] = (<Length>x).number
        return True
    if isinstance(x, int):
        number[0] = sizes.log.constant(x)
        return True
    return False


cdef object other_length(SizeOp op, Length x, object other, bint reflected=False):
    cdef int64_t right
    if not length_number(x.sizes, other, &right):
        return NotImplemented
    if op >= SizeOp.FloorDiv and (x if reflected else other) == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if reflected:
        return length(x.sizes, x.sizes.log.apply(op, right, x.number))
    if type(other) is int and (op == SizeOp.Mul and other == 1 or op == SizeOp.Add and other == 0):
        return x
    return length(x.sizes, x.sizes.log.apply(op, x.number, right))
