# Python-defined functions on the tape; hooks on what nodes save; anomaly mode.

cdef object HOOKS = threading.local()   # .stack: the (pack, unpack) pairs of this thread's open blocks
cdef object TRACE = None      # anomaly mode: called for each node, its result is kept in it
cdef object CHECK = None      # anomaly mode: called with a node and the gradients it gave


def push_saved_hooks(pack, unpack):
    """Passes tensors that this thread saves from now on through ``pack``, later ``unpack``."""
    if not hasattr(HOOKS, "stack"):
        HOOKS.stack = []
    HOOKS.stack.append((pack, unpack))
    set_saved_hooks_active(True)


def pop_saved_hooks():
    """Ends the last ``push_saved_hooks``."""
    HOOKS.stack.pop()
    set_saved_hooks_active(len(HOOKS.stack) != 0)


def set_anomaly_hooks(trace, check):
    """Anomaly mode: what to remember of each call, and how to look at its gradients."""
    global TRACE, CHECK
    TRACE = trace
    CHECK = check


cdef tuple open_hooks():
    """The (pack, unpack) pair of the innermost block."""
    stack = <list>HOOKS.stack
    return <tuple>stack[len(stack) - 1]


cdef TensorBase unpack_with(object unpack, tuple kept):
    cdef CreationDevice place
    place.enter(device_of(<int64_t>kept[1]))
    x = unpack(kept[0])
    if not isinstance(x, TensorBase):
        raise TypeError(
            f"saved_tensors_hooks: unpack must return a Tensor, got {type(x).__name__}")
    return <TensorBase>x


cdef tuple pack_with(object pack, const CTensor& t):
    """What a pack hook makes of a tensor, and where this thread makes tensors: the other hook is
    called as if there, as it may run the forward's own code. What the hook computes is not on the
    tape."""
    cdef uint64_t version = t.version()
    cdef bint mode = grad_mode()
    set_grad_mode(False)
    set_saved_hooks_active(False)   # or a hook that turns the tape on would be given its own
    try:
        packed = pack(wrap(t))
    finally:
        set_saved_hooks_active(True)
        set_grad_mode(mode)
    if t.version() != version:
        raise RuntimeError(
            "saved_tensors_hooks: a saved tensor pack hook is modifying its input in place, which "
            "would change what other operations read; write to a clone of it")
    return packed, code_of(t_device)


cdef pack_saved(Node node):
    cdef size_t slot
    pack, node.unpacker = open_hooks()
    packed = {}
    for slot in range(node.data.saved.size()):
        # Slots that the rule does not read are empty; a Python number is no tensor.
        if node.data.saved[slot].tensor and not node.data.saved[slot].tensor.impl().is_scalar:
            packed[slot] = pack_with(pack, node.data.saved[slot].tensor)
            node.data.saved[slot].tensor = CTensor()
    node.packed = packed


cdef class Saved:
    """A tensor that a Python-defined function saved: its memory, version and source.

    It holds no Python tensor but a leaf, so that saving an output makes no reference cycle.
    """

    cdef SavedTensor saved
    cdef object edge
    cdef int number
    cdef bint is_output
    cdef object packed
    cdef object unpacker

    def __cinit__(self, TensorBase x not None, int output):
        """``output``: which output of the function x is, or -1 for another tensor."""
        self.is_output = output >= 0
        self.edge = None if self.is_output else edge_of(x)
        self.number = output if self.is_output else x.output
        if saved_hooks_active():
            pack, self.unpacker = open_hooks()
            self.packed = pack_with(pack, x.t)
        else:
            self.saved.tensor = x.t
            self.saved.version = x.t.version()

    def unpack(self, Node node):
        """The tensor, as a part of the graph; RuntimeError when it was written to since."""
        cdef TensorBase t
        if self.unpacker is None:
            role = "output of" if self.is_output else "saved by"
            check_version(f"{role} {node.name()}".encode(), self.saved)
        if isinstance(self.edge, TensorBase):
            if self.unpacker is None:
                return self.edge
            return in_place_of(<TensorBase>self.edge, unpack_with(self.unpacker, self.packed).t)
        t = wrap(self.saved.tensor if self.unpacker is None else
                 unpack_with(self.unpacker, self.packed).t)
        t.node = node if self.is_output else <Node>self.edge
        t.output = self.number
        return t


def make_function_node(function, list inputs, int outputs, edges=()):
    """A node of a Python-defined backward: ``function(node, output_grads)`` gives a gradient or
    None for each input, then for each of the edges; ``function.release()`` frees what it saved."""
    cdef Node node = new_node(-1, len(inputs) + len(edges))
    cdef Py_ssize_t i
    node.function = function
    node.outputs = outputs
    for i, x in enumerate(inputs):
        edge = edge_of(<TensorBase?>x) if is_differentiable((<TensorBase>x).t.dtype()) else None
        set_meta(node, i, <TensorBase>x, edge)
    for i, (edge, output) in enumerate(edges, len(inputs)):
        if not (edge is None or isinstance(edge, (Node, TensorBase))):
            raise TypeError(f"make_function_node: an edge is a node or a leaf, got {edge!r}")
        if edge is not None:
            set_edge(node, i, edge, output)
    if TRACE is not None:
        node.trace = TRACE()
    return node


def set_node(TensorBase x not None, Node node, int output):
    """Makes ``x``, a new tensor, output number ``output`` of ``node``."""
    if is_complex(x.t.dtype()):
        no_complex_gradient("Function", x.t.dtype())
    x.node = node
    x.output = output


def set_written(TensorBase x not None, Node node, int output):
    """Makes ``x``, which a function wrote to, output number ``output`` of ``node``."""
    check_complex_write("Function", x)
    if x.leaf_grad and x.node is None:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation")
    check_rebase(x)
    rebase(x, node, output)
