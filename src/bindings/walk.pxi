# The hot loop of backward: gradients wait at nodes, which are visited newest first.


cdef class Walk:
    """One backward pass.

    ``wanted`` maps (id of edge, output number) to a position in ``found``, where the gradients
    of tensors that were asked for are kept; None fills ``.grad`` of the leaves only.
    """

    cdef dict pending        # sequence number -> gradients of the node's outputs
    cdef dict nodes          # sequence number -> node
    cdef priority_queue[uint64_t] queue
    cdef dict wanted
    cdef readonly list found
    cdef dict leaves         # id -> [leaf, gradient]

    def __init__(self, wanted, list found):
        self.pending = {}
        self.nodes = {}
        self.leaves = {}
        self.wanted = wanted
        self.found = found

    def start(self, TensorBase output not None, grad):
        """Adds the gradient that an output starts with; False when it has no graph."""
        edge = edge_of(output)
        if edge is None:
            return False
        self.send(edge, output.output if isinstance(edge, Node) else 0, grad)
        return True

    cdef send(self, object edge, int output, object grad):
        cdef list slots
        cdef Node node
        if isinstance(edge, Node):
            node = <Node>edge
            slots = <list>self.pending.get(node.seq)
            if slots is None:
                slots = [None] * node.outputs
                self.pending[node.seq] = slots
                self.nodes[node.seq] = node
                self.queue.push(node.seq)
        else:
            output = 1
            slots = <list>self.leaves.get(id(edge))
            if slots is None:
                slots = [edge, None]
                self.leaves[id(edge)] = slots
        have = slots[output]
        slots[output] = grad if have is None else binary(OP_ADD, have, grad)

    cdef collect(self, object edge, int output, object grad):
        if self.wanted is not None and grad is not None:
            at = self.wanted.get((id(edge), output))
            if at is not None:
                self.found[at] = grad

    def run(self, bint retain_graph):
        """Visits every node that a gradient reaches."""
        cdef Node node
        cdef uint64_t seq
        cdef list grads
        cdef Py_ssize_t i
        while not self.queue.empty():
            seq = self.queue.top()
            self.queue.pop()
            node = <Node>self.nodes.pop(seq)
            grads = <list>self.pending.pop(seq)
            if node.hooks:
                for number, hook in node.hooks:
                    if grads[number] is not None:
                        replaced = hook(grads[number])
                        if replaced is not None:
                            grads[number] = replaced
            if self.wanted is not None:
                for i in range(len(grads)):
                    self.collect(node, i, grads[i])
            results = node.apply(grads)
            grads = None
            if CHECK is not None:
                CHECK(node, results)
            for i in range(len(node.edges)):
                if node.edges[i] is not None and results[i] is not None:
                    self.send(node.edges[i], node.edge_output[i], results[i])
            results = None
            if not retain_graph:
                node.release()

    def finish(self, bint accumulate, bint create_graph):
        """Runs the hooks of the leaves and fills their ``.grad``."""
        cdef TensorBase leaf
        while self.leaves:
            _, entry = self.leaves.popitem()
            leaf = <TensorBase>(<list>entry)[0]
            for hook in leaf._hooks or ():
                replaced = hook((<list>entry)[1])
                if replaced is not None:
                    (<list>entry)[1] = replaced
            self.collect(leaf, 0, (<list>entry)[1])
            if accumulate and (self.wanted is None or (id(leaf), 0) in self.wanted):
                accumulate_grad(leaf, (<list>entry).pop(), create_graph)
                for hook in leaf._post_hooks or ():
                    hook(leaf)


def accumulate_grad(TensorBase leaf not None, TensorBase grad not None, bint create_graph):
    """Adds to ``.grad``, which owns its memory."""
    if leaf._grad is None:
        # The pass's own gradient is taken as it is when nobody else can see it: one reference from
        # the caller's argument list and one from here.
        if create_graph or (Py_REFCNT(grad) <= 2 and sole_owner(grad.t)):
            leaf._grad = grad
        else:
            leaf._grad = run_one(OP_COPY, grad, Attrs())
    elif create_graph:
        leaf._grad = binary(OP_ADD, leaf._grad, grad)
    else:
        inplace(OP_ADD, <TensorBase>leaf._grad, grad)
