# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=False
"""The hot base class of Tensor: calls into the core, operators, indexing, buffers."""
cimport cython
from cpython.buffer cimport (PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS,
                             PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE)
from cpython.object cimport PyObject, Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.weakref cimport PyWeakref_NewRef

import threading

from core cimport *
from tinyt._autograd cimport (
    Node, attach, check_inplace, check_rebase, edge_of, fast_backward, filled, overwriting, rebase,
    record, transposed)
from tinyt._capture cimport (
    Recorder, SymFloat, SymInt, SymScalar, grad_of, held_all, index, is_symbolic, length_of,
    offset_of, plain_symbol, product_of, record_constant, record_touched, record_touched_all,
    recorded_item, refuse_form, refuse_reading, refuse_recording, scalar_index_for_core, set_grad,
    shape_of, strides_of, symbol_operand)

include "wants_grad.pxi"
include "tensor/types.pxi"

cdef dict OP_NUMBERS = {}
cdef list OP_NAMES = []
for _op in range(kCallableCount):
    OP_NAMES.append(op_name(_op))
    OP_NUMBERS[OP_NAMES[_op]] = _op

cdef int[6] OP_COMPARE
OP_COMPARE[Py_LT] = OP_LT
OP_COMPARE[Py_LE] = OP_LE
OP_COMPARE[Py_EQ] = OP_EQ
OP_COMPARE[Py_NE] = OP_NE
OP_COMPARE[Py_GT] = OP_GT
OP_COMPARE[Py_GE] = OP_GE

# Loads the module that registers the backends and the error classes.
import tinyt._core  # noqa: E402

cdef CTensor EMPTY_TENSOR = empty_tensor()
cdef object PUBLIC = None     # the public Tensor class
cdef tuple EMPTY = ()


cdef class TensorBase:
    """A strided array of numbers that can be recorded for backward."""

    def __cinit__(self):
        self.t = EMPTY_TENSOR   # so that no object is ever without a core tensor

    # ---- facts
    @property
    def shape(self):
        """Sizes of the dimensions."""
        return shape_of(self.t, Size)

    @property
    def dtype(self):
        """Element type."""
        return DTYPES[<int>self.t.dtype()]

    @property
    def device(self):
        """Where the data lives."""
        return device_of_number(code_of(self.t.device())) if has_other_devices() else CPU

    @property
    def ndim(self):
        """Number of dimensions."""
        return self.t.rank()

    @property
    def itemsize(self):
        """Bytes of one element."""
        return self.t.itemsize()

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return product_of(self.t) * self.t.itemsize()

    @property
    def _version(self):
        """Writes so far that autograd sees: not those through ``data``, which has its own count."""
        return self.t.version()

    @property
    def _writes(self):
        """Writes to the memory so far, those through ``data`` too."""
        return self.t.storage().version

    @property
    def _storage_elements(self):
        """Elements that the storage has room for."""
        return storage_elements(self.t)

    @property
    def _device_code(self):
        """The device, as an attribute of an operation has it."""
        return code_of(self.t.device())

    @property
    def _storage_id(self):
        """The same number for all views of a memory, as long as one of them lives."""
        return <size_t>&self.t.storage()

    @property
    def _is_recorded(self):
        """Whether the value belongs to a recording and has no data."""
        if not self.t.is_recorded():   # real memory, of which a traced size may choose the part
            self.t.observe_shape()
        return bool(self.t.is_recorded())

    @property
    def _is_pending(self):
        """Whether operations that make or write it are recorded lazily and have not run."""
        return bool(is_pending(self.t))

    @property
    def _base(self):
        """Of a view: the tensor it is a view of."""
        return self.base

    def dim(self):
        """Number of dimensions."""
        return self.t.rank()

    def numel(self):
        """Number of elements."""
        return product_of(self.t)

    def element_size(self):
        """Bytes of one element."""
        return self.t.itemsize()

    def storage_offset(self):
        """Elements before the first one in the storage."""
        return offset_of(self.t)

    def data_ptr(self):
        """Address of the first element."""
        require_readable("data_ptr", self.t)
        settle_for_write(self.t)
        return address_of(self.t)

    def is_contiguous(self):
        """Whether the elements lie in row-major order without gaps."""
        return bool(is_dense(self.t))

    def is_floating_point(self):
        """Whether the dtype is a float."""
        return bool(is_float(self.t.dtype()))

    def is_complex(self):
        """Whether the dtype is complex."""
        return bool(is_complex(self.t.dtype()))

    def size(self, dim=None):
        """The shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        return length_of(self.t, self._wrap("size", dim))

    def stride(self, dim=None):
        """Steps between neighbours, in elements, of all dimensions or one."""
        if dim is None:
            return strides_of(self.t)
        at = self._wrap("stride", dim)
        return (<tuple>strides_of(self.t))[at]

    cdef int64_t _wrap(self, str what, int64_t dim) except -1:
        cdef int64_t rank = self.t.rank()
        if not -rank <= dim < rank:
            raise IndexError(f"{what}: dim {dim} is out of range [{-rank}, {rank - 1}]")
        return dim + rank if dim < 0 else dim

    def __len__(self):
        if self.t.rank() == 0:
            raise TypeError("len() of a 0-d tensor")
        return length_of(self.t, 0)

    def __hash__(self):
        return <Py_ssize_t><void*>self >> 4

    # ---- autograd state
    @property
    def requires_grad(self):
        """Whether operations on it are recorded for backward."""
        return wants_grad(self)

    @requires_grad.setter
    def requires_grad(self, bint value):
        self.requires_grad_(value)

    def requires_grad_(self, bint requires_grad=True):
        """Asks for a gradient in ``.grad`` (leaves of float dtype only; complex ones are not implemented)."""
        if requires_grad and not is_differentiable(self.t.dtype()):
            raise RuntimeError(
                f"requires_grad: only float and complex tensors can, got {self.dtype.name}")
        if requires_grad and is_complex(self.t.dtype()):
            no_complex_gradient("requires_grad", self.t.dtype())
        if self.node is not None:
            if not requires_grad:
                raise RuntimeError("requires_grad: only leaf tensors can be changed; use detach()")
            return self
        self.leaf_grad = requires_grad
        return self

    @property
    def is_leaf(self):
        """Whether no recorded operation computed it."""
        edge = edge_of(self)
        return edge is None or edge is self

    @property
    def grad_fn(self):
        """The tape node that computed it, or None."""
        edge = edge_of(self)
        return edge if isinstance(edge, Node) else None

    @property
    def output_nr(self):
        """Which output of ``grad_fn`` it is."""
        return self.output

    @property
    def grad(self):
        """The gradient that backward accumulated, or None."""
        return grad_of(self)

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}")
            if not same_sizes((<TensorBase>value).t, self.t):
                raise RuntimeError(
                    f"grad: the gradient has shape {tuple(value.shape)}, "
                    f"the tensor {tuple(self.shape)}")
            if (<TensorBase>value).t.dtype() != self.t.dtype():
                raise RuntimeError(
                    f"grad: the gradient is {value.dtype.name}, the tensor {self.dtype.name}")
            if not (<TensorBase>value).t.device() == self.t.device():
                raise RuntimeError(
                    f"grad: the gradient is on {value.device}, the tensor on {self.device}")
        set_grad(self, value)

    def detach(self):
        """The same memory, outside the tape."""
        return wrap(self.t)

    @property
    def data(self):
        """The same memory, outside the tape; assignment replaces the memory.

        Writes through it do not count as writes to this tensor: backward does not refuse them.
        """
        if is_recording() or self.t.is_recorded():
            return wrap(self.t)
        return wrap(self.t.data_alias())

    @data.setter
    def data(self, TensorBase value not None):
        if self.leaf_grad and not is_float(value.t.dtype()):
            raise RuntimeError(
                f"data: a tensor that requires grad needs float elements, got {value.dtype.name}")
        refuse_form("data", self)
        self.t = value.t.data_alias(False) if value.t.impl().data_alias else value.t

    def detach_(self):
        """Takes this tensor off the tape."""
        if self.base is not None:
            raise RuntimeError("detach_: a view cannot be detached in place; use detach()")
        record_touched(self)
        self.node = None
        self.leaf_grad = False
        return self

    # ---- values
    def compute(self):
        """Runs what `tinyt.lazy` has recorded so far, where this tensor waits for it; the tensor."""
        materialize(self.t)
        return self

    def item(self):
        """The value of a one-element tensor as a Python number."""
        if self.t.numel() != 1:
            raise RuntimeError(
                f"item: a Tensor with {self.t.numel()} elements cannot be converted to a number")
        require_readable("item", self.t)
        if is_recording():
            return recorded_item(self)
        if not is_on_host(self.t):
            return element_to_python(host_copy(self.t).host_data(), self.t.dtype())
        return element_to_python(self.t.host_data(), self.t.dtype())

    def tolist(self):
        """The values as nested lists of numbers."""
        if recording_owner() == NULL:
            return to_nested_list(self.t if is_on_host(self.t) else host_copy(self.t))
        if self.t.numel() > 0:
            require_readable("tolist", self.t)
        return [x.tolist() for x in self] if self.t.rank() else self.item()

    def __bool__(self):
        if self.t.numel() != 1:
            raise RuntimeError(
                f"bool: the truth value of a Tensor with {self.t.numel()} elements is ambiguous; "
                "use any() or all()")
        require_readable("bool", self.t)
        return bool(self.item())

    cdef object _number(self, str what):
        """The only element; ValueError where there is not one, as Python's conversions have it."""
        if self.t.numel() != 1:
            raise ValueError(
                f"{what}: only tensors of one element can be converted to a Python number, got "
                f"shape {tuple(self.shape)}")
        if is_recording():
            require_readable(what.encode(), self.t)
        return self.item()

    def __float__(self):
        return float(self._real_item("float"))

    def __int__(self):
        return int(self._real_item("int"))

    cdef object _real_item(self, str what):
        value = self._number(what)
        if isinstance(value, complex):
            if value.imag != 0:
                raise RuntimeError(f"{what}: the value {value} has an imaginary part")
            return value.real
        return value

    def __complex__(self):
        return complex(self._number("complex"))

    def __index__(self):
        if not is_integral(self.t.dtype()) or self.t.numel() != 1:
            raise TypeError(
                f"index: only integer tensors of a single element can be an index, "
                f"got {self.dtype.name} of shape {tuple(self.shape)}")
        require_readable("index", self.t)
        return int(self.item())

    def _assign(self, source):
        """Writes ``source`` (broadcast, converted) into this tensor."""
        cdef Operands args
        cdef TensorBase src
        cdef Node node = None
        check_inplace(self)
        add_operand(args, source)
        if isinstance(source, complex) and source.imag != 0 and not is_complex(self.t.dtype()):
            raise RuntimeError(
                f"copy_: the value {source} has an imaginary part, {self.dtype.name} has none")
        if args.object(0) != NULL:
            src = <TensorBase>source
            if grad_mode() and is_differentiable(self.t.dtype()) and (
                    wants_grad(self) or wants_grad(src)):
                check_complex_write("copy_", self)
                src = convert(src, self.t.dtype())
                node = overwriting(self, src)
                check_rebase(self)
                call_assign(self.t, src.t)
                rebase(self, node)
                return self
        elif grad_mode() and wants_grad(self):
            node = overwriting(self)
            check_rebase(self)
        call_assign(self.t, args.at(0))
        if node is not None:
            rebase(self, node)
        return self

    # ---- buffers
    def __getbuffer__(self, Py_buffer* buffer, int flags):
        cdef const char* format
        cdef Py_ssize_t i, n
        require_readable("numpy", self.t)
        if not is_on_host(self.t):
            raise BufferError(f"buffer: the host cannot read the memory of {self.device}; use cpu()")
        refuse_reading("numpy", self)
        self._check_strides(flags)   # of which a subclass may run Python code
        format, n = buffer_format(self.t.dtype()), self.t.rank()
        if format == NULL:
            raise BufferError(f"buffer: {self.dtype.name} has no buffer format")
        if flags & PyBUF_WRITABLE and self.t.storage().read_only:
            raise BufferError("buffer: the memory is read-only")
        if wants_grad(self):
            raise BufferError("buffer: the tensor requires grad; use detach() first")
        layout = BufferLayout.__new__(BufferLayout)
        for i in range(n):
            (<BufferLayout>layout).values.push_back(self.t.shape()[i])
        for i in range(n):
            (<BufferLayout>layout).values.push_back(
                self.t.strides()[i] * <Py_ssize_t>self.t.itemsize())
        (<BufferLayout>layout).owner = self
        buffer.buf = self.t.host_data()
        buffer.obj = self
        buffer.len = self.t.numel() * self.t.itemsize()
        buffer.itemsize = self.t.itemsize()
        buffer.readonly = self.t.storage().read_only
        buffer.ndim = n
        # What was not asked for is not told: a reader without a format takes bytes.
        buffer.format = <char*>format if flags & PyBUF_FORMAT else NULL
        buffer.shape = (<BufferLayout>layout).values.data() if flags & PyBUF_ND else NULL
        buffer.strides = NULL
        if flags & PyBUF_STRIDES == PyBUF_STRIDES:
            buffer.strides = (<BufferLayout>layout).values.data() + n
        buffer.suboffsets = NULL
        lend(self.t)
        (<BufferLayout>layout).lent = self.t
        # The layout lives as long as the export.
        Py_INCREF(layout)
        buffer.internal = <void*>layout

    cdef _check_strides(self, int flags):
        """Refuses readers that would take other bytes for the tensor's."""
        if flags & PyBUF_STRIDES != PyBUF_STRIDES or (
                flags & PyBUF_C_CONTIGUOUS == PyBUF_C_CONTIGUOUS):
            fits = self.t.is_contiguous()
        elif flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS:
            fits = self.T.is_contiguous()
        elif flags & PyBUF_ANY_CONTIGUOUS == PyBUF_ANY_CONTIGUOUS:
            fits = self.t.is_contiguous() or self.T.is_contiguous()
        else:
            fits = True
        if not fits:
            raise BufferError("buffer: the reader asks for contiguous memory; use contiguous()")

    def __releasebuffer__(self, Py_buffer* buffer):
        take_back((<BufferLayout>buffer.internal).lent)
        Py_DECREF(<object>buffer.internal)

    def __dlpack_device__(self):
        """(device type, device number) of the DLPack protocol: of a device that a library has
        brought, the type of those without a number of their own."""
        if is_on_host(self.t):
            return (1, 0)
        return (dlpack_device_type(self.t), self.device.index)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule that shares the memory (or a copy's) of the CPU or a CUDA device.

        ``stream``, for CUDA: the consumer's, which waits for the tensor: None or 1 for the legacy
        default stream, 2 for the thread's, -1 for none, else its handle. ``dl_device``: that of the
        tensor, or (1, 0), the CPU, for a copy there unless ``copy`` is False.

        BufferError for tensors that require grad and for other devices.
        """
        if edge_of(self) is not None:
            raise BufferError("__dlpack__: the tensor requires grad; use detach() first")
        on_host, on_cuda = is_on_host(self.t), is_on_cuda(self.t)
        if not on_host and not on_cuda:
            raise BufferError(f"__dlpack__: only tensors of the CPU and of CUDA can be shared, this "
                              f"one is on {self.device}; use cpu()")
        wanted = self.__dlpack_device__() if dl_device is None else tuple(dl_device)
        to_host = on_cuda and wanted == (1, 0)
        if wanted != self.__dlpack_device__() and not to_host:
            known = "the CPU (1, 0)" if on_host else f"{self.device} or the CPU (1, 0)"
            raise BufferError(f"__dlpack__: only {known} is supported, got {dl_device}")
        if to_host and copy is False:
            raise BufferError("__dlpack__: the CPU needs a copy, which copy=False forbids")
        if stream == 0 and dlpack_device_type(self.t) == 10:  # ROCm's default stream
            stream = 1
        self._check_stream(stream, on_host)
        refuse_reading("__dlpack__", self)
        version = () if max_version is None else tuple(max_version)
        if max_version is not None and len(version) != 2:
            raise BufferError(f"__dlpack__: max_version must be two numbers, got {max_version!r}")
        versioned = len(version) == 2 and version[0] >= 1
        source = self.cpu() if to_host else run_one(OP_COPY, self, Attrs()) if copy else self
        if on_cuda and not to_host and stream != -1:
            let_stream_wait((<TensorBase>source).t, 1 if stream is None else stream)
        legacy = on_cuda and not to_host and stream in (None, 1)
        return to_dlpack_capsule((<TensorBase>source).t, versioned, legacy)

    cdef _check_stream(self, stream, bint on_host):
        """Refuses what is no stream of the tensor's device."""
        if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
            raise TypeError(f"__dlpack__: stream must be an int or None, got {stream!r}")
        if on_host and stream not in (None, -1):
            raise BufferError(f"__dlpack__: the CPU has no streams, got {stream}")
        if stream is not None and (stream == 0 or stream < -1):
            raise BufferError(f"__dlpack__: {stream} is no stream of CUDA: 1 is the legacy default "
                              "stream, 2 the thread's, -1 none")

    # ---- operators
    def __add__(self, other): return binary(OP_ADD, self, other)
    def __radd__(self, other): return binary(OP_ADD, other, self)
    def __iadd__(self, other):
        # Subclasses have this as their concatenation too, whose NotImplemented would be a result.
        out = inplace(OP_ADD, self, other)
        return self + other if out is NotImplemented else out
    def __sub__(self, other): return binary(OP_SUB, self, other)
    def __rsub__(self, other): return binary(OP_SUB, other, self)
    def __isub__(self, other): return inplace(OP_SUB, self, other)
    def __mul__(self, other): return binary(OP_MUL, self, other)
    def __rmul__(self, other): return binary(OP_MUL, other, self)
    def __imul__(self, other): return inplace(OP_MUL, self, other)
    def __truediv__(self, other): return binary(OP_DIV, self, other)
    def __rtruediv__(self, other): return binary(OP_DIV, other, self)
    def __itruediv__(self, other): return inplace(OP_DIV, self, other)
    def __floordiv__(self, other): return binary(OP_FLOOR_DIVIDE, self, other)
    def __rfloordiv__(self, other): return binary(OP_FLOOR_DIVIDE, other, self)
    def __ifloordiv__(self, other): return inplace(OP_FLOOR_DIVIDE, self, other)
    def __mod__(self, other): return binary(OP_REMAINDER, self, other)
    def __rmod__(self, other): return binary(OP_REMAINDER, other, self)
    def __imod__(self, other): return inplace(OP_REMAINDER, self, other)
    def __matmul__(self, other):
        if not isinstance(other, TensorBase):
            return NotImplemented
        return self.matmul(other) if t_autocast.active else binary(OP_MATMUL, self, other)

    def __rmatmul__(self, other): return NotImplemented
    def __and__(self, other): return binary(OP_AND, self, other)
    def __rand__(self, other): return binary(OP_AND, other, self)
    def __iand__(self, other): return inplace(OP_AND, self, other)
    def __or__(self, other): return binary(OP_OR, self, other)
    def __ror__(self, other): return binary(OP_OR, other, self)
    def __ior__(self, other): return inplace(OP_OR, self, other)
    def __xor__(self, other): return binary(OP_XOR, self, other)
    def __rxor__(self, other): return binary(OP_XOR, other, self)
    def __ixor__(self, other): return inplace(OP_XOR, self, other)
    def __lshift__(self, other): return binary(OP_LEFT_SHIFT, self, other)
    def __rlshift__(self, other): return binary(OP_LEFT_SHIFT, other, self)
    def __ilshift__(self, other): return inplace(OP_LEFT_SHIFT, self, other)
    def __rshift__(self, other): return binary(OP_RIGHT_SHIFT, self, other)
    def __rrshift__(self, other): return binary(OP_RIGHT_SHIFT, other, self)
    def __irshift__(self, other): return inplace(OP_RIGHT_SHIFT, self, other)
    def __pow__(self, other, modulo): return binary(OP_POW, self, other)
    def __rpow__(self, other, modulo): return binary(OP_POW, other, self)
    def __ipow__(self, other): return inplace(OP_POW, self, other)
    def __neg__(self): return run_one(OP_NEG, self, Attrs())
    def __pos__(self): return self
    def __abs__(self): return run_one(OP_ABS, self, Attrs())
    def __invert__(self): return run_one(OP_NOT, self, Attrs())

    def __getitem__(self, index):
        return get_item(self, index)

    def __setitem__(self, index, value):
        set_item(self, index, value)

    def __delitem__(self, index):
        raise TypeError("del: a Tensor does not support deleting items")

    def __richcmp__(self, other, int kind):
        if not is_operand(other) and hasattr(other, "__array_interface__"):
            other = wrap(from_buffer(<PyObject*>other, True))   # NumPy leaves comparisons to the tensor
        return binary(OP_COMPARE[kind], self, other)


cdef class BufferLayout:
    """Shape and byte strides of an exported buffer."""

    cdef vector[Py_ssize_t] values
    cdef CTensor lent
    cdef object owner


include "tensor/call.pxi"
include "tensor/fast_paths.pxi"
include "tensor/fast_layers.pxi"
include "tensor/fast_shapes.pxi"
include "tensor/index.pxi"

tinyt_forbid_new(BufferLayout)

include "self_check.pxi"
check_selves(globals(), type(require_held))
