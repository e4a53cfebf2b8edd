# dtype, device and Size: small value types.

cdef str SHOWN = "tinyt"   # what stands before names of the library in texts


def show_as(str name not None):
    """The name that texts give the library, "tinyt" before: of dtypes, sizes and types."""
    global SHOWN
    SHOWN = name


def shown_as():
    """The name that `show_as` has set."""
    return SHOWN


cdef class dtype:
    """An element type, such as ``tinyt.float32``.

    There is one object for each dtype; compare with ``is`` or ``==``.
    """

    def __cinit__(self, *args, **kwargs):
        if DTYPES_MADE:
            raise TypeError(f"cannot create '{SHOWN}.dtype' instances; they are {SHOWN}.float32, ...")

    @property
    def itemsize(self):
        """Bytes of one element."""
        return size_of(<DType>self.number)

    @property
    def is_floating_point(self):
        """True for float16, bfloat16, float32 and float64."""
        return bool(is_float(<DType>self.number))

    @property
    def is_complex(self):
        """True for complex64 and complex128."""
        return bool(is_complex(<DType>self.number))

    @property
    def is_signed(self):
        """False for bool and uint8."""
        return self.name not in ("bool", "uint8")

    def __repr__(self):
        return f"{SHOWN}.{self.name}"

    def __reduce__(self):
        return dtype_by_name, (self.name,)


cdef list DTYPES = []
cdef bint DTYPES_MADE = False   # from then on there are no others


def _make_dtypes(names):
    global DTYPES_MADE
    cdef dtype d
    for i, name in enumerate(names):
        d = dtype.__new__(dtype)
        d.number = i
        d.name = name
        DTYPES.append(d)
    DTYPES_MADE = True
    return tuple(DTYPES)


def default_dtype_object():
    """The default float dtype."""
    return DTYPES[<int>default_dtype()]


def dtype_by_name(str name):
    """The dtype called ``name`` ("float32"); TypeError for an unknown one."""
    for d in DTYPES:
        if (<dtype>d).name == name:
            return d
    raise TypeError(f"dtype: {name!r} is not one of {', '.join(d.name for d in DTYPES)}")


cdef int number_for_core(void* object) noexcept:
    if isinstance(<object>object, dtype):
        return (<dtype><object>object).number
    # Python's own types mean what they mean in PyTorch.
    if <object>object is float:
        return <int>DType.Float64
    if <object>object is int:
        return 5
    if <object>object is bool:
        return 0
    if <object>object is complex:
        return <int>DType.Complex128
    if PyLong_CheckExact(<object>object) and 0 <= <object>object < len(DTYPES):
        return <int><object>object
    return -1


# PyTorch's names of kinds of devices, and the last of the tree's own.
cdef tuple DEVICE_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
    "webgpu")


def find_libraries():
    """Tells the core where the libraries are that packages bring, none of which is imported: of
    `wgpu` its own, NVRTC of `nvidia-cuda-nvrtc-cu12` and its later versions."""
    import glob
    import importlib.util
    import os

    def paths(package, *pattern):
        spec = importlib.util.find_spec(package)
        folders = (spec and spec.submodule_search_locations) or ()
        return [path for folder in folders
                for path in sorted(glob.glob(os.path.join(glob.escape(folder), *pattern)))]

    native = paths("wgpu", "resources", "*wgpu_native*")
    set_webgpu_library(os.fsencode(native[0]) if native else b"")
    compilers = paths("nvidia", "*", "lib", "libnvrtc.so.*")
    set_cuda_compilers(b"\n".join(map(os.fsencode, compilers)))


cdef class device:
    """Where a tensor lives: ``device("cpu")``.

    Any of PyTorch's devices can be named, as ``device("cuda:0")`` or ``device("cuda", 0)``, printed
    and compared, and those that `tinyt.backends.load` has brought. Making a tensor on one that this
    process has not, or moving one there, is a RuntimeError that says so. RuntimeError for a name
    that is no device. An int alone is the index of the accelerator that
    `accelerator.current_accelerator` names; RuntimeError where there is none.
    """

    cdef readonly str type
    cdef readonly object index
    # What stands for it, or without an index for the first of its kind, among attributes; -1 until
    # it is known to be here.
    cdef int64_t number

    def __cinit__(self):
        self.number = -1

    def __init__(self, type="cpu", index=None):
        if isinstance(type, device):
            if index is not None:
                raise TypeError("device: a device has an index already")
            type, index = (<device>type).type, (<device>type).index
        elif isinstance(type, int) and not isinstance(type, bool):
            if index is not None:
                raise TypeError(f"device: expected a name beside an index, got {type}")
            type, index = accelerator(), type
            if type is None:
                raise RuntimeError(
                    f"device: {index} is the index of an accelerator, and this process uses none "
                    f"yet; name one, as 'cuda:{index}'")
        if not isinstance(type, str):
            raise TypeError(f"device: expected a name, got {type!r}")
        name, colon, number = type.partition(":")
        if not name.isascii():
            raise RuntimeError(f"device: {type!r} is not a device name")
        kind = device_kind_of(name.encode())
        if kind >= 0:
            name = device_kind_name(kind).decode()   # which may have others
        elif name not in DEVICE_TYPES:
            raise RuntimeError(f"device: {name!r} is no device; expected one of "
                               f"{', '.join(DEVICE_TYPES)} at the start of {type!r}")
        if colon:
            if index is not None:
                raise RuntimeError(
                    f"device: type must not include an index where one is passed, got {type!r}")
            if not (number.isascii() and number.isdigit()) or (number[0] == "0" and len(number) > 1):
                raise RuntimeError(f"device: {type!r} is not a device name")
            index = int(number)
        elif index is not None and (isinstance(index, bool) or not isinstance(index, int)):
            raise TypeError(f"device: index must be an int, got {index!r}")
        if index is not None and not 0 <= index < 128:
            raise RuntimeError(f"device: index must be from 0 to 127, got {index}")
        self.type = name
        self.index = index

    cdef int64_t code(self) except -1:
        """Its number among attributes; RuntimeError where this process has none such. Without an
        index it is the device of its kind that is this thread's now."""
        if self.number < 0:
            self.number = self.looked_up()
        if self.index is None:
            return self.number | current_index(self.number >> 8)
        return self.number

    cdef int64_t looked_up(self) except -1:
        name = self.type.encode()
        if device_kind_of(name) < 0:
            if self.type in ("cuda", "webgpu"):
                find_libraries()
            need_device_kind(name)
            warning = take_device_warning(name).decode()
            if warning:
                import warnings
                warnings.warn(warning, stacklevel=2)
        cdef int64_t kind = device_kind_of(name)
        cdef int64_t at = 0 if self.index is None or self.type == "meta" else self.index
        if kind >= 0 and at < device_count_of(kind):
            return kind << 8 | at
        if kind == 0:
            raise RuntimeError(f"device: cpu has only index 0, got {self.index}")
        raise RuntimeError(f"device: {str(self)!r} is not available; this build has: "
                           f"{device_names().decode()}")

    def require_present(self):
        """The device itself; RuntimeError where this process has none such."""
        self.code()
        return self

    def __eq__(self, other):
        return (isinstance(other, device) and self.type == (<device>other).type
                and self.index == (<device>other).index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __repr__(self):
        tail = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{tail})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self):
        return device, (str(self),)

    def __enter__(self):
        """A block in which this thread makes tensors on this device."""
        code = self.code()
        outer = getattr(ENTERED, "outer", None)
        if outer is None:
            outer = ENTERED.outer = []
        outer.append(swap_creation_device(code))
        return self

    def __exit__(self, exc_type=None, exc_value=None, traceback=None):
        swap_creation_device(ENTERED.outer.pop())


cdef object ENTERED = threading.local()   # of each thread: where tensors were made before each block
cdef device CPU = device("cpu")
cdef dict DEVICES = {0: CPU}    # by number


cdef object device_of_number(int64_t code):
    found = DEVICES.get(code)
    if found is None:
        name = device_kind_name(code >> 8).decode()
        index = code & 255 if device_has_numbers(code >> 8) else None
        found = DEVICES[code] = device(name, index)
    return found


def number_of_device(place):
    """The number that stands for a device among attributes; None: where this thread makes tensors."""
    if place is None:
        return code_of(t_device)
    return (<device>(place if isinstance(place, device) else device(place))).code()


def set_creation_device(device place not None):
    """Where this thread makes tensors from now on; what it was before."""
    return device_of_number(swap_creation_device(place.code()))


def creation_device():
    """Where this thread makes tensors of nothing."""
    return device_of_number(code_of(t_device))


def synchronize(device place not None):
    """Returns when all that was asked of a device is done."""
    synchronise_device(place.code())


def is_meta(device place):
    """Whether tensors on a device have no elements; None: where this thread makes tensors."""
    cdef int64_t code = code_of(t_device) if place is None else place.code()
    return code != 0 and device_kind_name(code >> 8) == b"meta"


def accelerator():
    """The first kind of device beside the CPU of which this process has one, by name; None."""
    cdef int64_t kind
    for kind in range(1, DEVICE_CODES >> 8):
        if device_has_numbers(kind) and device_count_of(kind) > 0:
            return device_kind_name(kind).decode()
    return None


def device_count(str kind not None):
    """How many devices of a kind this process has."""
    cdef int64_t number = device_kind_of(kind.encode())
    return device_count_of(number) if number > 0 and device_has_numbers(number) else 0


def current_device_index(device place not None):
    """The index that a device of that kind without one has in this thread."""
    return current_index(place.code() >> 8)


def set_current_device(device place not None):
    """Makes it the device of its kind that this thread means where it names no index."""
    cdef int64_t code = place.code()
    set_current_index(code >> 8, code & 255)


def device_kinds():
    """The kinds of devices with memory that this process knows so far, by name, the CPU first."""
    cdef int64_t kind
    return ["cpu"] + [device_kind_name(kind).decode() for kind in range(1, DEVICE_CODES >> 8)
                      if device_has_numbers(kind)]


def kinds_of_build():
    """Those of this build, whether they are known so far or not, without the CPU."""
    return [name.decode() for name in c_kinds_of_build()]


def device_facts(device place not None):
    """(name of the hardware, bytes of its memory or 0)."""
    return device_hardware(place.code()).decode(), device_bytes(place.code())


cdef int64_t device_code_for_core(void* object) except -1:
    """The number that stands for a device among attributes, of it or of its number."""
    if PyLong_CheckExact(<object>object):
        if not 0 <= <object>object < DEVICE_CODES:
            raise ValueError(f"device: no device has number {<object>object}")
        return <object>object
    if isinstance(<object>object, str):
        return device(<object>object).code()
    if not isinstance(<object>object, device):
        raise TypeError(f"expected a device, got {type(<object>object).__name__}")
    return (<device><object>object).code()


cdef int64_t named_device_code_for_core(void* object) except -1:
    """The same of what a caller of Python's names: an int is the index of an accelerator."""
    return number_of_device(<object>object)


class Size(tuple):
    """The shape of a tensor: a tuple of int."""

    __slots__ = ()

    def numel(self):
        """The product of the sizes."""
        count = 1
        for n in self:
            count *= n
        return count

    def __repr__(self):
        return f"{SHOWN}.Size({list(self)})"

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other):
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count):
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__


cdef object tuple_of(const Dims& dims, object kind=tuple):
    """The sizes as a tuple, or as an instance of a subclass, filled where it lies."""
    cdef Py_ssize_t i, n = dims.size()
    out = PyTuple_New(n) if kind is tuple else tinyt_new_tuple(kind, n)
    for i in range(n):
        item = PyLong_FromLongLong(dims[i])
        Py_INCREF(item)
        PyTuple_SET_ITEM(out, i, item)
    return out
