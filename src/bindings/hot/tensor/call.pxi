# Calls: Python operands to the core and back, recorded on the tape where wanted.

def make_subclass(type cls not None, TensorBase x not None, bint requires_grad=False):
    """The memory of ``x`` as an instance of a Tensor subclass, off the tape."""
    if not issubclass(cls, PUBLIC):
        raise TypeError(f"expected a subclass of Tensor, got {cls.__name__}")
    cdef TensorBase out = <TensorBase>tinyt_new_object(TensorBase, cls, EMPTY)
    out.t = x.t
    out.requires_grad_(requires_grad)
    return out


cdef TensorBase wrap(const CTensor& t):
    cdef TensorBase out = <TensorBase>tinyt_new_object(TensorBase, PUBLIC, EMPTY)
    out.t = t
    if recording_owner() != NULL:
        (<Recorder><object>recording_owner()).made.append(PyWeakref_NewRef(out, None))
    return out


cdef void* wrap_for_core(const CTensor& t) noexcept:
    out = wrap(t)
    Py_INCREF(out)
    return <void*>out


cdef const CTensor* unwrap_for_core(void* object) noexcept:
    return &(<TensorBase>object).t if isinstance(<object>object, TensorBase) else NULL


cdef inline bint is_number(object x):
    return PyFloat_CheckExact(x) or PyLong_CheckExact(x) or isinstance(x, (bool, int, float, complex)) or (
        is_symbolic(x))


cdef int add_operand(Operands& args, object x) except -1:
    """Adds a tensor or a number; TypeError for anything else."""
    if isinstance(x, TensorBase):
        args.add((<TensorBase>x).t, <PyObject*>x)
    elif is_symbolic(x):
        args.add(symbol_operand(<SymScalar>x), NULL)
    elif isinstance(x, bool):
        args.add(CTensor.truth(<cbool>x), NULL)
    elif isinstance(x, float):
        args.add(CTensor.number(x), NULL)
    elif isinstance(x, int):
        args.add(CTensor.integer(x), NULL)
    elif isinstance(x, complex):
        args.add(complex_scalar(x.real, x.imag), NULL)
    else:
        return add_operand(args, number_of(x))
    return 0


cdef object number_of(object x):
    """A NumPy scalar, or another object whose ``item()`` gives a number, as a number of Python's;
    any number as it is. TypeError for anything else.

    It runs the object's code: whoever holds sizes or memory reads them after it.
    """
    if is_number(x):
        return x
    if not hasattr(x, "item") or not hasattr(x, "dtype"):
        raise TypeError(f"expected a Tensor or a number, got {type(x).__name__}")
    value = x.item()
    if is_number(value):
        return value
    kind = getattr(x.dtype, "kind", None)   # NumPy's long doubles give themselves back
    if kind == "f":
        return float(value)
    if kind == "c":
        return complex(value)
    raise TypeError(f"expected a Tensor or a number, got {type(x).__name__} whose item() is a "
                    f"{type(value).__name__}")


def python_number(x):
    """A NumPy scalar, or another object whose ``item()`` gives a number, as a number of Python's."""
    return exact_number(number_of(x))


cdef inline object settled_operand(object x):
    """An operand whose use runs no Python code: a tensor or a number of Python's."""
    return x if isinstance(x, TensorBase) else number_of(x)


cdef inline int check_number(str what, object value, DType dtype) except -1:
    """Fails where a dtype cannot hold a number."""
    cdef int overflow = 0
    cdef int64_t whole
    if PyFloat_CheckExact(value):
        if holds(dtype, <double>value, False):
            return 0
    elif PyLong_CheckExact(value):
        whole = PyLong_AsLongLongAndOverflow(value, &overflow)
        # Float64 cannot tell the ends of int64 from their neighbours.
        if not overflow and (dtype == DType.Int64 or holds(dtype, <double>whole, True)):
            return 0
    return check_any_number(what, value, dtype)


cdef int check_any_number(str what, object value, DType dtype) except -1:
    cdef bint fits
    if not is_number(value):
        if not hasattr(value, "item"):
            raise TypeError(f"{what}: expected a number, got {type(value).__name__}")
        value = number_of(value)
    if type(value) is SymFloat:   # what it is at other runs is not looked at
        value = (<SymFloat>value).value
    if isinstance(value, float):
        fits = holds(dtype, value, False)
    elif isinstance(value, complex):
        if value.imag != 0 and not is_complex(dtype):
            raise RuntimeError(f"{what}: the value {value} has an imaginary part, "
                               f"{DTYPES[<int>dtype].name} has none")
        fits = holds(dtype, value.real, False) and holds(dtype, value.imag, False)
    else:
        fits = holds(dtype, value, True)
    if not fits:
        raise RuntimeError(f"{what}: the value {value} cannot be converted to "
                           f"{DTYPES[<int>dtype].name} without overflow")
    return 0


def require_held(str what, value, dtype dt not None):
    """RuntimeError where a dtype cannot hold a number."""
    check_number(what, value, <DType>dt.number)


cdef inline bint is_operand(object x):
    return isinstance(x, TensorBase) or is_number(x) or (
        hasattr(x, "item") and getattr(x, "ndim", 1) == 0)


cdef no_complex_gradient(str what, DType dtype):
    """Gradients stop where complex numbers begin: with an error, not in silence."""
    raise NotImplementedError(
        f"{what}: gradients of complex tensors are not implemented, got "
        f"{DTYPES[<int>dtype].name}; use detach() or no_grad()")


cdef check_complex_write(str what, TensorBase into):
    """Refuses a recorded write to complex numbers, or to the parts of some."""
    cdef TensorBase whole = into if into.base is None else into.base
    if is_complex(whole.t.dtype()) or is_complex(into.t.dtype()):
        no_complex_gradient(what, whole.t.dtype())


cdef object finish(int op, Operands& args, Attrs& attrs, object into, bint alone=False):
    """Runs a call whose operands are complete. Of several results a tuple; ``alone``: the first one,
    where the others are for the gradient."""
    cdef Attrs normalised
    cdef Outputs out
    cdef TensorBase first, x
    cdef Node node = None
    cdef size_t i
    cdef unsigned flags = op_flags_of(op)
    cdef bint tape = False
    if is_recording():
        record_touched_all(args)
    if flags & FLAG_HOLDING:
        check_numbers(op, args)
    if grad_mode() and flags & FLAG_DIFFERENTIABLE:
        for i in range(args.size()):
            if args.object(i) != NULL and wants_grad(<TensorBase>args.object(i)):
                tape = True
                break
    if into is not None:
        return finish_into(op, args, attrs, <TensorBase>into, tape)
    out = call(op, args, attrs, &normalised if tape else NULL)
    if tape and is_complex(out.first.dtype()):
        no_complex_gradient(OP_NAMES[op], out.first.dtype())
    x = <TensorBase>args.object(0) if flags & FLAG_VIEW else None
    if x is not None and &out.first.storage() == &x.t.storage():
        first = view_of(x, out.first)
    else:
        first = wrap(out.first)
    if tape and is_differentiable(out.first.dtype()):
        attach(record(op, args, normalised), first, &out)
    return first if alone or op_outputs(op) == 1 else several(op, out, first)


cdef tuple several(int op, Outputs& out, TensorBase first):
    """All results; gradients come through the first, or the first two."""
    cdef tuple all
    if op_outputs(op) == 2:
        all = (first, wrap(out[1]))
    elif op_outputs(op) == 3:
        all = (first, wrap(out[1]), wrap(out[2]))
    else:
        all = (first, wrap(out[1]), wrap(out[2]), wrap(out[3]))
    if first.node is not None and op_flags_of(op) & FLAG_SECOND_DIFFERENTIABLE:
        (<Node>first.node).outputs = 2
        (<TensorBase>all[1]).node = first.node
        (<TensorBase>all[1]).output = 1
    return all


cdef object finish_into(int op, Operands& args, Attrs& attrs, TensorBase into, bint tape):
    cdef Node node = None
    cdef bint inplace = args.size() > 0 and args.object(0) == <PyObject*>into
    if not inplace and (tape or (grad_mode() and wants_grad(into))):
        raise RuntimeError(
            f"{OP_NAMES[op]}: functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad")
    check_inplace(into)
    if tape:
        check_complex_write(OP_NAMES[op], into)
        check_rebase(into)
        node = record(op, args, attrs, into)
    elif inplace and grad_mode() and wants_grad(into):
        check_rebase(into)
        node = overwriting(into)
    if inplace or into.base is not None:
        call_into(op, args, attrs, into.t)
    else:
        call_out(op, args, attrs, into.t)
    if node is not None:
        rebase(into, node)
    return into


cdef object run_one(int op, TensorBase x, Attrs attrs):
    cdef Operands args
    args.add(x.t, <PyObject*>x)
    return finish(op, args, attrs, None)


cdef TensorBase convert(TensorBase x, DType dtype):
    cdef Attrs attrs
    if x.t.dtype() == dtype:
        return x
    attrs.add(<int64_t>dtype)
    return <TensorBase>run_one(OP_CAST, x, attrs)


cdef object binary(int op, object left, object right):
    cdef Operands args
    cdef Attrs attrs
    if not is_operand(left) or not is_operand(right):
        return NotImplemented
    left, right = settled_operand(left), settled_operand(right)
    add_operand(args, left)
    add_operand(args, right)
    return finish(op, args, attrs, None)


cdef object inplace(int op, TensorBase left, object right):
    cdef Operands args
    cdef Attrs attrs
    if not is_operand(right):
        return NotImplemented
    right = settled_operand(right)
    add_operand(args, left)
    add_operand(args, right)
    return finish(op, args, attrs, left)


cdef int operand_slot(int op, str name):
    """The operand a keyword names, or -1."""
    cdef int n = op_inputs(op)
    if name == "input":
        return 1 if op_flags_of(op) & FLAG_CONDITION else 0
    if name == "other":
        return n - 1 if n == 2 or op_flags_of(op) & FLAG_CONDITION else 1 if n in (3, 4) else -1
    if name == "third":
        return 2 if n in (3, 4) else -1
    if name == "fourth":
        return 3 if n == 4 else -1
    if name == "condition" and op_flags_of(op) & FLAG_CONDITION:
        return 0
    if name == "tensors" and n < 0:
        return 0
    return -1


cdef object op_entry(int op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                     PyObject* into):
    """The body of every function and method made from the op table."""
    cdef PyObject* slots[16]
    cdef Operands operands
    cdef Attrs attrs
    cdef int inputs = op_inputs(op)
    cdef Py_ssize_t tensors = 1 if inputs < 0 else inputs
    cdef Py_ssize_t specs = attr_count(op), total = tensors + specs, i
    cdef int slot
    cdef object out = <object>into if into != NULL else None
    cdef list made = None   # numbers that stand in slots
    if nargs > total:
        raise TypeError(f"{OP_NAMES[op]}: takes {total} arguments, got {nargs}")
    for i in range(total):
        slots[i] = args[i] if i < nargs else NULL
    if kwnames != NULL:
        for i in range(len(<tuple><object>kwnames)):
            name = (<tuple><object>kwnames)[i]
            if name == "out" and into == NULL:
                out = <object>args[nargs + i]
                if out is not None and not isinstance(out, TensorBase):
                    raise TypeError(f"{OP_NAMES[op]}: out must be a Tensor, "
                                    f"got {type(out).__name__}")
                continue
            slot = operand_slot(op, name)
            if slot < 0:
                slot = attr_index(op, (<str>name).encode())
                slot = slot + <int>tensors if slot >= 0 else -1
            if slot < 0 or slots[slot] != NULL:
                raise TypeError(f"{OP_NAMES[op]}: unexpected or repeated argument {name!r}")
            slots[slot] = args[nargs + i]
    for i in range(tensors):
        if slots[i] == NULL:
            raise TypeError(f"{OP_NAMES[op]}: missing operand {i + 1} of {tensors}")
    # Conversions run Python code: tensors are read after the last one, and operands kept alive.
    if inputs < 0:
        parts = tuple(<object>slots[0])
        for x in <tuple>parts:
            if not isinstance(x, TensorBase):
                raise TypeError(f"{OP_NAMES[op]}: expected tensors, got {type(x).__name__}")
    else:
        for i in range(tensors):
            if isinstance(<object>slots[i], TensorBase):
                continue
            if not is_scalar_op(op):
                raise TypeError(f"{OP_NAMES[op]}: operand {i + 1} must be a Tensor, "
                                f"got {type(<object>slots[i]).__name__}")
            if not is_number(<object>slots[i]):
                number = number_of(<object>slots[i])
                made = [] if made is None else made
                made.append(number)
                slots[i] = <PyObject*>number
    for i in range(specs):
        add_attr_at(op, i, slots[tensors + i], attrs)
    if inputs < 0:
        for x in <tuple>parts:
            add_operand(operands, x)
    else:
        for i in range(tensors):
            add_operand(operands, <object>slots[i])
    return finish(op, operands, attrs, out)


op_call = op_entry


# ---- construction from Python values

def from_data(data, dtype dt=None, bint alone=False):
    """A new tensor from nested sequences and numbers; ``alone``: TypeError for arrays among them,
    which by their dtypes count otherwise than as numbers."""
    data = held_all(data)
    out = record_constant(wrap(from_sequence(<PyObject*>data, -1 if dt is None else dt.number, alone)))
    if is_recording():   # each run has one of its own
        if code_of(t_device) != code_of(out.t.device()):
            return wrap(to_device(out.t, t_device))
        return run_one(OP_COPY, out, Attrs())
    if has_other_devices():
        out.t = to_device(out.t, t_device)
    return out


cpdef object empty(sizes, dtype dt):
    """An uninitialised tensor; while recording, zeros."""
    cdef Operands none
    cdef Attrs attrs
    cdef CTensor out
    if is_tracing():
        add_attr_at(OP_FILL, 0, <PyObject*>sizes, attrs)
        attrs.add(dt.number).add(0).add(code_of(t_device)).add_float(0).add_float(0)
        return finish(OP_FILL, none, attrs, None)
    out = new_empty(<PyObject*>sizes, dt.number)
    return filled(out, 0.0) if is_recording() else wrap(out)


def view_dtype(TensorBase x not None, dtype dt not None):
    """The same bytes seen as another dtype."""
    return wrap(view_as_dtype(x.t, dt.number))


def become(TensorBase x not None, TensorBase view not None):
    """Gives ``x`` the geometry of a view of it, in place; returns ``x``."""
    check_inplace(x)
    refuse_form("in place", x)
    x.t = view.t
    if view.node is not None:
        x.node = view.node
        x.output = view.output
    return x


def from_buffer_object(data, bint may_copy=False):
    """A tensor over the memory of an object with the buffer protocol.

    Memory that no tensor can lie over (negative or odd strides, elements that are not aligned) is
    copied where ``may_copy``, and a ValueError otherwise.
    """
    out = record_constant(wrap(from_buffer(<PyObject*>data, may_copy)))
    if recording_owner() != NULL:
        if not out.t.storage().is_foreign:   # each run has a copy of its own
            return run_one(OP_COPY, out, Attrs())
        (<Recorder><object>recording_owner()).buffers.append((out, data))
    return out


def from_capsule(capsule):
    """A tensor over the memory of a DLPack capsule."""
    return wrap(from_dlpack_capsule(<PyObject*>capsule))


def set_public_class(cls):
    """Registers the class that every new tensor gets."""
    global PUBLIC
    PUBLIC = cls


def primitives():
    """Name to function, one for each row of the op table."""
    return {OP_NAMES[op]: make_function(op) for op in range(kCallableCount)}


def primitive_method(str name, bint in_place=False):
    """The method descriptor of one row."""
    return make_method(<PyObject*>TensorBase, OP_NUMBERS[name], in_place)


def result_type_number(list operands):
    """Number of the dtype that tensors and numbers promote to."""
    cdef Operands args
    for x in operands:
        add_operand(args, x)
    return result_dtype_of(args)

# ---- autocast

def autocast_state():
    """Whether this thread casts, to which dtype, and whether copies of parameters are kept."""
    return t_autocast.active, DTYPES[<int>t_autocast.dtype], t_autocast.cache


def set_autocast_state(bint active, dtype to not None, bint cache):
    """Sets what `autocast_state` gives."""
    t_autocast.active = active
    t_autocast.dtype = <DType>to.number
    t_autocast.cache = cache


python_seam().dtype_number = number_for_core
python_seam().device_code = device_code_for_core
python_seam().named_device_code = named_device_code_for_core
python_seam().wrap = wrap_for_core
python_seam().unwrap = unwrap_for_core
python_seam().scalar_index = scalar_index_for_core


# ---- memory that processes share

def move_to_shared(TensorBase x not None):
    """Moves the memory of ``x`` into a segment that other processes can map."""
    refuse_recording("share_memory_")
    settle_for_write(x.t)
    c_move_to_shared(x.t)


def shared_descriptor(TensorBase x not None):
    """The descriptor of the segment that the memory of ``x`` is in; -1 where it is in none."""
    return c_shared_descriptor(x.t)


def map_shared(int descriptor, size_t nbytes):
    """``nbytes`` of a segment as uint8; the descriptor is taken over."""
    return wrap(c_map_shared(descriptor, nbytes))
