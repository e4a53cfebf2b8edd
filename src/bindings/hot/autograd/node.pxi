# Tape nodes: one per recorded call. The rules that turn an output gradient into input gradients
# are registered from tinyt.autograd.rules.

cdef uint64_t next_seq = 1
cdef list RULES = [None] * kCallableCount       # per op: tuple of functions per input, or one function
cdef vector[vector[uint64_t]] READS       # per op and input: the positions that its function unpacks
READS.resize(kCallableCount)


def register_rule(str name, functions, needs):
    """Registers the gradient rule of a primitive.

    ``functions``: one callable ``f(grad, node)`` per input (None: no gradient), or a single
    callable ``f(grad, node, needed)`` that returns the gradients of all inputs and may return None
    for those that ``needed``, a tuple of bools, leaves out. ``needs``: per input the positions that
    its function unpacks (-1: the first result, -2: the second, and so on).
    """
    cdef int op = OP_NUMBERS[name]
    cdef uint64_t reads
    if RULES[op] is not None:
        raise ValueError(f"rule: {name} has a rule already")
    for positions in needs or ():
        for position in positions:
            if not -op_outputs(op) <= position < kReadableInputs:
                raise ValueError(
                    f"rule: {name} must read its results (-1, -2, ...) or inputs below "
                    f"{kReadableInputs}, got {position}")
    if op_flags_of(op) & FLAG_SECOND_DIFFERENTIABLE and type(functions) is tuple:
        raise ValueError(f"rule: {name} has two gradients, which one function for all inputs takes")
    RULES[op] = functions
    for positions in needs or ():
        reads = 0
        for position in positions:
            reads |= reads_bit(position)
        READS[op].push_back(reads)


@cython.final
@cython.freelist(64)
@cython.trashcan(True)
cdef class Node:
    """A recorded call: what its gradient rule needs, and where the gradients go next."""


    def __cinit__(self):
        global next_seq
        self.seq = next_seq
        next_seq += 1
        self.outputs = 1

    @property
    def op_name(self):
        """The op's name in the op table."""
        return OP_NAMES[self.op] if self.op >= 0 else getattr(self.function, "__name__", "Function")

    def name(self):
        """PyTorch's style of name: ``MulBackward0``, ``MyFunctionBackward``."""
        if self.op < 0:
            return self.op_name + "Backward"
        words = self.op_name.split("_")
        return "".join(w[:1].upper() + w[1:] for w in words) + "Backward0"

    @property
    def next_functions(self):
        """(node or None, output number) that each input's gradient goes to."""
        return tuple((e if isinstance(e, Node) else None, self.data.inputs[i].output)
                     for i, e in enumerate(self.edges))

    @property
    def is_freed(self):
        """Whether a backward pass has freed what was saved."""
        return bool(self.freed)

    def __repr__(self):
        return f"<{self.name()}>"

    @property
    def attrs(self):
        """The call's attributes in the order of the op table; of a Python function, none."""
        if self.op < 0:
            return EMPTY
        return attrs_tuple_of(self.op, self.data.attrs)

    @property
    def output_shape(self):
        """Shape of the output."""
        return with_rows(tuple_of(self.data.out_shape), size_rows(self.data))

    @property
    def output_dtype(self):
        """Dtype of the output."""
        return DTYPES[<int>self.data.out_dtype]

    cdef int require_input(self, int i) except -1:
        if not 0 <= i < len(self.edges):
            raise IndexError(
                f"{self.name()}: input {i} is out of range, it has {len(self.edges)} inputs")
        return i

    def shape(self, int i):
        """Shape of input ``i``."""
        self.require_input(i)
        return with_rows(tuple_of(self.data.inputs[i].shape), size_rows(self.data.inputs[i]))

    def dtype(self, int i):
        """Dtype of input ``i``."""
        self.require_input(i)
        return DTYPES[<int>self.data.inputs[i].dtype]

    def device_code(self, int i):
        """Device of input ``i``, as the number that attributes have for it."""
        self.require_input(i)
        return code_of(self.data.inputs[i].device)

    def edge_of(self, int i):
        """(edge, output number) that the gradient of input ``i`` goes to."""
        self.require_input(i)
        return self.edges[i], self.data.inputs[i].output

    def needs_input(self, int i):
        """Whether input ``i`` was recorded as one that has a gradient."""
        self.require_input(i)
        return self.edges[i] is not None

    def input(self, int i):
        """Input ``i`` as it was; RuntimeError when it was written to since."""
        self.require_input(i)
        return self.unpack(i, i)

    def output(self):
        """The output as it was; RuntimeError when it was written to since."""
        return self.unpack(self.data.inputs.size(), -1)

    def second(self):
        """The second result (indices), as it was."""
        return self.unpack(self.data.inputs.size() + 1, -2)

    def third(self):
        """The third result, as it was."""
        return self.unpack(self.data.inputs.size() + 2, -3)

    cdef TensorBase unpack(self, size_t slot, int which):
        cdef TensorBase t
        self.check_alive()
        packed = self.packed is not None and slot in self.packed
        if not packed:
            if slot >= self.data.saved.size() or self.data.saved[slot].tensor.impl() == NULL:
                raise RuntimeError(
                    f"{self.op_name}: the gradient rule reads a tensor that was not saved")
            check_saved(self.op, which, self.data.saved[slot])
        edge = self if which == -1 else None if which < 0 else self.edges[which]
        if isinstance(edge, TensorBase) and grad_mode():
            if packed:
                return in_place_of(<TensorBase>edge, unpack_with(self.unpacker, self.packed[slot]).t)
            return <TensorBase>edge
        if packed:
            t = wrap(unpack_with(self.unpacker, self.packed[slot]).t)
        elif self.data.saved[slot].tensor.impl().is_scalar:
            # A Python number takes part in the rule in the precision it had in the call.
            return wrap(cast_number(self.data.saved[slot].tensor, self.data.out_dtype))
        else:
            t = wrap(self.data.saved[slot].tensor)
        if grad_mode() and edge is not None:
            t.node = <Node>edge
            t.output = 0 if which < 0 else self.data.inputs[which].output
        return t

    cdef check_alive(self):
        if self.freed:
            raise_freed(self.op_name)

    def fit(self, int i, TensorBase grad not None):
        """``grad`` in the shape and dtype of input ``i``: summed and converted where needed."""
        cdef const InputMeta* meta = &self.data.inputs[self.require_input(i)]
        cdef Py_ssize_t lead = grad.t.rank() - <Py_ssize_t>meta.shape.size(), d
        cdef bint fits = lead >= 0
        for d in range(<Py_ssize_t>meta.shape.size() if fits else 0):
            fits = fits and (size_is(meta[0], d, 1) or same_size(meta[0], d, grad.t, d + lead))
        if not fits:
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {i}: got shape "
                f"{tuple(grad.shape)} but expected shape compatible with {self.shape(i)}")
        if not grad.t.device() == meta.device:
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {i}: expected device "
                f"{device_name(meta.device).decode()} but got {grad.device}")
        return fit_gradient(grad, meta[0])

    def release(self):
        """Frees what was saved; another pass can run only where nothing was."""
        self.freed = self.freed or self.data.saved.size() != 0
        self.data.saved.clear()
        self.packed = None
        self.unpacker = None
        if self.op < 0:
            self.function.release()

cdef TensorBase in_place_of(TensorBase leaf, const CTensor& t):
    """What a hook unpacked, with its gradient going to the leaf that was packed."""
    cdef TensorBase out = wrap(t)
    cdef Node node = new_node(OP_COPY, 1)
    set_meta(node, 0, leaf, leaf)
    attach(node, out)
    return out


cdef raise_freed(str name):
    raise RuntimeError(
        f"backward: trying to backward through the graph a second time (at {name}), "
        "but its saved tensors have been freed; pass retain_graph=True to the first call")


cdef TensorBase fit_gradient(TensorBase g, const InputMeta& meta):
    """Sums what was broadcast and converts what was promoted."""
    cdef Attrs dims
    cdef Dims summed
    cdef Py_ssize_t lead, i
    if not same_sizes(g.t, meta):
        lead = g.t.rank() - <Py_ssize_t>meta.shape.size()
        for i in range(g.t.rank()):
            if i < lead or (size_is(meta, i - lead, 1) and not size_is(g.t, i, 1)):
                summed.push_back(i)
        if summed.size():
            dims = list_attr(summed)
            dims.add(1)
            g = <TensorBase>run_one(OP_SUM, g, dims)
        if not same_sizes(g.t, meta):
            g = <TensorBase>run_one(OP_RESHAPE, g, sizes_attr(meta))
    g = convert(g, meta.dtype)
    # Others come of a 0-d tensor of the CPU, or of `copy_`.
    return g if g.t.device() == meta.device else moved(g, meta.device)


cdef TensorBase moved(TensorBase x, Device device):
    cdef Attrs place
    place.add(code_of(device))
    return <TensorBase>run_one(OP_TO_DEVICE, x, place)


cdef object edge_of(TensorBase x):
    """Node, leaf tensor or None: where a gradient of x goes."""
    cdef Node node
    if x.base is not None and x.base.rebases != x.seen_rebases:
        # The base was written to since: this view is now a view of the new value.
        x.seen_rebases = x.base.rebases
        edge = edge_of(x.base)
        if edge is None:
            x.node = None
        else:
            node = new_node(OP_AS_STRIDED, 1)
            node.data.attrs = view_geometry(x.base.t, x.t)
            set_meta(node, 0, x.base, edge)
            set_output(node, x.t)
            move_retained(x, x.node, node, 0)
            x.node = node
            x.output = 0
    if x.node is not None:
        return x.node
    return x if x.leaf_grad else None


cdef Node new_node(int op, Py_ssize_t inputs):
    """A node whose inputs have no edges yet."""
    cdef Node node = <Node>Node.__new__(Node)
    cdef Py_ssize_t i
    node.op = op
    node.edges = PyTuple_New(inputs)
    for i in range(inputs):
        Py_INCREF(None)
        PyTuple_SET_ITEM(node.edges, i, None)
    node.data.inputs.resize(inputs)
    return node


cdef void set_meta(Node node, Py_ssize_t i, TensorBase x, object edge):
    """Sets input i: x with its edge."""
    cdef InputMeta* meta = &node.data.inputs[i]
    meta.shape = x.t.plain_shape()
    meta.traced = traced_code(x.t)
    meta.dtype = x.t.dtype()
    meta.device = x.t.device()
    if edge is not None:
        set_edge(node, i, edge, x.output)


cdef void set_edge(Node node, Py_ssize_t i, object edge, int output):
    """Sets where the gradient of input i goes: to an output of a node, or to a leaf.

    Passes visit nodes newest first: a node that is newer than this one, as the edge of a view whose
    base was written to may be, makes this one the newest.
    """
    global next_seq
    if isinstance(edge, Node):
        node.data.inputs[i].output = output
        if (<Node>edge).seq > node.seq:
            node.seq = next_seq
            next_seq += 1
    Py_INCREF(edge)
    Py_DECREF(None)   # which it replaces
    PyTuple_SET_ITEM(node.edges, i, edge)


cdef Node record(int op, Operands& args, const Attrs& attrs, TensorBase into=None):
    """A node for a call whose inputs want gradients; saves what its rule needs.

    What is about to be overwritten (``into``) is saved as a copy.
    """
    cdef size_t i, slot, n = args.size()
    cdef Node node = new_node(op, n)
    cdef uint64_t reads = 0
    cdef TensorBase x
    node.data.attrs = attrs
    for i in range(n):
        if args.object(i) == NULL:
            node.data.inputs[i].shape = args.at(i).plain_shape()
            node.data.inputs[i].traced = traced_code(args.at(i))
            node.data.inputs[i].dtype = args.at(i).dtype()
            node.data.inputs[i].device = args.at(i).device()
            continue
        x = <TensorBase>args.object(i)
        edge = edge_of(x) if is_differentiable(x.t.dtype()) else None
        set_meta(node, i, x, edge)
        if edge is not None and i < READS[op].size():
            reads |= READS[op][i]
    if READS[op].size():
        node.data.saved.resize(n + op_outputs(op))
        for slot in range(n):
            if reads >> slot & 1:
                if into is not None and args.object(slot) == <PyObject*>into:
                    save(node, slot, copy_of(into.t))
                else:
                    save(node, slot, args.at(slot))
    return node


cdef void set_output(Node node, const CTensor& t):
    node.data.out_shape = t.plain_shape()
    node.data.out_traced = traced_code(t)
    node.data.out_dtype = t.dtype()


cdef void save(Node node, size_t slot, const CTensor& t):
    node.data.saved[slot].tensor = t
    node.data.saved[slot].version = t.version()


cdef attach(Node node, TensorBase out, Outputs* all=NULL):
    """Makes `out` the output of `node`, saving what the rule needs of all results."""
    cdef size_t i, n = node.data.inputs.size()
    cdef int k
    cdef uint64_t reads = 0
    set_output(node, out.t)
    if node.op >= 0 and READS[node.op].size():
        for i in range(min(n, READS[node.op].size())):
            if node.edges[i] is not None:
                reads |= READS[node.op][i]
        if reads & reads_bit(-1):
            save(node, n, out.t)
        for k in range(1, op_outputs(node.op) if all != NULL else 1):
            if reads & reads_bit(-1 - k):
                save(node, n + k, all[0][k])
    if saved_hooks_active() and node.data.saved.size() != 0:
        pack_saved(node)
    if TRACE is not None:
        node.trace = TRACE()
    out.node = node
    out.output = 0


cdef Node overwriting(TensorBase into, TensorBase source=None):
    """A node for a write over all of ``into``: the gradient goes to ``source``, zeros to what was
    there. Of a view, the base's update gives them.

    Broadcasting is left to fit_gradient: the source's input keeps its own shape.
    """
    cdef Node node = new_node(OP_COPY, 2 if into.base is None and wants_grad(into) else 1)
    if source is not None:
        set_meta(node, 0, source, edge_of(source))
    if len(node.edges) == 2:
        set_meta(node, 1, into, edge_of(into))
    return node


def zero_gradient(TensorBase value not None, TensorBase source not None):
    """``value`` on the tape as a function of ``source``, too, whose gradient is zero."""
    cdef Node node
    cdef TensorBase out = value
    if grad_mode() and wants_grad(source) and is_differentiable(value.t.dtype()):
        node = new_node(OP_COPY, 2)
        set_meta(node, 0, value, edge_of(value))
        set_meta(node, 1, source, edge_of(source))
        out = wrap(value.t)
        attach(node, out)
    return out


cdef move_retained(TensorBase x, Node old, Node new, int output):
    """``retain_grad`` follows a tensor to the node of its new value."""
    if old is None or old is new or not old.hooks:
        return
    for number, (_, hook) in list(old.hooks.items()):
        target = getattr(hook, "target", None)
        if target is not None and target() is x:
            del old.hooks[number]
            new.hooks = {**(new.hooks or {}), number: (output, hook)}


cdef check_inplace(TensorBase x):
    if not grad_mode():
        return
    if x.leaf_grad and x.node is None:
        raise RuntimeError(
            f"in-place: a leaf Variable that requires grad (shape {tuple(x.shape)}) is being used "
            "in an in-place operation; use it under no_grad() or on a clone")
    if x.base is not None and x.base.leaf_grad and x.base.node is None:
        raise RuntimeError(
            f"in-place: a view of a leaf Variable that requires grad (shape {tuple(x.base.shape)}) "
            "is being used in an in-place operation; use it under no_grad() or on a clone")
    if x.base is not None and x.base.node is not None and edge_of(x) is None:
        raise RuntimeError(
            f"in-place: a view (shape {tuple(x.shape)}) was created in no_grad mode and is being "
            "modified inplace with grad mode enabled; make the view and write to it both inside "
            "no_grad(), where the write is not recorded, or both outside, where it is")


cdef check_rebase(TensorBase x):
    """Fails, before anything is written, where a recorded write to a view could not be undone."""
    if x.base is not None:
        view_geometry(x.base.t, x.t)


cdef rebase(TensorBase x, Node node, int output=0):
    """x was overwritten by the output of `node`; its base and the base's other views follow."""
    cdef TensorBase base = x.base
    cdef Node update, old = x.node
    record_touched(x)
    record_touched(base)
    attach(node, x)
    x.output = output
    move_retained(x, old, node, output)
    if base is None:
        x.rebases += 1
        return
    update = new_node(OP_UPDATE, 2)
    update.data.attrs = view_geometry(base.t, x.t)
    set_meta(update, 0, base, edge_of(base))
    set_meta(update, 1, x, node)
    set_output(update, base.t)
    move_retained(base, base.node, update, 0)
    base.node = update
    base.output = 0
    base.rebases += 1
    edge_of(x)


cdef class GradMode:
    """Turns recording on or off for a block or a function, and restores it after."""

    cdef public bint mode
    cdef vector[int] previous

    def __cinit__(self, *args, **kwargs):
        """A subclass may be made from other arguments."""

    def __init__(self, mode=None):
        """``mode``: off unless it says otherwise."""
        if mode is not None:
            self.mode = mode

    def __enter__(self):
        self.previous.push_back(grad_mode())
        set_grad_mode(self.mode)

    def __exit__(self, exc_type=None, exc_value=None, traceback=None):
        if self.previous.empty():
            raise RuntimeError("grad mode: the block was left before it was entered")
        set_grad_mode(self.previous.back())
        self.previous.pop_back()


def is_grad_enabled():
    """Whether operations of this thread are recorded for backward."""
    return bool(grad_mode())


def _set_grad_enabled(bint mode):
    set_grad_mode(mode)
