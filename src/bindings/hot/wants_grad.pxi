# Asked of every operand: compiled into each hot module. In a `.pxd` the classes, which know each
# other, would not be complete.

cdef inline bint wants_grad(TensorBase x):
    return (x.node is not None or x.leaf_grad) if x.base is None else edge_of(x) is not None
