# A compiled call in the steady state: whether a captured program stands for it, and its run.

import collections
import types

from libc.string cimport memcmp

cdef extern from "compiled.h" namespace "tinyt" nogil:
    cdef cppclass Program:
        cbool holds(const vector[double]&) except +raise_python_error
    cdef cppclass RunObserver:
        pass
    cdef cppclass RngOffsets:
        void emplace_back(int64_t, int64_t) except +
    cdef cppclass PlannedRun:
        vector[CTensor] arguments
        vector[double] given
        RngOffsets draws
        vector[CTensor] outputs
        vector[double] numbers
        cbool run(Program&, RunObserver*, cbool) except +raise_python_error  # with the lock held
    CTensor whole_memory(const CTensor&) except +raise_python_error
    cbool is_shared_memory(const CTensor&)
    cbool shares_bytes(const CTensor&, const CTensor&)

cdef object LEAF = None   # in a description: a tensor, or a float of Python's or NumPy's
cdef object MISS = object()

cdef enum SourceKind:
    FROM_LEAF, FROM_MEMORY, FROM_GRAD, FROM_LATER

cdef enum ResultKind:
    AN_OUTPUT, AN_ARGUMENT, A_NUMBER, AN_OBJECT, A_VIEW, AN_ALIAS, A_GRAD


cdef class ByIdentity:
    """An object that a description holds: equal to itself only, and kept alive."""
    cdef readonly object held

    def __cinit__(self, held):
        self.held = held


cdef bint is_leaf(object value):
    if isinstance(value, TensorBase) or PyFloat_CheckExact(value):
        return True
    return isinstance(value, float) and type(value).__module__ == "numpy"


def describe(value, list leaves, is_leaf=is_leaf):
    """Adds the leaves of a nested value to a list; returns a description of the rest. ValueError
    for more than `MOST_NESTED` containers in each other."""
    return described(value, leaves, is_leaf, tinyt.nesting.MOST_NESTED)


cdef object described(object value, list leaves, object is_leaf, int most):
    if is_leaf(value):
        leaves.append(value)
        return LEAF
    if most == 0:
        raise tinyt.nesting.too_deep("compile", "an argument or result")
    kind = type(value)
    if kind is list or kind is tuple:
        return kind, tuple([described(item, leaves, is_leaf, most - 1) for item in value])
    if isinstance(value, tuple):
        parts = tuple([described(x, leaves, is_leaf, most - 1) for x in tuple.__iter__(value)])
        return kind, parts, None, own_described(value, leaves, is_leaf, most), tuple
    if kind is slice:
        return kind, tuple([described(x, leaves, is_leaf, most - 1) for x in parts_of(value)])
    if isinstance(value, dict):
        parts = tuple([(plain_key(key), described(item, leaves, is_leaf, most - 1))
                       for key, item in dict_base(kind).items(value)])
        if kind is dict:
            return kind, parts
        base = dict_base(kind)
        factory = value.default_factory if base is collections.defaultdict else None
        return kind, parts, factory, own_described(value, leaves, is_leaf, most), base
    if is_by_value(kind):
        return "value", kind, value
    if is_symbolic(value):   # of another recording; what a call gives for other sizes is not known
        return described(plain_symbol(value), leaves, is_leaf, most)
    return "object", ByIdentity(value)


cdef object plain_key(key):
    """A key of a dict without symbolic numbers, by whose values it was put there."""
    return tuple([plain_key(x) for x in <tuple>key]) if type(key) is tuple else plain_symbol(key)


cdef object dict_base(kind):
    """The class of Python's own whose methods read and fill a dict, whatever a subclass makes of
    them."""
    for base in (collections.OrderedDict, collections.defaultdict):
        if issubclass(kind, base):
            return base
    return dict


cdef object empty_of(kind, parts=()):
    """A tuple or dict of a subclass as it is without its constructor. CaptureError for classes of C
    with a state of their own, and for ``__slots__``."""
    slots = [x for cls in kind.__mro__ for x in to_names(vars(cls).get("__slots__", ()))
             if x not in ("__dict__", "__weakref__")]
    try:
        if slots:
            raise TypeError(f"{kind.__name__} has __slots__")
        if issubclass(kind, dict):
            return dict_base(kind).__new__(kind)
        if hasattr(kind, "n_sequence_fields"):   # as time.struct_time
            return kind(parts or (None,) * kind.n_sequence_fields)
        return tuple.__new__(kind, parts)
    except TypeError as error:
        raise CaptureError(
            f"compile: an argument or result of type {kind.__name__} cannot be made anew without "
            f"its constructor ({error}); use a plain tuple, dict or namedtuple") from None


cdef tuple to_names(slots):
    return (slots,) if isinstance(slots, str) else tuple(slots)


cdef object own_described(value, list leaves, is_leaf, int most):
    """The attributes of a tuple or dict of a subclass; None if it has none, False if its class
    lets it have none."""
    empty_of(type(value))
    if not hasattr(value, "__dict__"):
        return False
    own = value.__dict__
    return described(own, leaves, is_leaf, most - 1) if own else None


cdef tuple parts_of(object x):
    """Of a slice."""
    return x.start, x.stop, x.step


cdef bint matches(object description, object value, list leaves) except -1:
    """Whether a value has that description; adds its leaves."""
    cdef tuple parts
    cdef Py_ssize_t i
    if description is LEAF:
        leaves.append(value)
        return is_leaf(value)
    kind = (<tuple>description)[0]
    if kind is "object":
        return value is (<ByIdentity>(<tuple>description)[1]).held
    if kind is "value":
        return same(<PyObject*>value, <PyObject*>(<tuple>description)[2])
    if type(value) is not kind:
        return False
    parts = <tuple>(<tuple>description)[1]
    if kind is dict and not parts:
        return not <dict>value
    if kind is slice:
        value = parts_of(value)
    if len(<tuple>description) > 2:
        return matches_subclass(<tuple>description, value, leaves)
    if len(value) != len(parts):
        return False
    i = 0
    if kind is dict:
        for key in value:
            part = <tuple>parts[i]
            if not (same(<PyObject*>key, <PyObject*>part[0]) and matches(part[1], value[key], leaves)):
                return False
            i += 1
        return True
    for item in value:
        if parts[i] is LEAF:
            if not is_leaf(item):
                return False
            leaves.append(item)
        elif not matches(parts[i], item, leaves):
            return False
        i += 1
    return True


cdef bint matches_subclass(tuple description, object value, list leaves) except -1:
    """As `matches`, of a tuple or dict of a subclass."""
    cdef tuple parts = <tuple>description[1]
    cdef Py_ssize_t i = 0
    own, base = description[3], description[4]
    if base is tuple:
        if PyTuple_GET_SIZE(value) != PyTuple_GET_SIZE(parts):
            return False
        for i in range(PyTuple_GET_SIZE(parts)):
            if not matches(parts[i], (<tuple>value)[i], leaves):
                return False
    else:
        if PyDict_Size(value) != PyTuple_GET_SIZE(parts):
            return False
        if base is collections.defaultdict and value.default_factory is not description[2]:
            return False
        for key, item in base.items(value):
            part = <tuple>parts[i]
            if not (same(<PyObject*>key, <PyObject*>part[0]) and matches(part[1], item, leaves)):
                return False
            i += 1
    if own is False:
        return True
    own_now = value.__dict__
    return not own_now if own is None else matches(own, own_now, leaves)


def rebuild(description, leaves):
    """The nested value again, with other leaves."""
    return built(description, iter(leaves))


cdef object built(object description, object leaves):
    if description is LEAF:
        return next(leaves)
    kind, parts = description[0], description[1]
    if kind is "value":
        return description[2]
    if kind is "object":
        return (<ByIdentity>parts).held
    if issubclass(kind, dict):
        items = {key: built(item, leaves) for key, item in parts}
        if kind is dict:
            return items
        base, out = description[4], empty_of(kind)
        for key, item in items.items():
            base.__setitem__(out, key, item)
        if base is collections.defaultdict:
            out.default_factory = description[2]
    else:
        values = [built(item, leaves) for item in parts]
        if kind is list:
            return values
        if kind is slice:
            return slice(*values)
        out = tuple(values)
        if kind is tuple:
            return out
        out = empty_of(kind, out)
    if description[3]:
        out.__dict__.update(built(description[3], leaves))
    return out


# The bits of each in `modes`.
cdef tuple MODES = (("grad mode", 0xff), ("autocast", 0xff << 8), ("autocast's dtype", 0xff << 16),
                    ("autocast's cache", 0xff << 24), ("the default dtype", 0xff << 32),
                    ("hooks of saved tensors", 1 << 40), ("the current device", 0x7f << 41),
                    ("the device that tensors are made on", 0xffff << 48))


cpdef int64_t modes():
    """What else of this thread and process a recording depends on."""
    return (<int64_t>grad_mode() | <int64_t>t_autocast.active << 8
            | <int64_t>t_autocast.dtype << 16 | <int64_t>t_autocast.cache << 24
            | <int64_t>default_dtype() << 32 | <int64_t>saved_hooks_active() << 40
            | current_indices() << 41 | code_of(t_device) << 48)


cdef inline int wants_of(TensorBase x):
    return 0 if not wants_grad(x) else 1 if x.node is not None else 2


cdef object MARKS = "_dynamic_sizes"   # the attribute that mark_dynamic sets


def is_plain_leaf(TensorBase x not None):
    """Whether a leaf has no class, attributes or hooks of its own: facts say all of it."""
    if type(x) is not PUBLIC or x._hooks or x._post_hooks:
        return False
    return is_plain(x)


cdef bint is_plain(TensorBase x) except -1:
    own = x.__dict__
    return not own or (len(own) == 1 and MARKS in own)


def own_attributes(TensorBase x not None):
    """The attributes that were set on a tensor; of those of the library none."""
    return {name: value for name, value in x.__dict__.items() if name != MARKS}


def has_values(TensorBase x not None, TensorBase values not None):
    """Whether a tensor has these elements, bit for bit, in dtype and shape; ``values`` is in
    row-major order."""
    cdef CTensor dense
    cdef CTensor other
    if x.t.dtype() != values.t.dtype() or not x.t.shape() == values.t.shape():
        return False
    if x.t.numel() == 0:
        return True
    dense = x.t if x.t.is_contiguous() else (<TensorBase>run_one(OP_COPY, x, Attrs())).t
    dense = dense if is_on_host(dense) else host_copy(dense)
    other = values.t if is_on_host(values.t) else host_copy(values.t)
    return memcmp(dense.host_data(), other.host_data(),
                  <size_t>(values.t.numel() * values.t.itemsize())) == 0


cdef TensorBase leaf_of(object leaf, leaves):
    """A leaf itself, or the argument of that number."""
    return <TensorBase>(leaves[leaf] if type(leaf) is int else leaf)


cdef class TensorGuard:
    """What of a tensor among the arguments a program is made for. Where arguments share a memory,
    ``first`` is the first of them, and where they lie in it counts; ``same`` is the first that is
    the same tensor. ``kind`` is its class, ``own`` its attributes if it has any."""

    cdef object kind
    cdef dict own
    cdef Dims shape, strides
    cdef DType dtype
    cdef int wants
    cdef int64_t offset, elements, place
    cdef readonly Py_ssize_t first, same
    cdef readonly bint shared

    def __cinit__(self, TensorBase x not None, Py_ssize_t first=0, Py_ssize_t same=0,
                  bint shared=False, dict own=None):
        self.kind, self.own = type(x), own or None
        self.shape, self.strides, self.dtype = x.t.shape(), x.t.strides(), x.t.dtype()
        self.wants, self.first, self.same, self.shared = wants_of(x), first, same, shared
        self.offset, self.elements = x.t.offset(), storage_elements(x.t)
        self.place = code_of(x.t.device())

    def row(self):
        """(class, attributes or None, dtype number, shape, strides, device, 0: does not require
        grad, 1: does and has a tape, 2: is a leaf)."""
        return (self.kind, self.own, <int>self.dtype, tuple_of(self.shape), tuple_of(self.strides),
                self.place, self.wants)

    cdef str difference(self, TensorBase x, bint free=False):
        """What of a tensor is not as it must be, but for its memory; free: and its sizes."""
        if x.t.dtype() != self.dtype:
            return f"dtype {DTYPES[<int>x.t.dtype()]}, not {DTYPES[<int>self.dtype]}"
        if code_of(x.t.device()) != self.place:
            return f"device {x.device}"
        if not x.t.shape() == self.shape and not (
                free and x.t.rank() == <int64_t>self.shape.size()):
            return f"shape {tuple_of(x.t.shape())}, not {tuple_of(self.shape)}"
        if not free and not x.t.strides() == self.strides:
            return f"strides {tuple_of(x.t.strides())}, not {tuple_of(self.strides)}"
        if wants_of(x) != self.wants:
            return "whether it requires grad, or is a leaf"
        if free and self.shared:
            return "which arguments share its memory"
        if self.shared and (x.t.offset() != self.offset or storage_elements(x.t) != self.elements):
            return "where it lies in a memory that arguments share"
        return None

    cdef bint has_attributes(self, TensorBase x) except -1:
        """Whether a tensor has the attributes."""
        if self.own is None:
            return is_plain(x)
        own = <dict>own_attributes(x)
        return len(own) == len(self.own) and all(
            [name in self.own and same(<PyObject*>value, <PyObject*>(self.own[name]))
             for name, value in own.items()])

    cdef list other_sizes(self, TensorBase x):
        return [(d, x.t.size(d)) for d in range(x.t.rank()) if x.t.size(d) != self.shape[d]]


def firsts(leaves):
    """Of each leaf, the first that lies in the same memory, and the first that is the same."""
    cdef dict memories = {}, seen = {}
    return [(memories.setdefault(<size_t>&(<TensorBase>x).t.storage(), i)
             if isinstance(x, TensorBase) else i, seen.setdefault(id(x), i))
            for i, x in enumerate(leaves)]


cdef bint meets(Py_ssize_t i, tensors, written) except -1:
    """Whether tensor ``i`` has bytes in common with one of another storage, and one of the two is
    written; ``written`` are the numbers of those that are."""
    cdef Py_ssize_t j
    x = <TensorBase>tensors[i]
    for j in range(len(tensors)):
        y = tensors[j]
        if isinstance(y, TensorBase) and (j in written or i in written):
            if shares_bytes((<TensorBase>x).t, (<TensorBase>y).t):
                return True
    return False


def overlapping(list tensors not None, written):
    """The number of a tensor whose memory is another's, too, under another storage, where one of
    the two is written; None where there is none. Such memory is foreign, as that of an array."""
    cdef Py_ssize_t i
    for i in range(len(tensors)) if written else ():
        x = tensors[i]
        if isinstance(x, TensorBase) and is_shared_memory((<TensorBase>x).t):
            if meets(i, tensors, written):
                return i
    return None


cdef class CompiledGraph:
    """A captured call and its program. ``capture`` says what the program takes and gives
    (`tinyt.compiler.capture.capture.Capture`)."""

    cdef readonly object capture
    cdef readonly bint confirmed  # needs no second capture, or there was one
    cdef bint was_hit             # by a later call
    cdef readonly object profile  # of the last measured call
    cdef readonly tuple description   # of the arguments and of those with names
    cdef readonly object program_object  # what runs at a call; capture.backward may have another
    cdef readonly int64_t modes
    cdef readonly list facts
    cdef list guards, places, no_grad, numbers, generators, set_grads, results
    cdef list renewed                 # leaves whose gradients a run replaces without reading them
    cdef dict kept, valued
    cdef list touched                 # what is captured
    cdef object written               # numbers of leaves, and beyond these of what is captured
    cdef unordered_set[size_t] captured
    cdef unordered_set[size_t] reached   # memories of what the function comes to otherwise
    cdef vector[int] source_kinds
    cdef vector[Py_ssize_t] source_leaves
    cdef list sources, layouts
    cdef object result_description, backward
    cdef Program* program
    cdef bint is_flat          # the arguments are the leaves
    cdef bint returns_numbers
    cdef bint returns_output   # the first one, as it is, and nothing else comes of a run

    def __cinit__(self, capture, program, tuple description not None, int64_t modes, leaves):
        at = firsts(leaves)
        several = {first for i, (first, _) in enumerate(at) if first != i}
        self.capture, self.program_object, self.modes = capture, program, modes
        self.program = <Program*><size_t>core_object(program, tinyt._core.Program).address
        self.description = description
        self.is_flat = not description[1][1] and all([part is LEAF for part in description[0][1]])
        self.facts = [TensorGuard(x, *at[i], at[i][0] in several,
                                None if i in capture.kept else own_attributes(x))
                      if isinstance(x, TensorBase) else type(x) for i, x in enumerate(leaves)]
        self.touched, self.written = capture.touched, capture.written or None
        self.guards, self.places = list(capture.guards), list(capture.places)
        self.no_grad, self.kept = list(capture.no_grad), dict(capture.kept)
        # What was recorded may come to be seen, and written: the values lie apart, too.
        self.valued = {i: (x, run_one(OP_COPY, x, Attrs())) for i, x in capture.valued.items()}
        for storage in capture.captured:
            self.captured.insert(<size_t>storage)
        for storage in capture.reached:
            self.reached.insert(<size_t>storage)
        self.sources, self.layouts = [], []
        for source, layout in zip(capture.arguments, capture.layouts, strict=True):
            kind, what = (FROM_LEAF, source) if isinstance(source, int) else (
                {"memory": FROM_MEMORY, "grad": FROM_GRAD, "seed": FROM_LATER}[source[0]], source[1])
            self.source_kinds.push_back(kind)
            self.source_leaves.push_back(what if type(what) is int and kind != FROM_LATER else -1)
            self.sources.append(what)
            self.layouts.append(layout)
        self.numbers, self.generators = list(capture.numbers), list(capture.draws)
        self.set_grads = list(capture.set_grads)
        self.result_description, self.results = capture.tree, list(capture.results)
        self.returns_numbers = any([kind == A_NUMBER for kind, _ in self.results])
        read = [leaf for kind, leaf in zip(self.source_kinds, self.sources) if kind == FROM_GRAD]
        known = {leaf if type(leaf) is int else id(leaf) for leaf in read}
        self.renewed = [leaf for leaf, _, _ in self.set_grads
                        if (leaf if type(leaf) is int else id(leaf)) not in known]
        self.backward = capture.backward
        self.returns_output = (self.backward is None and not self.set_grads and capture.tree is LEAF
                               and self.results == [(AN_OUTPUT, 0)])

    # ---- does it stand for a call?

    cdef object leaves_of(self, tuple args, dict kwargs, bint free=False):
        """The leaves of a call that it stands for, as far as is known before its numbers are
        computed; None of another call."""
        cdef object leaves
        if modes() != self.modes:
            return None
        if self.is_flat:
            if kwargs or len(args) != len(self.facts):
                return None
            leaves = args
        else:
            leaves = []
            if not (matches(self.description[0], args, <list>leaves)
                    and matches(self.description[1], kwargs, <list>leaves)):
                return None
        if self.leaves_fit(leaves, free) is not None:
            return None
        for guard in self.guards:
            if not holds_still(<Guard>guard):
                return None
        for place in self.places:
            if type((<Location>place)()) is not float:
                return None
        for leaf in self.no_grad:
            if leaf_of(leaf, leaves)._grad is not None:
                return None
        return leaves

    cdef str leaves_fit(self, leaves, bint free=False):
        """None, or what of which argument is not as it must be."""
        cdef TensorGuard facts
        cdef TensorBase x, kept
        cdef Py_ssize_t i, first, same
        cdef size_t storage
        cdef list at = firsts(leaves) if len(self.facts) > 8 else None
        for i in range(len(self.facts)):
            guard, leaf = self.facts[i], leaves[i]
            if isinstance(guard, type):   # the class of a float
                if type(leaf) is not guard:
                    return f"argument {i}: a {type(leaf).__name__}, not a {guard.__name__}"
                continue
            if not isinstance(leaf, TensorBase):
                return f"argument {i}: a {type(leaf).__name__}, not a tensor"
            facts, x = <TensorGuard>guard, <TensorBase>leaf
            found = facts.difference(x, free)
            if found is not None:
                return f"argument {i}: {found}"
            if at is None:
                first = first_of(x, leaves, i, &same)
            else:
                first, same = at[i]
            if facts.first != first or facts.same != same:
                return f"argument {i}: which arguments share its memory"
            if type(x) is not facts.kind:
                return f"argument {i}: a {type(x).__name__}, not a {facts.kind.__name__}"
            if self.written is not None and is_shared_memory(x.t):
                if meets(i, (*leaves, *self.touched), self.written):
                    return f"argument {i}: its memory is that of another tensor, too"
            storage = <size_t>&x.t.storage()
            if self.valued and i in self.valued:
                recorded, values = self.valued[i]
                if not has_values(x, values) or not has_values(recorded, values):
                    return f"argument {i}: other values, which the function is captured for"
            kept = <TensorBase>self.kept.get(i)
            # Whether a tensor has attributes is slow to ask: later only where one had some.
            if kept is None and (facts.own is not None or not self.was_hit):
                if not facts.has_attributes(x):
                    return f"argument {i}: its attributes"
            if kept is None and facts.wants == 2:
                if not is_plain_leaf(x):
                    return f"argument {i}: a leaf with a class, attributes or hooks of its own"
                if self.reached.count(storage):
                    return f"argument {i}: its memory is read by the function otherwise, too"
            if self.captured.empty() and not self.kept:
                continue
            if kept is None:
                if self.captured.count(storage):
                    return f"argument {i}: its memory is read by the function otherwise, too"
            elif x is not kept and (wants_grad(x) or storage != <size_t>&kept.t.storage()
                                    or x.t.offset() != kept.t.offset()):
                return f"argument {i}: another tensor"
        return None

    def other_sizes(self, tuple args, dict kwargs, list leaves):
        """(argument, dim, size) of the sizes that keep it from standing for a call, whose leaves it
        adds; None where something else does."""
        found = self.leaves_of(args, kwargs, True)
        if found is None:
            return None
        leaves.extend(found)
        return [(i, d, n) for i, x in enumerate(leaves) if isinstance(x, TensorBase)
                for d, n in (<TensorGuard>self.facts[i]).other_sizes(<TensorBase>x)]

    def reason(self, tuple args, dict kwargs):
        """Why it does not stand for a call; None where only the numbers can be why."""
        cdef list leaves = []
        for name, bits in MODES:
            if (modes() ^ self.modes) & bits:
                return name
        if not (matches(self.description[0], args, leaves)
                and matches(self.description[1], kwargs, leaves)):
            return "other arguments than tensors and floats, or how they are nested"
        found = self.leaves_fit(leaves)
        if found is not None:
            return found
        for guard in self.guards:
            if not holds_still(<Guard>guard):
                return str(guard)
        return None

    def confirm(self):
        """A second capture was the same, or is not needed."""
        self.confirmed = True

    def ready(self, leaves):
        """Whether the gradients and numbers that it takes are there, and as they must be."""
        cdef PlannedRun run
        return self.take(leaves, run) and self.capture.core.holds(list(run.given))

    def call(self, leaves, profile=None):
        """The result of the call that was captured."""
        result = self.run(leaves, profile)
        if result is MISS:
            raise CaptureError("compile: what the function reads has changed while it was captured")
        return result

    def given(self, leaves):
        """The numbers that a run with these arguments takes."""
        cdef vector[double] given
        self.take_numbers(leaves, given)
        return list(given)

    def inputs(self, leaves):
        """(arguments, numbers given, draws) of a run, which takes the draws of its generators."""
        cdef PlannedRun run
        if not self.take(leaves, run):
            raise CaptureError("compile: a gradient that the program takes is not there")
        return taken(run), list(run.given), self.take_draws()

    # ---- its run

    cdef bint take(self, leaves, PlannedRun& run) except -1:
        """Collects the tensors and numbers of a run; whether they are there."""
        cdef Py_ssize_t i
        cdef TensorBase x
        cdef unordered_set[size_t] used   # memories of gradients, and of arguments
        cdef size_t storage
        run.arguments.reserve(self.source_kinds.size())
        for i in range(<Py_ssize_t>self.source_kinds.size()):
            kind = self.source_kinds[i]
            if kind == FROM_LEAF:
                run.arguments.push_back((<TensorBase>leaves[self.source_leaves[i]]).t)
                continue
            if kind == FROM_LATER:
                run.arguments.push_back(CTensor())
                continue
            if kind == FROM_MEMORY:
                run.arguments.push_back(whole_memory((<TensorBase>leaves[self.source_leaves[i]]).t))
                continue
            # Memory of its own, as the recording took it.
            found = leaf_of(self.sources[i], leaves)._grad
            if found is None:
                return False
            x = <TensorBase>found
            layout = <TensorGuard>self.layouts[i]
            if layout.difference(x) is not None:
                return False
            if used.empty():
                for leaf in leaves:
                    if isinstance(leaf, TensorBase):
                        used.insert(<size_t>&(<TensorBase>leaf).t.storage())
            storage = <size_t>&x.t.storage()
            if self.captured.count(storage) or not used.insert(storage).second:
                return False
            run.arguments.push_back(x.t)
        self.take_numbers(leaves, run.given)
        return True

    cdef int take_numbers(self, leaves, vector[double]& given) except -1:
        for source in self.numbers:
            given.push_back(leaves[source] if type(source) is int else source())
        return 0

    cdef object run(self, leaves, profile=None):
        """The result; MISS, and nothing is run, where the program does not stand for the call.
        A profile (`tinyt.compiler.inspect`) measures the run."""
        cdef PlannedRun run
        cdef RunObserver* observer = NULL
        cdef bint ran = False, stands = True
        cdef list draws = None
        if not self.take(leaves, run):
            return MISS
        if self.generators:
            draws = self.take_draws()
            for seed, counter in draws:
                run.draws.emplace_back(<int64_t>seed, <int64_t>counter)
        if profile is not None:
            observer = <RunObserver*><size_t>profile.start(self.program_object)
        try:
            if self.renewed:   # as in eager, their memory is free
                with nogil:
                    stands = self.program.holds(run.given)
                for leaf in self.renewed if stands else ():
                    leaf_of(leaf, leaves)._grad = None
            ran = run.run(self.program[0], observer, self.returns_numbers)
        finally:
            if not ran and draws is not None:
                for (generator, count), draw in zip(self.generators, draws, strict=True):
                    generator.give_back(count, draw)
        if ran and profile is not None:
            self.profile = profile
        return self.finish(run, leaves, draws, profile) if ran else MISS

    cdef list take_draws(self):
        return [(<object>generator).take(count) for generator, count in self.generators]

    cdef object finish(self, PlannedRun& run, leaves, list draws, profile):
        cdef size_t i
        cdef list outputs
        if self.returns_output:
            return wrap(run.outputs[0])
        outputs = [wrap(run.outputs[i]) for i in range(run.outputs.size())]
        if self.backward is not None:
            self.backward.attach(outputs, leaves, taken(run), list(run.given), draws or [], profile)
        return self.accept(outputs, leaves, list(run.numbers) if self.returns_numbers else None)

    cpdef accept(self, list outputs, leaves, list numbers):
        """Sets the gradients to those that a run gave; what the function returns of its outputs and
        of its numbers, if it returns any."""
        cdef Py_ssize_t at   # of an output; -1: as fixed; argument -2 - at
        for leaf, output, fixed in self.set_grads:
            at = <Py_ssize_t>output
            leaf_of(leaf, leaves)._grad = (
                outputs[at] if at >= 0 else fixed if at == -1 else leaves[-2 - at])
        values = []
        for kind, what in self.results:
            if kind == AN_OUTPUT:
                values.append(outputs[what])
            elif kind == AN_ARGUMENT:
                values.append(leaves[what])
            elif kind == A_NUMBER:
                values.append(numbers[what])
            elif kind == A_VIEW:   # on the tape of what it is a view of
                source, i, once, shape, stride, offset = what
                x = i if source == AN_OBJECT else (outputs if source == AN_OUTPUT else leaves)[i]
                x = x.as_strided(once, stride, x.storage_offset() + offset)
                values.append(x if once == shape else x.expand(shape))
            elif kind == A_GRAD:
                values.append(leaf_of(what, leaves)._grad)
            elif kind == AN_ALIAS:
                values.append(wrap((<TensorBase>what).t))
            else:
                values.append(what)
        if self.result_description is LEAF:
            return values[0]
        return rebuild(self.result_description, values)


cdef list taken(PlannedRun& run):
    """The arguments of a run; None where a later program has its own."""
    cdef size_t i
    return [wrap(run.arguments[i]) if run.arguments[i] else None for i in range(run.arguments.size())]


cdef Py_ssize_t first_of(TensorBase x, leaves, Py_ssize_t i, Py_ssize_t* same) except -1:
    """As `firsts` has it; for few leaves."""
    cdef Py_ssize_t j, first = i
    same[0] = i
    for j in range(i - 1, -1, -1):
        other = leaves[j]
        if not isinstance(other, TensorBase):
            continue
        if other is x:
            same[0] = j
        if &(<TensorBase>other).t.storage() == &x.t.storage():
            first = j
    return first


@cython.auto_pickle(False)
cdef class CompiledBase:
    """A compiled function: the program of an entry runs where one stands for the call."""

    cdef readonly object function
    cdef readonly list entries       # the last used first
    cdef public size_t hits, misses   # unsigned: any value may be set, and counts on

    def __init__(self, function):
        self.function, self.entries = function, []

    def __call__(self, *args, **kwargs):
        """The function's result."""
        return self.call(args, kwargs, None)

    cdef object call(self, tuple args, dict kwargs, profile):
        cdef Lazy* outside
        settle_all()   # a program reads memory as it is
        if lazily() == NULL:
            return self.call_now(args, kwargs, profile)
        outside = set_lazily(NULL)
        try:
            return self.call_now(args, kwargs, profile)
        finally:
            set_lazily(outside)

    cdef object call_now(self, tuple args, dict kwargs, profile):
        cdef Py_ssize_t i = 0
        cdef CompiledGraph entry
        if recording_owner() != NULL:   # a part of what is captured now
            return self.function(*args, **kwargs)
        if TRACE is not None and profile is None:   # anomaly mode looks at every gradient
            return self.function(*args, **kwargs)
        while i < len(self.entries):
            entry = <CompiledGraph?>self.entries[i]
            leaves = entry.leaves_of(args, kwargs)
            if leaves is not None:
                if not entry.confirmed and entry.ready(leaves):
                    self.confirm(entry, leaves)
                result = entry.run(leaves, profile)   # MISS, too, where it turned out not to stand for it
                if result is not MISS:
                    self.hits += 1
                    entry.was_hit = True
                    if i > 0 and entry in self.entries:
                        self.entries.remove(entry)
                        self.entries.insert(0, entry)
                    return result
            i += 1
        self.misses += 1
        return self.miss(args, kwargs, profile)

    def call_measured(self, profile, tuple args, dict kwargs):
        """A call that a profile measures, where a program stands for it."""
        return self.call(args, kwargs, profile)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self, instance)
