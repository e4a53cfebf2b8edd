# Recordings, seen from Python: what must be put back after one, and the numbers it reads anew.


cdef class Recorder:
    """What one recording notes of Python's side.

    ``grads``: leaf -> [its gradient before, whether that was read, its gradient now]; the leaves
    keep theirs. ``arguments``, ``numbers`` and
    ``generators``: where the arguments, given numbers and draws of each run come from.
    ``layouts``: what an argument looks like. ``constants``: tensors made from Python's data; ``buffers``: those over its memory, and what that is of. ``reads``: (dict, key, value) that the library
    read of Python's objects; ``held``: dicts that it read whole. ``tensors``: those that were there, by id. ``made``: references to
    those that came to be.
    """


    def __cinit__(self):
        self.grads = {}
        self.arguments = []
        self.layouts = []
        self.numbers = []
        self.generators = []
        self.constants = []
        self.buffers = []
        self.reads = []
        self.held = []
        self.tensors = {}
        self.made = []
        self.nodes = []
        self.drawn = []
        self.parts = []
        self.placeholders = []
        self.wanted = []
        self.gradients = {}
        self.leaves = {}

    def placeholder(self, TensorBase x not None, source):
        """A tensor that stands for ``x``, which comes from ``source`` at each run."""
        out = wrap(add_argument(x.t))
        self.arguments.append(source)
        self.placeholders.append(out)
        self.layouts.append(TensorGuard(x))
        return out

    def follow_leaf(self, TensorBase placeholder not None, TensorBase x not None, Py_ssize_t i):
        """Lets what stands for argument ``i``, a leaf, have the leaf's gradient."""
        placeholder.leaf_grad = True
        self.leaves[id(placeholder)] = placeholder, x, i

    def argument_of(self, x):
        """The number of the leaf that a tensor stands for; None of another one."""
        found = self.leaves.get(id(x))
        return None if found is None else found[2]

    def seed(self, TensorBase like not None, source):
        """What stands for the gradient of an output, in row-major order."""
        shape = tuple_of(like.t.shape())
        return self.placeholder(
            wrap(new_empty_on(<PyObject*>shape, <int>like.t.dtype(), like.t.device())), source)

    def let_wait(self, bint may_wait):
        """Sets `may_wait`."""
        self.may_wait = may_wait

    def refuse(self, error):
        """Remembers the first CaptureError of the recording."""
        if self.refused is None:
            self.refused = error

    def forgive(self, before=None):
        """Forgets a CaptureError that the library itself has caught; ``before``: `refused` as it
        was."""
        self.refused = before

    def require_recorded(self):
        """Raises the first CaptureError of the recording, if there was one."""
        if self.refused is not None:
            raise self.refused

    def need_run(self, str what):
        """Stops a recording that would make what later calls find, as an optimiser's states."""
        self.needs_run = True
        raise CaptureError(f"{what}; run the function once before it is recorded")

    def is_placeholder(self, x):
        """Whether a tensor stands for an argument."""
        return any([x is y for y in self.placeholders])

    def want_values(self, TensorBase x not None):
        """Asks that an argument be known by its values, if ``x`` stands for one."""
        if self.is_placeholder(x):
            self.wanted.append(x)

    def is_grad_of(self, x, leaf):
        """Whether a tensor stands for the gradient that a leaf had before the recording."""
        return self.gradients.get(id(x)) is leaf and leaf is not None

    def number(self, double value, source):
        """A number that comes from ``source`` at each run."""
        if not is_recording():
            raise CaptureError("record: no recording is under way")
        self.numbers.append(source)
        return live_number(recorded_numbers().give(value))

    def draw(self, generator, numel, make):
        """``make(number of the generator, counters taken before)``, as ``Generator.draw`` has it."""
        cdef Py_ssize_t at
        if generator not in self.generators:
            self.generators.append(generator)
            self.drawn.append(0)
        at = self.generators.index(generator)
        first = self.drawn[at]
        self.drawn[at] += -(-numel // 4)
        return make(at, first)

    def counter(self, generator):
        """Where a generator stands, for `go_to`."""
        drawn = generator in self.generators
        return self.drawn, self.drawn[self.generators.index(generator)] if drawn else 0

    def go_to(self, generator, counter):
        """Lets a generator draw from there on; nothing where it has not drawn."""
        if generator not in self.generators:
            return
        if self.parts or counter[0] is not self.drawn:
            raise CaptureError(
                "checkpoint: a function of cond, scan or while_loop draws random numbers, which a "
                "program cannot draw again in its gradient; draw them outside of the checkpoint")
        self.drawn[self.generators.index(generator)] = counter[1]

    @property
    def draws(self):
        """(generator, counters taken) pairs."""
        return list(zip(self.generators, self.drawn))

    @property
    def depth(self):
        """Of parts that have begun and not ended."""
        return len(self.parts)

    def begin_part(self):
        """What is drawn from here on is counted apart."""
        self.parts.append((self.generators, self.drawn))
        self.generators, self.drawn = [], []

    def end_parts(self, Py_ssize_t depth):
        """Ends those that began at this depth or a deeper one."""
        while len(self.parts) > depth:
            self.generators, self.drawn = self.parts.pop()

    cdef record_touched(self, TensorBase x):
        if id(x) not in self.tensors:
            self.tensors[id(x)] = x
            self.nodes.append((x, x.node, x.output))

    def restore(self):
        """Puts back the tapes of the tensors that were there; whether the recording changed one."""
        cdef TensorBase x
        changed = False
        for x, node, output in self.nodes:
            if x.node is not node:
                x.node, x.output = <Node?>node if node is not None else None, output
                changed = True
        return changed

    cdef list grad_state(self, TensorBase leaf):
        cdef list seen = self.grads.get(leaf)
        if self.parts:
            raise CaptureError(
                "a function of cond, scan or while_loop uses `.grad`, which a compiled program does "
                "outside of them only; return what tinyt.autograd.grad gives")
        if seen is None:
            found = self.leaves.get(id(leaf))
            before = leaf._grad if found is None else (<TensorBase>found[1])._grad
            seen = self.grads[leaf] = [before, False, before]
            if found is None:
                self.record_touched(leaf)
        return seen

    cdef object grad(self, TensorBase leaf):
        """The gradient of a leaf, as the recording sees it."""
        cdef list seen = self.grad_state(leaf)
        if not seen[1] and seen[2] is seen[0]:
            seen[1] = True
            if seen[0] is not None:
                if wants_grad(<TensorBase>seen[0]):
                    raise CaptureError(
                        "grad: a program does not follow the tape of a gradient that was there; "
                        "detach it, or set it to None")
                i = self.argument_of(leaf)
                seen[2] = self.placeholder(<TensorBase>seen[0], ("grad", leaf if i is None else i))
                self.gradients[id(seen[2])] = leaf   # placeholders keeps it alive
        return seen[2]


def recorder():
    """The recorder of this thread's recording, or None."""
    cdef PyObject* owner = recording_owner()
    return None if owner == NULL else <object>owner


cpdef refuse_recording(str what):
    """CaptureError inside a recording: what changes Python's side cannot be part of a program."""
    if recording_owner() != NULL:
        raise CaptureError(f"{what}: a program cannot do this; call it outside the compiled function")


cdef int refuse_form(str what, TensorBase x) except -1:
    """CaptureError where a recording would give a tensor that outlives it other memory, a shape or
    strides."""
    cdef PyObject* owner = recording_owner()
    if owner == NULL:
        return 0
    recorder = <Recorder><object>owner
    if x.t.is_recorded():
        outlives = recorder.is_placeholder(x)
    else:
        outlives = not any([ref() is x for ref in recorder.made])
    if outlives:
        raise CaptureError(
            f"{what}: a program cannot give a tensor that was there other memory, another shape or "
            "strides; use what returns a new tensor, copy into it (x.data.copy_(value)), or do it "
            "outside the compiled function")
    return 0


cdef int refuse_reading(str what, TensorBase x) except -1:
    """CaptureError where Python would read in a recording what may be another value at each run."""
    cdef PyObject* owner = recording_owner()
    cdef TensorBase constant
    if owner == NULL or x.t.is_recorded():
        return 0
    for constant in (<Recorder><object>owner).constants:
        if &constant.t.storage() == &x.t.storage():
            return 0
    raise CaptureError(
        f"{what}: a program cannot renew what Python reads of a tensor that was there; use "
        "operations on tensors, item() or tolist(), or pass in what you read")


def aside(function, *args):
    """A call that no recording sees."""
    return call_aside(function, args)


cdef object held_all(object data):
    """What becomes elements of a tensor is part of the recording: the plain numbers."""
    return data if recording_owner() == NULL else held_parts(data, tinyt.nesting.MOST_NESTED)


cdef object held_parts(object data, int most):
    if isinstance(data, (list, tuple)) and most > 0:   # what is nested deeper is refused later
        return [held_parts(x, most - 1) for x in data]
    hold(data)
    return plain_symbol(data)


cdef TensorBase record_constant(TensorBase x):
    """Notes a tensor that was made from Python's data."""
    cdef PyObject* owner = recording_owner()
    if owner != NULL and not x.t.is_recorded():
        (<Recorder><object>owner).constants.append(x)
    return x


cdef record_touched(TensorBase x):
    """Notes a tensor whose tape is about to change, if it was there before the recording."""
    cdef PyObject* owner = recording_owner()
    if owner != NULL and x is not None and not x.t.is_recorded():
        (<Recorder><object>owner).record_touched(x)


cdef record_touched_all(Operands& args):
    """Notes the tensors that were there before the recording."""
    cdef PyObject* owner = recording_owner()
    cdef size_t i
    if owner == NULL:
        return
    for i in range(args.size()):
        if args.object(i) != NULL and not args.at(i).is_recorded():
            (<Recorder><object>owner).record_touched(<TensorBase><object>args.object(i))


cdef class Number(float):
    """A number that a compiled program reads anew at every run, and what is computed from it.

    Where the recorded function depends on its value in another way than by arithmetic, as by a
    comparison, the program holds only as long as the outcome is the same.
    """

    @property
    def position(self):
        """Where it stands in the recording's table of numbers; -1 where it is not one of them."""
        return self.index if is_live(self) else -1

    def __add__(self, other):
        return combine(NumberOp.Add, float.__add__, self, other)

    def __radd__(self, other):
        return combine(NumberOp.Add, float.__add__, other, self)

    def __sub__(self, other):
        return combine(NumberOp.Sub, float.__sub__, self, other)

    def __rsub__(self, other):
        return combine(NumberOp.Sub, float.__sub__, other, self)

    def __mul__(self, other):
        return combine(NumberOp.Mul, float.__mul__, self, other)

    def __rmul__(self, other):
        return combine(NumberOp.Mul, float.__mul__, other, self)

    def __truediv__(self, other):
        return combine(NumberOp.Div, float.__truediv__, self, other)

    def __rtruediv__(self, other):
        return combine(NumberOp.Div, float.__truediv__, other, self)

    def __pow__(self, other, modulus):
        return combine(NumberOp.Pow, float.__pow__, self, other)

    def __rpow__(self, other, modulus):
        return combine(NumberOp.Pow, float.__pow__, other, self)

    def __neg__(self):
        return alone(NumberOp.Neg, self, -plain(self))

    def __abs__(self):
        return alone(NumberOp.Abs, self, abs(plain(self)))

    def __pos__(self):
        return self

    def __richcmp__(self, other, int op):
        if not isinstance(other, (int, float)):
            return NotImplemented
        if isinstance(other, int) and not is_double(other):   # Python compares it exactly
            return FLOAT_COMPARISONS[op](held(self), other)
        outcome = combine(COMPARE_NUMBERS[op], FLOAT_COMPARISONS[op], self, other)
        if isinstance(outcome, Number):
            hold(outcome)
        return bool(plain(outcome))

    def __bool__(self):
        return self != 0.0

    def __hash__(self):
        return hash(held(self))

    def __float__(self):
        return held(self)

    def __int__(self):
        return int(held(self))

    def __trunc__(self):
        return int(held(self))

    def __floor__(self):
        return float.__floor__(held(self))

    def __ceil__(self):
        return float.__ceil__(held(self))

    def __round__(self, digits=None):
        return round(held(self), digits)

    @property
    def real(self):
        """The number itself."""
        return self

    def conjugate(self):
        """The number itself."""
        return self

    def hex(self):
        """The value in hexadecimal."""
        return held(self).hex()

    def is_integer(self):
        """Whether the value is whole."""
        return held(self).is_integer()

    def as_integer_ratio(self):
        """The value as a fraction."""
        return held(self).as_integer_ratio()

    def __divmod__(self, other):
        return both_held(divmod, self, other)

    def __rdivmod__(self, other):
        return both_held(divmod, other, self)

    def __mod__(self, other):
        return both_held(float.__mod__, self, other)

    def __rmod__(self, other):
        return both_held(float.__mod__, other, self)

    def __floordiv__(self, other):
        return both_held(float.__floordiv__, self, other)

    def __rfloordiv__(self, other):
        return both_held(float.__floordiv__, other, self)

    def __repr__(self):
        return repr(held(self))

    def __str__(self):
        return str(held(self))

    def __format__(self, str spec not None):
        return format(held(self), spec)

    def __reduce__(self):
        return float, (held(self),)


cdef list FLOAT_COMPARISONS = [None] * 6
cdef NumberOp[6] COMPARE_NUMBERS
FLOAT_COMPARISONS[Py_LT], COMPARE_NUMBERS[Py_LT] = float.__lt__, NumberOp.Lt
FLOAT_COMPARISONS[Py_LE], COMPARE_NUMBERS[Py_LE] = float.__le__, NumberOp.Le
FLOAT_COMPARISONS[Py_EQ], COMPARE_NUMBERS[Py_EQ] = float.__eq__, NumberOp.Eq
FLOAT_COMPARISONS[Py_NE], COMPARE_NUMBERS[Py_NE] = float.__ne__, NumberOp.Ne
FLOAT_COMPARISONS[Py_GT], COMPARE_NUMBERS[Py_GT] = float.__gt__, NumberOp.Gt
FLOAT_COMPARISONS[Py_GE], COMPARE_NUMBERS[Py_GE] = float.__ge__, NumberOp.Ge


cdef object live_number(int64_t index):
    cdef Number out = <Number>Number.__new__(Number, recorded_numbers().value(index))
    out.index = index
    out.graph = recording_id()
    return out


cdef hold(object x):
    if is_live(x):
        recorded_numbers().hold((<Number>x).index)


cdef object held(object x):
    """The value, on which the recorded function depends from now on."""
    hold(x)
    return plain(x)


cdef object both_held(function, left, right):
    """Python's result, on whose operands the recorded function depends from now on."""
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return NotImplemented
    return function(held(left), held(right))


cdef bint is_double(object x) except -1:
    """Whether an int is the value of a double."""
    try:
        return int(float(x)) == x
    except OverflowError:
        return False


cdef int64_t number_position(object x):
    return (<Number>x).index if is_live(x) else recorded_numbers().constant(PyFloat_AsDouble(x))


cdef object combine(NumberOp op, function, left, right):
    """Python's result; one to be computed anew where an operand is."""
    cdef int64_t index
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return NotImplemented
    result = function(plain(left), plain(right))
    if not is_live(left) and not is_live(right):
        return result
    if not isinstance(result, (float, bool)):
        hold(left)
        hold(right)
        return result
    index = recorded_numbers().apply(op, number_position(left), number_position(right))
    return live_number(index)


cdef object alone(NumberOp op, object x, object result):
    if not is_live(x):
        return result
    return live_number(recorded_numbers().apply(op, (<Number>x).index, -1))


cdef int64_t number_index_for_core(void* x) noexcept:
    return (<Number><object>x).index if is_live(<object>x) else -1


cdef object recorded_item(TensorBase x):
    """The value of a tensor that is there, as a recording may use it: anew at every run."""
    cdef int64_t index = recorded_numbers().item(x.t)
    if is_float(x.t.dtype()):
        return live_number(index)
    recorded_numbers().hold(index)
    return element_to_python((x.t if is_on_host(x.t) else host_copy(x.t)).data(), x.t.dtype())
