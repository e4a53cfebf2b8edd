# Recordings, seen from Python: what must be put back after one, and the numbers it reads anew.

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)
    unsigned long PyThread_get_thread_ident()


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
        self.scalars = []
        self.thread = [PyThread_get_thread_ident(), False]
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

    @property
    def used_elsewhere(self):
        """Whether another thread has used what stands for a number."""
        return self.thread[1]

    def take_by_value(self, bint by_value):
        """Whether numbers from here on are plain ones, and guarded."""
        self.by_value = by_value

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
        cdef int64_t row = recorded_scalars().give(value)
        self.numbers.append(source)
        if self.by_value:
            recorded_scalars().table().guard_on(row)
            return value
        return runtime_scalar(row)

    def release(self):
        """Puts plain numbers where objects, containers and cells keep what stood for some: after
        the recording that is a float for Python alone. Returns the positions of those."""
        cdef dict values = {}
        cdef SymScalar x
        kept = [x for x in self.scalars if Py_REFCNT(x) > 2]   # self.scalars and x
        self.scalars = []
        for x in kept:
            values[id(x)] = x.value
        found = set()
        for holder in gc.get_referrers(*kept) if kept else ():
            if holder is not kept:
                replace_in(holder, values, found)
        return [x.row for x in kept if id(x) in found]

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


cdef replace_in(object holder, dict values, set found):
    """Puts the numbers of ``values``, by ids of what stands for them, where an object keeps that."""
    if isinstance(holder, types.CellType):
        places = [(None, holder.cell_contents)]
    elif isinstance(holder, (list, collections.deque)):
        places = list(enumerate(holder))
    elif isinstance(holder, set):
        places = [(x, x) for x in holder]
    elif isinstance(holder, dict):
        places = list(holder.items())
    else:
        own = getattr(holder, "__dict__", None)
        if isinstance(own, dict):
            replace_in(own, values, found)
        slots = [name for cls in type(holder).__mro__
                 for name in to_names(vars(cls).get("__slots__", ()))]
        places = [(name, getattr(holder, name, None)) for name in slots]
    for key, x in places:
        if id(x) in values:
            found.add(id(x))
            value = values[id(x)]
            if isinstance(holder, types.CellType):
                holder.cell_contents = value
            elif isinstance(holder, set):
                holder.discard(x)
                holder.add(value)
            elif isinstance(holder, (list, collections.deque, dict)):
                holder[key] = value
            else:
                setattr(holder, key, value)
        if isinstance(holder, dict) and id(key) in values:
            found.add(id(key))
            holder[values[id(key)]] = holder.pop(key)
