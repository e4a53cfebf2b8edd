# The parts of the C++ core that the hot module uses.
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.optional cimport optional
from libcpp.queue cimport priority_queue
from libcpp.string cimport string
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector


cdef extern from "errors.h" namespace "tinyt" nogil:
    void raise_python_error()


cdef extern from "core/base/dtype.h" namespace "tinyt" nogil:
    cdef enum class DType "tinyt::DType"(uint8_t):
        Int64
        Float16
        BFloat16
        Float32
        Float64
        Complex128
    size_t size_of(DType)
    cbool is_integral(DType)
    cbool is_float(DType)
    cbool is_bool(DType)
    cbool is_complex(DType)
    cbool is_differentiable(DType)
    DType default_dtype()
    DType promote(DType, DType)


cdef extern from "core/base/shape.h" namespace "tinyt" nogil:
    cdef cppclass Dims "tinyt::Dims":
        Dims()
        size_t size()
        int64_t& operator[](size_t)
        void push_back(int64_t)
        cbool operator==(const Dims&)


cdef extern from "core/device/device.h" namespace "tinyt" nogil:
    cdef cppclass Device "tinyt::Device":
        cbool operator==(Device)
    Device device_of(int64_t)
    string device_name "tinyt::name_of"(Device)
    int64_t code_of(Device)
    int64_t DEVICE_CODES "tinyt::kDeviceCodes"
    cbool has_other_devices()


cdef extern from "devices.h" namespace "tinyt":
    int64_t device_kind_of(const string&)
    string device_kind_name(int64_t)
    int64_t device_count_of(int64_t) except +raise_python_error
    cbool device_has_numbers(int64_t)
    void need_device_kind(const string&) except +raise_python_error
    vector[string] c_kinds_of_build "tinyt::kinds_of_build"()
    string take_device_warning(const string&) except +raise_python_error
    void set_webgpu_library "tinyt::webgpu::set_library"(const string&) except +raise_python_error
    void set_cuda_compilers "tinyt::cuda::set_compilers"(const string&) except +raise_python_error
    string device_names() except +raise_python_error
    void synchronise_device(int64_t) except +raise_python_error
    string device_hardware(int64_t) except +raise_python_error
    int64_t device_bytes(int64_t) except +raise_python_error
    int64_t swap_creation_device(int64_t)
    int64_t current_index(int64_t)
    void set_current_index(int64_t, int64_t)
    int64_t current_indices()
    cbool is_on_host(const CTensor&)
    size_t address_of(const CTensor&)
    cbool is_on_cuda(const CTensor&)
    int32_t dlpack_device_type(const CTensor&)
    void let_stream_wait(const CTensor&, int64_t) except +raise_python_error
    CTensor host_copy(const CTensor&) except +raise_python_error


cdef extern from "core/tensor/tensor.h" namespace "tinyt" nogil:
    cdef cppclass Storage "tinyt::Storage":
        uint64_t version
        cbool read_only
        cbool is_foreign "release_foreign"   # memory of somebody else
    cdef cppclass TensorImpl "tinyt::TensorImpl":
        cbool is_scalar
        cbool data_alias
    cdef cppclass CTensor "tinyt::Tensor":
        CTensor()
        @staticmethod
        CTensor number "scalar"(double) except +raise_python_error
        @staticmethod
        CTensor integer "scalar"(int64_t) except +raise_python_error
        @staticmethod
        CTensor truth "scalar"(cbool) except +raise_python_error
        TensorImpl* impl()
        const Dims& shape "observe_shape().shape"()   # what is done by these, a trace holds
        const Dims& strides "observe_shape().strides"()
        int64_t size "observe_shape().size"(size_t)
        int64_t numel "observe_shape().numel"()
        int64_t offset "observe_shape().offset"()
        cbool is_contiguous "observe_shape().is_contiguous"()
        const Dims& plain_shape "shape"()    # these are for whoever notes it
        const Dims& plain_strides "strides"()
        int64_t plain_size "size"(size_t)
        int64_t plain_offset "offset"()
        int64_t plain_numel "numel"()
        int64_t rank()
        const CTensor& observe_shape()
        DType dtype()
        size_t itemsize()
        cbool is_recorded()
        Device device()
        Storage& storage()
        uint64_t version()
        CTensor data_alias()
        CTensor data_alias(cbool)
        char* host_data()
        cbool operator bool()


cdef extern from "core/ops/ops.h" namespace "tinyt" nogil:
    cdef cppclass Ints "decltype(tinyt::Attrs::ints)":
        int64_t& operator[](size_t)
    cdef cppclass Attrs "tinyt::Attrs":
        Attrs()
        Ints ints
        Attrs& add(int64_t)
        Attrs& add_float(double)
    int kCallableCount
    cdef struct OpInfo:
        int inputs
        int outputs
        unsigned flags


cdef extern from "core/ops/ops.h" namespace "tinyt::op_flags" nogil:
    unsigned FLAG_DIFFERENTIABLE "tinyt::op_flags::differentiable"
    unsigned FLAG_SECOND_DIFFERENTIABLE "tinyt::op_flags::second_differentiable"
    unsigned FLAG_VIEW "tinyt::op_flags::view"
    unsigned FLAG_CONDITION "tinyt::op_flags::predicate_first"
    unsigned FLAG_HOLDING "tinyt::op_flags::checked_numbers"


cdef extern from "core/ops/dispatch.h" namespace "tinyt" nogil:
    cdef cppclass Outputs "tinyt::Outputs":
        CTensor first
        CTensor& operator[](int)
    CTensor contiguous(const CTensor&) except +raise_python_error
    CTensor to_device(const CTensor&, Device) except +raise_python_error
    CTensor cast(const CTensor&, DType) except +raise_python_error
    void require_readable(const char*, const CTensor&) except +raise_python_error


cdef extern from "core/tensor/shared_storage.h" namespace "tinyt" nogil:
    void c_move_to_shared "tinyt::move_to_shared"(const CTensor&) except +raise_python_error
    int c_shared_descriptor "tinyt::shared_descriptor"(const CTensor&)
    CTensor c_map_shared "tinyt::map_shared"(int, size_t) except +raise_python_error


cdef extern from "core/graph/lazy.h" namespace "tinyt" nogil:
    cdef cppclass Lazy:
        pass
    Lazy* lazily()
    Lazy* set_lazily(Lazy*)
    void materialize(const CTensor&) except +raise_python_error
    void settle_for_write(const CTensor&) except +raise_python_error
    void settle_all() except +raise_python_error


cdef extern from "node.h" namespace "tinyt" nogil:
    cdef cppclass SavedTensor "tinyt::SavedTensor":
        CTensor tensor
        uint64_t version
    cdef cppclass InputMeta "tinyt::InputMeta":
        Dims shape
        DType dtype
        Device device
        int output
        int64_t traced
    cdef cppclass Inputs "decltype(tinyt::NodeData::inputs)":
        size_t size()
        InputMeta& operator[](size_t)
        void resize(size_t)
    cdef cppclass SavedTensors "decltype(tinyt::NodeData::saved)":
        size_t size()
        SavedTensor& operator[](size_t)
        void resize(size_t)
        void clear()
    cdef cppclass NodeData "tinyt::NodeData":
        Attrs attrs
        Inputs inputs
        SavedTensors saved
        Dims out_shape
        DType out_dtype
        int64_t out_traced
    int kReadableInputs
    uint64_t reads_bit(int)
    cbool grad_mode()
    void set_grad_mode(cbool)
    cbool saved_hooks_active()
    void set_saved_hooks_active(cbool)


cdef extern from "core/graph/runtime_scalars.h" namespace "tinyt":
    cdef enum class ScalarOp "tinyt::SymbolicScalars::Op"(uint8_t):
        Stride
        Offset
        Int
        Add
        Sub
        Mul
        FloorDiv
        Mod
        ToReal
        RealAdd
        RealSub
        RealMul
        RealDiv
        RealPow
        RealNeg
        RealAbs
    cdef enum class ScalarTest "tinyt::SymbolicScalars::Test"(uint8_t):
        Lt
        Le
        Eq
        Ne
        Gt
        Ge
    cdef cppclass ScalarGuard "tinyt::SymbolicScalars::Guard":
        pass
    cdef cppclass SymbolicScalars "tinyt::SymbolicScalars":
        int64_t constant(int64_t) except +raise_python_error
        int64_t real_constant(double) except +raise_python_error
        int64_t apply(ScalarOp, int64_t, int64_t) except +raise_python_error
        cbool test(ScalarTest, int64_t, int64_t) except +raise_python_error
        void guard_on(int64_t) except +raise_python_error
        int64_t value(int64_t)
        double real(int64_t)
        const vector[ScalarGuard]& guards()
    cdef cppclass RuntimeScalars "tinyt::RuntimeScalars":
        int64_t give(double)
        int64_t item(const CTensor&) except +raise_python_error
        SymbolicScalars& table()


cdef extern from "call.h" namespace "tinyt":
    cdef cppclass Operands "tinyt::Operands":
        Operands()
        void add(CTensor, PyObject*)
        size_t size()
        const CTensor& at(size_t)
        PyObject* object(size_t)
    void check_numbers(int, const Operands&) except +raise_python_error
    Outputs call(int, const Operands&, const Attrs&, Attrs*) except +raise_python_error
    void call_into(int, const Operands&, const Attrs&, const CTensor&) except +raise_python_error
    void call_out(int, const Operands&, const Attrs&, CTensor&) except +raise_python_error
    void call_assign(const CTensor&, const CTensor&) except +raise_python_error
    size_t attr_count(int)
    int attr_index(int, const char*)
    void add_attr_at(int, size_t, PyObject*, Attrs&) except +raise_python_error
    object attrs_tuple_of(int, const Attrs&)
    object op_name(int)
    cbool holds(DType, double, cbool)
    CTensor new_empty(PyObject*, int) except +raise_python_error
    CTensor new_empty_on "tinyt::new_empty"(PyObject*, int, Device) except +raise_python_error
    CTensor view_as_dtype(const CTensor&, int) except +raise_python_error
    int64_t storage_elements(const CTensor& t)
    cbool is_recording()
    object call_aside(object, object)
    PyObject* recording_owner()
    uint64_t recording_id()
    CTensor add_argument(const CTensor&) except +raise_python_error
    CTensor scalar_cell(int64_t) except +raise_python_error
    RuntimeScalars& recorded_scalars()
    cbool is_real_row(const SymbolicScalars&, int64_t)
    CTensor make_view(const CTensor&, const Dims&, const Dims&, int64_t) except +raise_python_error
    CTensor complex_scalar(double, double) except +raise_python_error
    CTensor copy_of(const CTensor&) except +raise_python_error
    CTensor cast_number(const CTensor&, DType) except +raise_python_error
    cbool sole_owner(const CTensor&)
    cbool is_pending(const CTensor&)
    void lend(const CTensor&) except +raise_python_error
    void take_back(const CTensor&)
    CTensor empty_tensor() except +raise_python_error
    cbool is_position(DType)
    int result_dtype_of(const Operands&) except +raise_python_error
    int op_inputs(int)
    int op_outputs(int)
    unsigned op_flags_of(int)
    cbool is_scalar_op(int)
    void check_version(const string&, const SavedTensor&) except +raise_python_error
    void check_saved(int, int, const SavedTensor&) except +raise_python_error
    Attrs view_geometry(const CTensor&, const CTensor&) except +raise_python_error


cdef extern from "traced.h" namespace "tinyt":
    cbool is_tracing()
    int64_t symbol_row(PyObject*)
    int (*note_guard)(void*) except -1
    void note_guard_or_throw(void*)
    int64_t traced_of(const CTensor&) except +raise_python_error
    int64_t traced_code(const CTensor&) except +raise_python_error
    vector[int64_t] size_rows(const CTensor&) except +raise_python_error
    vector[int64_t] size_rows(const InputMeta&) except +raise_python_error
    vector[int64_t] size_rows(const NodeData&) except +raise_python_error
    cbool size_is(const CTensor&, size_t, int64_t) except +raise_python_error
    cbool size_is(const InputMeta&, size_t, int64_t) except +raise_python_error
    cbool same_size(const InputMeta&, size_t, const CTensor&, size_t) except +raise_python_error
    cbool same_sizes(const CTensor&, const CTensor&) except +raise_python_error
    cbool same_sizes(const CTensor&, const InputMeta&) except +raise_python_error
    void add_sizes_of(Attrs&, const CTensor&, size_t, size_t) except +raise_python_error
    void add_sizes_of(Attrs&, const InputMeta&, size_t, size_t) except +raise_python_error
    Attrs sizes_attr(const CTensor&) except +raise_python_error
    Attrs sizes_attr(const InputMeta&) except +raise_python_error
    void add_row(Attrs&, int64_t)
    CTensor of_row(CTensor, int64_t)
    CTensor count_of(const CTensor&, size_t, size_t) except +raise_python_error
    cbool is_dense(const CTensor&) except +raise_python_error


cdef extern from "interop.h" namespace "tinyt":
    object element_to_python(const char*, DType)
    object to_nested_list(const CTensor&) except +raise_python_error
    CTensor from_buffer(PyObject*, cbool) except +raise_python_error
    const char* buffer_format(DType)
    CTensor from_dlpack_capsule(PyObject*) except +raise_python_error
    object to_dlpack_capsule(const CTensor&, cbool, cbool) except +raise_python_error
    CTensor from_sequence(PyObject*, int, bint) except +raise_python_error


cdef extern from "methods.h" namespace "tinyt":
    ctypedef object (*OpCall)(int, PyObject* const*, Py_ssize_t, PyObject*, PyObject*)
    OpCall op_call
    object make_function(int)
    object make_method(PyObject*, int, cbool)


cdef extern from "backward_pass.h" namespace "tinyt":
    cdef cppclass PendingGrad "tinyt::PendingGrad":
        PyObject* target
        PyObject* grad
        void replace(PyObject*)
    cdef cppclass ReadyQueue "tinyt::ReadyQueue":
        cbool empty()
        PendingGrad pop()
        PendingGrad* find(uint64_t)
        void add(uint64_t, PyObject*, PyObject*)
    cdef cppclass Leaves "tinyt::Leaves":
        cbool empty()
        PendingGrad pop()
        PendingGrad* find(PyObject*)
        void add(PyObject*, PyObject*)


cdef extern from "composite.h" namespace "tinyt":
    ctypedef object (*FastPath)(PyObject* const*, Py_ssize_t, PyObject*)
    object composite_class()
    object make_composite(PyObject*, PyObject*, PyObject*, FastPath, cbool)


cdef extern from "core/ops/seam.h" namespace "tinyt":
    cdef cppclass PythonSeam "tinyt::PythonSeam":
        void* (*wrap)(const CTensor&)
        const CTensor* (*unwrap)(void*)
        int64_t (*scalar_index)(void*)
        int (*dtype_number)(void*)
        int64_t (*device_code)(void*) except -1
        int64_t (*named_device_code)(void*) except -1
        int64_t (*symbol_row)(void*)
        void* (*symbol_of_row)(int64_t)
    PythonSeam& python_seam()

cdef extern from "core/ops/mode.h" namespace "tinyt":
    cdef struct Autocast:
        cbool active
        cbool cache
        DType dtype
    Autocast t_autocast "tinyt::t_modes.autocast"
    Device t_device "tinyt::t_modes.device"
    cdef cppclass CreationDevice "tinyt::CreationDevice":
        void enter(Device)


cdef extern from "Python.h":
    int PyFloat_CheckExact(object)
    int PyLong_CheckExact(object)
    Py_ssize_t Py_REFCNT(object)
    Py_ssize_t references "Py_REFCNT"(PyObject*)
    object PyLong_FromLongLong(long long)
    double PyFloat_AsDouble(object) except? -1
    object PyFloat_FromDouble(double)

cdef extern from *:
    """
    static inline PyObject* tinyt_new_object(PyObject* base, PyObject* type, PyObject* empty) {
      return ((PyTypeObject*)base)->tp_new((PyTypeObject*)type, empty, NULL);
    }
    static inline PyObject* tinyt_new_tuple(PyObject* type, Py_ssize_t n) {
      return ((PyTypeObject*)type)->tp_alloc((PyTypeObject*)type, n);
    }
    // Python makes no instances of the type: only this module does, which fills them.
    static inline void tinyt_forbid_new(PyObject* type) {
      PyTypeObject* t = (PyTypeObject*)type;
      if (PyDict_DelItemString(t->tp_dict, "__new__") != 0) PyErr_Clear();
      t->tp_new = NULL;
      PyType_Modified(t);
    }
    """
    object tinyt_new_object(object base, object type, object empty)
    object tinyt_new_tuple(object type, Py_ssize_t n)
    void tinyt_forbid_new(object type)


# ---- numbers of ops

cdef extern from "core/ops/ops.h" nogil:
    const int OP_SUM "static_cast<int>(tinyt::OpId::sum)"
    const int OP_RESHAPE "static_cast<int>(tinyt::OpId::reshape)"
    const int OP_CAST "static_cast<int>(tinyt::OpId::cast)"
    const int OP_TO_DEVICE "static_cast<int>(tinyt::OpId::to_device)"
    const int OP_COPY "static_cast<int>(tinyt::OpId::copy)"
    const int OP_SLICE "static_cast<int>(tinyt::OpId::slice)"
    const int OP_EXPAND "static_cast<int>(tinyt::OpId::expand)"
    const int OP_PERMUTE "static_cast<int>(tinyt::OpId::permute)"
    const int OP_FILL "static_cast<int>(tinyt::OpId::fill)"
    const int OP_CAT "static_cast<int>(tinyt::OpId::cat)"
    const int OP_GATHER "static_cast<int>(tinyt::OpId::gather)"
    const int OP_MASKED_SELECT "static_cast<int>(tinyt::OpId::masked_select)"
    const int OP_LINEAR_INDEX "static_cast<int>(tinyt::OpId::linear_index)"
    const int OP_WHERE "static_cast<int>(tinyt::OpId::where)"
    const int OP_LAYER_NORM "static_cast<int>(tinyt::OpId::layer_norm)"
    const int OP_SQUARE "static_cast<int>(tinyt::OpId::square)"
    const int OP_RELU "static_cast<int>(tinyt::OpId::relu)"
    const int OP_SOFTMAX "static_cast<int>(tinyt::OpId::softmax)"
    const int OP_LOG_SOFTMAX "static_cast<int>(tinyt::OpId::log_softmax)"
    const int OP_UPDATE "static_cast<int>(tinyt::OpId::update)"
    const int OP_AS_STRIDED "static_cast<int>(tinyt::OpId::as_strided)"
    const int OP_ADD "static_cast<int>(tinyt::OpId::add)"
    const int OP_SUB "static_cast<int>(tinyt::OpId::sub)"
    const int OP_MUL "static_cast<int>(tinyt::OpId::mul)"
    const int OP_DIV "static_cast<int>(tinyt::OpId::div)"
    const int OP_FLOOR_DIVIDE "static_cast<int>(tinyt::OpId::floor_divide)"
    const int OP_REMAINDER "static_cast<int>(tinyt::OpId::remainder)"
    const int OP_POW "static_cast<int>(tinyt::OpId::pow)"
    const int OP_MATMUL "static_cast<int>(tinyt::OpId::matmul)"
    const int OP_LINEAR "static_cast<int>(tinyt::OpId::linear)"
    const int OP_NEG "static_cast<int>(tinyt::OpId::neg)"
    const int OP_ABS "static_cast<int>(tinyt::OpId::abs)"
    const int OP_AND "static_cast<int>(tinyt::OpId::bitwise_and)"
    const int OP_OR "static_cast<int>(tinyt::OpId::bitwise_or)"
    const int OP_XOR "static_cast<int>(tinyt::OpId::bitwise_xor)"
    const int OP_LEFT_SHIFT "static_cast<int>(tinyt::OpId::bitwise_left_shift)"
    const int OP_RIGHT_SHIFT "static_cast<int>(tinyt::OpId::bitwise_right_shift)"
    const int OP_NOT "static_cast<int>(tinyt::OpId::bitwise_not)"
    const int OP_LT "static_cast<int>(tinyt::OpId::lt)"
    const int OP_LE "static_cast<int>(tinyt::OpId::le)"
    const int OP_EQ "static_cast<int>(tinyt::OpId::eq)"
    const int OP_NE "static_cast<int>(tinyt::OpId::ne)"
    const int OP_GT "static_cast<int>(tinyt::OpId::gt)"
    const int OP_GE "static_cast<int>(tinyt::OpId::ge)"
