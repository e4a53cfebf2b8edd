# The hot loop of backward: gradients wait at nodes, which are visited newest first.


cdef class BackwardPass:
    """One backward pass.

    ``wanted`` maps (id of edge, output number) to a position in ``found``, where the gradients
    of tensors that were asked for are kept, and gradients go only where they lead to one of
    those; None fills ``.grad`` of all leaves.
    """

    cdef ReadyQueue ready        # nodes that gradients wait at
    cdef Leaves leaves
    cdef dict wanted
    cdef readonly list found
    cdef int64_t place                       # where this thread makes tensors, when it began
    cdef list seen                           # the nodes looked at, so that their addresses last
    cdef unordered_set[size_t] targets       # addresses of the edges that were asked for
    cdef unordered_set[size_t] known         # of the nodes looked at
    cdef unordered_set[size_t] leading       # of those from which a target can be reached

    def __cinit__(self, wanted, list found not None):
        self.wanted = wanted
        self.found = found
        self.seen = []
        for key in wanted or ():
            self.targets.insert(<size_t>(<tuple?>key)[0])

    cpdef start(self, TensorBase output, grad):
        """Adds the gradient that an output starts with; False when it has no graph."""
        edge = edge_of(output)
        if edge is None:
            return False
        if self.wanted is not None and isinstance(edge, Node):
            self.look(<Node>edge)
        if self.takes(edge):
            self.send(edge, output.output if isinstance(edge, Node) else 0, grad)
        return True

    cdef look(self, Node root):
        """Finds the nodes at and below ``root`` that lead to targets."""
        cdef Node node
        cdef dict found = {}
        cdef priority_queue[uint64_t] order
        cdef Py_ssize_t first = len(self.seen), i
        cdef tuple edges = (root,)
        while True:
            for edge in edges:
                if isinstance(edge, Node) and self.known.insert(address(edge)).second:
                    found[(<Node>edge).seq] = edge
                    order.push((<Node>edge).seq)
            if order.empty():
                break
            node = <Node>found.pop(order.top())
            order.pop()
            self.seen.append(node)
            edges = node.edges
        # Inputs are older than what was made of them: backwards, they come first.
        for i in range(len(self.seen) - 1, first - 1, -1):
            node = <Node>self.seen[i]
            for edge in node.edges:
                if edge is not None and self.takes(edge):
                    self.leading.insert(address(node))
                    break

    cdef bint takes(self, object edge):
        """Whether a gradient sent along an edge is of use."""
        return (self.wanted is None or self.targets.count(address(edge)) != 0
                or self.leading.count(address(edge)) != 0)

    cdef tuple needed(self, Node node):
        """Of each input of a node, whether its gradient is of use."""
        return tuple([edge is not None and self.takes(edge) for edge in node.edges])

    cdef PendingGrad* pending(self, object edge) noexcept:
        """What has arrived at an edge so far, or NULL."""
        if isinstance(edge, Node):
            return self.ready.find((<Node>edge).seq)
        return self.leaves.find(<PyObject*>edge)

    cdef send(self, object edge, int output, object grad):
        cdef PendingGrad* have = self.pending(edge)
        cdef list slots
        if has_outputs(edge):
            if have == NULL:
                slots = [None] * (<Node>edge).outputs
                self.ready.add((<Node>edge).seq, <PyObject*>edge, <PyObject*>slots)
            else:
                slots = <list>have.grad
            old = slots[output]
            slots[output] = grad if old is None else binary(OP_ADD, old, grad)
        elif have != NULL:
            if is_free(have.grad):
                inplace(OP_ADD, <TensorBase>have.grad, grad)
            else:
                total = binary(OP_ADD, <object>have.grad, grad)
                have.replace(<PyObject*>total)
        elif isinstance(edge, Node):
            self.ready.add((<Node>edge).seq, <PyObject*>edge, <PyObject*>grad)
        else:
            self.leaves.add(<PyObject*>edge, <PyObject*>grad)

    cdef bint send_slice(self, Node node, TensorBase grad) except -1:
        """Adds the gradient of a slice to its part of the whole's, so that many slices of one
        tensor cost no more than their own size. False where the rule must do it: the first one,
        which it pads."""
        cdef const InputMeta* meta = &node.data.inputs[0]
        cdef PendingGrad* have
        edge = node.edges[0]
        if edge is None or not self.takes(edge):
            return True
        if same_sizes(grad.t, meta[0]):
            self.send(edge, meta.output, grad)
            return True
        have = self.pending(edge)
        if have == NULL or has_outputs(edge) or not is_free(have.grad):
            return False
        part = run_one(OP_SLICE, <TensorBase>have.grad, node.data.attrs)
        inplace(OP_ADD, <TensorBase>part, grad)
        return True

    cdef collect(self, object edge, int output, object grad):
        if self.wanted is not None and grad is not None:
            at = self.wanted.get((id(edge), output))
            if at is not None:
                self.found[at] = grad

    cpdef run(self, bint retain_graph):
        """Visits every node that a gradient reaches."""
        cdef CreationDevice place   # as it was after the pass
        place.enter(t_device)       # Cython leaves out what nothing uses
        self.place = code_of(t_device)
        self.visit(retain_graph)

    cdef visit(self, bint retain_graph):
        cdef PendingGrad next
        cdef Node node
        cdef Py_ssize_t i
        while not self.ready.empty():
            next = self.ready.pop()
            node = <Node>next.target
            grad = <object>next.grad
            Py_DECREF(node)   # the two references are this frame's own now
            Py_DECREF(grad)
            if node.hooks:
                grad = self.hooked(node, grad)
            if self.wanted is not None:
                for i in range(node.outputs):
                    self.collect(node, i, grad if node.outputs == 1 else (<list>grad)[i])
                if self.leading.count(address(node)) == 0:
                    continue  # asked for itself: what it was computed from is not
            if node.freed:
                raise_freed(node.op_name)
            if has_other_devices():   # rules make tensors where the gradient is, users where they were
                swap_creation_device(self.place if node.op < 0 else place_of(grad))
            rule = RULES[node.op] if node.op >= 0 else None
            if type(rule) is tuple and CHECK is None:
                self.spread(node, <tuple>rule, <TensorBase>grad)
            else:
                results = self.apply(node, rule, grad)
                grad = None
                if len(results) != len(node.edges):
                    raise RuntimeError(
                        f"{node.name()}: the function gave {len(results)} gradients for "
                        f"{len(node.edges)} inputs")
                if CHECK is not None:
                    CHECK(node, results)
                for i in range(len(node.edges)):
                    edge = node.edges[i]
                    if edge is not None and results[i] is not None and self.takes(edge):
                        self.send(edge, node.data.inputs[i].output, results[i])
                results = None
            grad = None
            if has_other_devices():
                swap_creation_device(self.place)
            if not retain_graph:
                node.release()

    cdef object hooked(self, Node node, object grad):
        """The gradients of a node's outputs as its hooks leave them."""
        cdef list grads = [grad] if node.outputs == 1 else <list>grad
        for number, hook in hooks_of(node.hooks):
            if grads[number] is not None:
                grads[number] = through_hook(hook, <TensorBase>grads[number])
        return grads[0] if node.outputs == 1 else grads

    cdef spread(self, Node node, tuple rule, TensorBase grad):
        """Sends what the functions of the inputs make of a gradient."""
        cdef Py_ssize_t i
        if node.op == OP_SLICE and not grad_mode() and self.send_slice(node, grad):
            return
        for i in range(len(node.edges)):
            edge = node.edges[i]
            if edge is None or rule[i] is None or not self.takes(edge):
                continue
            result = vjp(rule[i], grad, node)
            if result is not None:
                self.send(edge, node.data.inputs[i].output,
                          fit_gradient(<TensorBase?>result, node.data.inputs[i]))

    cdef list apply(self, Node node, object rule, object grad):
        """Gradients of the inputs, in their shapes and dtypes; None where there is no use for one."""
        cdef Py_ssize_t i
        if node.op < 0:
            return node.function(node, [grad] if node.outputs == 1 else grad)
        if rule is None:
            raise NotImplementedError(f"{node.op_name}: the gradient is not implemented")
        if type(rule) is not tuple:
            return rule(grad, node, self.needed(node))
        out = [None] * len(node.edges)
        for i in range(len(out)):
            edge = node.edges[i]
            if edge is not None and rule[i] is not None and self.takes(edge):
                result = vjp(rule[i], grad, node)
                if result is not None:
                    out[i] = fit_gradient(<TensorBase?>result, node.data.inputs[i])
        return out

    def arrived(self):
        """The gradients of the leaves that were asked for, in ``found``; their hooks are not run."""
        cdef PendingGrad next
        while not self.leaves.empty():
            next = self.leaves.pop()
            self.collect(<object>next.target, 0, <object>next.grad)
            Py_DECREF(<object>next.target)
            Py_DECREF(<object>next.grad)

    cpdef finish(self, bint accumulate, bint create_graph):
        """Runs the hooks of the leaves and fills their ``.grad``."""
        cdef PendingGrad next
        cdef TensorBase leaf, grad
        while not self.leaves.empty():
            next = self.leaves.pop()
            leaf = <TensorBase>next.target
            grad = <TensorBase>next.grad
            Py_DECREF(leaf)
            Py_DECREF(grad)
            for hook in hooks_of(leaf._hooks):
                grad = through_hook(hook, grad)
            self.collect(leaf, 0, grad)
            if accumulate:
                accumulate_grad(leaf, grad, create_graph)
                grad = None
                for hook in hooks_of(leaf._post_hooks):
                    hook(leaf)


def outer_edges(list roots, uint64_t first):
    """(edge, output) of what the tapes of tensors reach outside: leaves, and nodes older than
    number ``first``. In the order in which they are met."""
    cdef Node node
    cdef dict found = {}
    cdef set seen = set()
    cdef list waiting = []
    cdef Py_ssize_t i
    for x in roots:
        edge = edge_of(<TensorBase>x)
        if isinstance(edge, Node):
            waiting.append(edge)
    while waiting:
        node = <Node>waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for i in range(len(node.edges)):
            edge = node.edges[i]
            if isinstance(edge, Node) and (<Node>edge).seq >= first:
                waiting.append(edge)
            elif edge is not None:
                found[(id(edge), node.data.inputs[i].output)] = edge
    return [(edge, key[1]) for key, edge in found.items()]


def next_number():
    """The number that the next tape node gets."""
    return next_seq


cdef tuple hooks_of(dict hooks):
    """The hooks at this moment: they may remove themselves."""
    return tuple(hooks.values()) if hooks else EMPTY


cdef TensorBase through_hook(object hook, TensorBase grad):
    """What a hook makes of a gradient."""
    cdef TensorBase out
    replaced = hook(grad)
    if replaced is None:
        return grad
    if not isinstance(replaced, TensorBase):
        raise TypeError(f"expected a Tensor, a hook returned {type(replaced).__name__}")
    out = <TensorBase>replaced
    if not same_sizes(out.t, grad.t):
        raise RuntimeError(
            f"a hook has changed the size of the gradient, from {tuple(grad.shape)} to "
            f"{tuple(out.shape)}")
    if out.t.dtype() != grad.t.dtype():
        raise RuntimeError(
            f"a hook has changed the type of the gradient, from {grad.dtype.name} to "
            f"{out.dtype.name}")
    if not out.t.device() == grad.t.device():
        raise RuntimeError(
            f"a hook has changed the device of the gradient, from {grad.device} to {out.device}")
    return out


cdef int64_t place_of(object grad):
    """The device of a gradient, or of the first of several."""
    if isinstance(grad, TensorBase):
        return code_of((<TensorBase>grad).t.device())
    for x in <list>grad:
        if x is not None:
            return code_of((<TensorBase>x).t.device())
    return 0


cdef size_t address(object x):
    return <size_t><PyObject*>x


cdef bint has_outputs(object edge) noexcept:
    """Whether an edge is a node of several outputs, at which a list of gradients waits."""
    return isinstance(edge, Node) and (<Node>edge).outputs != 1


cdef bint is_free(PyObject* grad) noexcept:
    """Whether nobody else sees a gradient that waits, so that it can be added to where it lies."""
    return references(grad) == 1 and not grad_mode() and sole_owner((<TensorBase>grad).t)


cdef accumulate_grad(TensorBase leaf, TensorBase grad, bint create_graph):
    """Adds to ``.grad``, which owns its memory."""
    have = grad_of(leaf)
    if have is None:
        # The pass's own gradient is taken as it is when nobody else can see it.
        if create_graph or (Py_REFCNT(grad) == 1 and sole_owner(grad.t)):
            set_grad(leaf, grad)
        else:
            set_grad(leaf, run_one(OP_COPY, grad, Attrs()))
    elif create_graph:
        set_grad(leaf, binary(OP_ADD, have, grad))
    else:
        inplace(OP_ADD, <TensorBase>have, grad)


# ---- the usual pass: from one number to all leaves

cdef bint BACKWARD_IS_NAMED = False


def name_backward(bint active):
    """Whether the usual pass goes by `tinyt.autograd.tape`, too, which gives it a name."""
    global BACKWARD_IS_NAMED
    BACKWARD_IS_NAMED = active


cdef object fast_backward(PyObject* const* args, Py_ssize_t n, PyObject* names):
    cdef TensorBase root = operand(args, n, names)
    cdef BackwardPass backward
    cdef bint mode = grad_mode()
    if BACKWARD_IS_NAMED or root is None or n != 1 or root.t.numel() != 1 or not wants_grad(root):
        return NotImplemented
    set_grad_mode(False)
    try:
        backward = BackwardPass(None, [])
        backward.start(root, ones_like(root.t))
        backward.run(False)
        backward.finish(True, False)
    finally:
        set_grad_mode(mode)
    return None


cdef TensorBase ones_like(const CTensor& t):
    return filled(t, 1.0)


cdef TensorBase filled(const CTensor& t, double value):
    """A tensor like ``t``, all of one value."""
    cdef Operands none
    cdef Attrs attrs = sizes_attr(t)
    attrs.add(<int64_t>t.dtype()).add(<int64_t>value).add(code_of(t.device()))
    attrs.add_float(value).add_float(0)
    return <TensorBase>finish(OP_FILL, none, attrs, None)
