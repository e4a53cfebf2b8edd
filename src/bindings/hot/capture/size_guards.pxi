# The sizes in a recorded graph, as passes see them: what they ask decides what they make.

cdef extern from "core/graph/size_guards.h" namespace "tinyt":
    cdef cppclass CSizeGuards "tinyt::SizeGuards":
        CSizeGuards(const Graph&) except +raise_python_error
        SymbolicScalars& table()
        void hold_number(int64_t) except +
        void merge_numbers(int64_t, int64_t) except +
        void keep(vector[int64_t], vector[SizePlace]) except +
        optional[vector[int64_t]] of(const Graph&, string&) except +raise_python_error

cdef extern from * namespace "tinyt":
    """
    namespace tinyt { using SizePlace = std::pair<size_t, int64_t>; }
    """
    cdef cppclass SizePlace:
        SizePlace(size_t, int64_t)


cdef class SizeGuards:
    """What passes ask of the sizes in a recorded graph (`_core.Graph`) while they simplify it, and
    what they make of them: another recording that differs in sizes alone is simplified alike, where
    the answers are the same."""

    cdef CSizeGuards* log
    cdef int64_t given        # sizes taken so far
    cdef object core          # the graph, kept alive

    def __cinit__(self, core):
        self.core = core_object(core, tinyt._core.Graph)
        self.log = new CSizeGuards((<Graph*><size_t>core.address)[0])

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
                out.append(tuple([self.next() for _ in <tuple>plain[i]]))
            else:
                size = self.next()
                out.append(size if kind == "i" else plain[i])
        return tuple(out)

    cdef SymInt next(self):
        self.given += 1
        return <SymInt>scalar_of(Owner.PASSES, self, self.given - 1)

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
            if type(x) is SymInt:
                places.push_back(SizePlace(words.size(), (<SymInt>x).row))
                x = (<SymInt>x).value
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
    def guards(self):
        """How many different guards there are."""
        return self.log.table().guards().size()
