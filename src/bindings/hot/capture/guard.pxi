# Guards on Python state: a place that a recorded call read, and the value that it had. Numbers and
# strings are compared by value, all else by identity; no user's code runs.

import collections

from cpython.dict cimport PyDict_CheckExact, PyDict_Next, PyDict_Size
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object, object) except? NULL
    PyObject* cell_contents "PyCell_GET"(PyObject*)
    ctypedef struct PyTypeObject:
        pass
    PyObject* look_up "_PyType_Lookup"(PyTypeObject*, object)
    PyObject* function_code "PyFunction_GET_CODE"(PyObject*)
    PyObject* function_defaults "PyFunction_GET_DEFAULTS"(PyObject*)
    PyObject* function_keywords "PyFunction_GET_KW_DEFAULTS"(PyObject*)

MISSING = object()
cdef PyObject* missing = <PyObject*>MISSING

cdef enum GuardKind:
    ITEM       # an entry of a dict
    CELL       # the contents of a closure's cell
    CLASS      # an attribute of a class, of its own or of its bases
    CONTENTS   # the items of a container, one level deep
    SLOT       # an attribute that lies in no dict
    TENSOR     # the memory of a tensor, whether it wants a gradient, its hooks
    FUNCTION   # the code and defaults of a function
    ARRAY      # the bytes of an array of NumPy's or a buffer

cdef tuple GUARD_KINDS = (
    "item", "cell", "class", "contents", "slot", "tensor", "function", "array")
# Containers by their own methods, whatever a subclass overrides; an OrderedDict has an order that
# its dict does not know.
cdef tuple CONTAINERS = (
    collections.OrderedDict, dict, list, tuple, set, frozenset, collections.deque)


def class_attribute(cls, str name not None):
    """The attribute of a class, of its own or of its bases, or MISSING; runs no code."""
    found = look_up(<PyTypeObject*>cls, name)
    return MISSING if found == NULL else <object>found


def contents_of(container):
    """The items of a container; of a dict, (key, value) pairs. No subclass's code runs."""
    for base in CONTAINERS:
        if isinstance(container, base):
            return tuple(base.items(container) if issubclass(base, dict) else base.__iter__(container))
    raise TypeError(f"contents_of: no container: {type(container).__name__}")


def bytes_of(array):
    """The bytes of a buffer; the shape, dtype and bytes of an array of NumPy's."""
    if isinstance(array, (bytearray, memoryview)) or not hasattr(array, "dtype"):
        return bytes(array)
    return array.shape, array.dtype.str, array.tobytes()


cdef bint same(PyObject* x, PyObject* y) except -1:
    """Whether two values are the same: numbers and strings by value, all else by identity."""
    if x == y:
        return True
    a, b = <object>x, <object>y
    if type(a) is not type(b):
        return False
    if PyFloat_CheckExact(a):
        return same_bits(PyFloat_AsDouble(a), PyFloat_AsDouble(b))
    if type(a) is complex:
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if type(a) in (int, str, bytes):
        return a == b
    if type(a) is ByIdentity:
        return (<ByIdentity>a).held is (<ByIdentity>b).held
    if is_numpy_scalar(type(a)):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if not is_by_value(type(a)) or repr(a) != repr(b):   # ranges of equal items are equal
        return False
    return type(a).__module__ != "datetime" or a == b   # time zones of users may print alike


cdef object VALUES = frozenset((int, bool, float, str, bytes, complex, range, type(None),
                                type(...), _device))
cdef object OTHER_VALUES = frozenset((
    ("decimal", "Decimal"), ("fractions", "Fraction"), ("datetime", "date"), ("datetime", "time"),
    ("datetime", "datetime"), ("datetime", "timedelta"), ("datetime", "timezone")))


cdef bint is_by_value(object kind) except -1:
    """Whether instances of a class never change, and those that are equal may stand for each
    other."""
    return (kind in VALUES or (kind.__module__, kind.__name__) in OTHER_VALUES
            or is_numpy_scalar(kind))


cdef bint is_numpy_scalar(object kind) except -1:
    """But for those of structured dtypes, which can be written to."""
    return (kind.__module__ == "numpy" and hasattr(kind, "tobytes")
            and not hasattr(kind, "__array_finalize__") and not hasattr(kind, "__setitem__"))


cdef inline bint same_bits(double x, double y) noexcept:
    return (<uint64_t*>&x)[0] == (<uint64_t*>&y)[0]


cdef bint alike(PyObject* x, PyObject* y) except -1:
    """As `same`, of tuples by their items; for a symbolic float any float will do."""
    cdef Py_ssize_t i
    a, b = <object>x, <object>y
    if type(b) is SymFloat:
        return type(a) is float
    if type(a) is tuple and type(b) is tuple:
        if PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b):
            return False
        for i in range(PyTuple_GET_SIZE(a)):
            if not alike(<PyObject*>(<tuple>a)[i], <PyObject*>(<tuple>b)[i]):
                return False
        return True
    return same(x, y)


def is_same(x, y):
    """Whether two values are the same: numbers and strings by value, tuples by their items, all
    else by identity."""
    return bool(alike(<PyObject*>x, <PyObject*>y))


cdef class Location:
    """Location of a float that a program reads at each run: in a dict, a list, a tuple in a dict, or
    (key None) a cell."""

    cdef readonly object holder, key
    cdef readonly Py_ssize_t index

    def __cinit__(self, holder, key, Py_ssize_t index=-1):
        """``index``: of the tuple that lies there."""
        self.holder, self.key, self.index = holder, key, index

    def __call__(self):
        """The value there, or MISSING."""
        try:
            found = self.holder.cell_contents if self.key is None else self.holder[self.key]
            return found if self.index < 0 else found[self.index]
        except (LookupError, ValueError, TypeError):   # moved away; an empty cell; no tuple now
            return MISSING

    def put(self, value):
        """Stores another value there."""
        if self.key is None:
            self.holder.cell_contents = value
        else:
            self.holder[self.key] = value


cdef class Guard:
    """A place that was read, the value that it had, and the line that read it."""

    cdef GuardKind number
    cdef readonly object place, what, expected
    cdef readonly str line

    def __cinit__(self, str kind not None, place, what, expected, str line):
        """``expected``: a value; of contents a tuple of them; None where it is read off the place."""
        self.number = <GuardKind>GUARD_KINDS.index(kind)
        self.place, self.what, self.line = place, what, line
        self.expected = state_of(<TensorBase?>place) if self.number == TENSOR else expected

    @property
    def kind(self):
        """The kind of place, a word of GUARD_KINDS."""
        return GUARD_KINDS[self.number]

    def holds(self):
        """Whether the place has the value that it had."""
        return bool(holds_still(self))

    def now(self):
        """The value that the place has now."""
        cdef PyObject* found
        place = self.place
        if self.number <= CLASS:
            found = entry_of(self)
            return MISSING if found == NULL else <object>found
        if self.number == CONTENTS:
            return contents_of(place)
        if self.number == SLOT:
            return getattr(place, self.what, MISSING)
        if self.number == TENSOR:
            return state_of(place)
        if self.number == ARRAY:
            return bytes_of(place)
        return place.__code__, place.__defaults__, place.__kwdefaults__

    def __str__(self):
        what = f"{self.what!r} " if self.number in (ITEM, SLOT, CLASS) else ""
        return f"{self.line}: {self.kind} {what}of {type(self.place).__name__}"


cdef PyObject* entry_of(Guard guard) except? NULL:
    """The value in a dict, cell or class, borrowed; null where there is none."""
    if guard.number == ITEM:
        return PyDict_GetItemWithError(guard.place, guard.what)
    if guard.number == CELL:
        return cell_contents(<PyObject*>guard.place)
    return look_up(<PyTypeObject*>guard.place, guard.what)


cdef tuple state_of(TensorBase x):
    """The state of a tensor that a recording relies on."""
    return (<size_t>x.t.impl(), bool(x.leaf_grad), bool(wants_grad(x)),
            hooks_of(x._hooks), hooks_of(x._post_hooks))


cdef bint tensor_holds(TensorBase x, tuple expected) except -1:
    if x._hooks or x._post_hooks or expected[3] or expected[4]:
        return state_of(x) == expected
    return (<size_t>x.t.impl() == <size_t>expected[0] and x.leaf_grad == <bint>expected[1]
            and wants_grad(x) == <bint>expected[2])


cdef inline bint is_pointer(object x, PyObject* pointer):
    """Whether an object is at an address; null stands for None."""
    return x is None if pointer == NULL else <PyObject*>x == pointer


cdef bint holds_still(Guard guard) except -1:
    """Whether a place has the value that it had."""
    cdef PyObject *found
    cdef PyObject *value
    cdef PyObject *wanted = <PyObject*>guard.expected
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t at = 0
    cdef tuple parts
    place = guard.place
    if guard.number <= CLASS:
        found = entry_of(guard)
        return same(missing if found == NULL else found, wanted)
    if guard.number == TENSOR:
        return tensor_holds(<TensorBase>place, <tuple>guard.expected)
    if guard.number == CONTENTS:
        if PyDict_CheckExact(place):
            if PyDict_Size(place) != PyTuple_GET_SIZE(guard.expected):
                return False
            while PyDict_Next(place, &at, &found, &value):
                pair = <tuple><object>PyTuple_GET_ITEM(guard.expected, i)
                if not (same(found, <PyObject*>PyTuple_GET_ITEM(pair, 0))
                        and alike(value, <PyObject*>PyTuple_GET_ITEM(pair, 1))):
                    return False
                i += 1
            return True
        if isinstance(place, list):
            if PyList_GET_SIZE(place) != PyTuple_GET_SIZE(guard.expected):
                return False
            for i in range(PyTuple_GET_SIZE(guard.expected)):
                if not alike(<PyObject*>PyList_GET_ITEM(place, i),
                             <PyObject*>PyTuple_GET_ITEM(guard.expected, i)):
                    return False
            return True
    if guard.number == FUNCTION:
        found = <PyObject*>place
        parts = <tuple>guard.expected
        if (function_code(found) == <PyObject*>parts[0]
                and is_pointer(parts[1], function_defaults(found))
                and is_pointer(parts[2], function_keywords(found))):
            return True
    now = guard.now()
    return alike(<PyObject*>now, wanted)
