# The hot loop of backward: gradients wait at nodes, which are visited newest first.


cdef class Walk:
    """One backward pass.

    ``wanted`` maps (id of edge, output number) to a position in ``found``, where the gradients
    of tensors that were asked for are kept, and gradients go only where they lead to one of
    those; None fills ``.grad`` of all leaves.
    """

    cdef dict pending        # sequence number -> gradients of the node's outputs
    cdef dict nodes          # sequence number -> node
    cdef priority_queue[uint64_t] queue
    cdef dict wanted
    cdef readonly list found
    cdef dict leaves         # id -> [leaf, gradient]
    cdef list seen                           # the nodes looked at, so that their addresses last
    cdef unordered_set[size_t] targets       # addresses of the edges that were asked for
    cdef unordered_set[size_t] known         # of the nodes looked at
    cdef unordered_set[size_t] leading       # of those from which a target can be reached

    def __init__(self, wanted, list found):
        self.pending = {}
        self.nodes = {}
        self.leaves = {}
        self.wanted = wanted
        self.found = found
        self.seen = []
        for key in wanted or ():
            self.targets.insert(<size_t>(<tuple>key)[0])

    def start(self, TensorBase output not None, grad):
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
        cdef list edges = [root]
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
                if self.leading.count(address(node)) == 0:
                    continue  # asked for itself: what it was computed from is not
            results = node.apply(grads, self)
            grads = None
            if CHECK is not None:
                CHECK(node, results)
            for i in range(len(node.edges)):
                edge = node.edges[i]
                if edge is not None and results[i] is not None and self.takes(edge):
                    self.send(edge, node.edge_output[i], results[i])
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
            if accumulate:
                accumulate_grad(leaf, (<list>entry).pop(), create_graph)
                for hook in leaf._post_hooks or ():
                    hook(leaf)


cdef size_t address(object x):
    return <size_t><PyObject*>x


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
