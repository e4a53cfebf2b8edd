// Python arguments to attributes and back, by the rows of ops.def; calls that give up the lock.
#pragma once

#include <Python.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/checked.h"
#include "core/graph/graph.h"
#include "core/ops/dispatch.h"
#include "core/ops/infer.h"
#include "core/ops/mode.h"
#include "core/ops/ops.h"
#include "errors.h"
#include "node.h"
#include "objects.h"
#include "traced.h"

namespace tinyt {

struct AttrSpec {
  std::string name;
  char kind;  // i, b, f, I, t, d (see ops.def)
  bool has_default = false;
  double fallback = 0;
};

// Splits "dims:I keepdim:b=0" once per op.
inline const std::vector<AttrSpec>& attr_specs(OpId op) {
  static const auto table = [] {
    std::array<std::vector<AttrSpec>, kOpCount> specs;
    for (int i = 0; i < kOpCount; ++i) {
      std::string_view text = kOps[i].attributes;
      while (!text.empty()) {
        const std::string word(text.substr(0, text.find(' ')));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        const size_t colon = word.find(':'), equals = word.find('=');
        AttrSpec spec{word.substr(0, colon), word[colon + 1]};
        if (equals != std::string::npos) {
          spec.has_default = true;
          spec.fallback = std::stod(word.substr(equals + 1));
        }
        specs[static_cast<size_t>(i)].push_back(spec);
      }
    }
    return specs;
  }();
  return table[static_cast<size_t>(op)];
}

// A dtype object to its number; -1 when it is none.
inline int dtype_number(PyObject* object) { return python_seam().dtype_number(object); }
// TypeError for what is no dtype.
inline DType dtype_in(PyObject* dtype) {
  const int number = dtype_number(dtype);
  require(number >= 0, ErrorKind::Type, "dtype must be a dtype, got ", Py_TYPE(dtype)->tp_name);
  return static_cast<DType>(number);
}

// A float's value. One that is read anew at every run hears of it: an attribute stays as it is.
inline double exact_double(PyObject* value) {
  if (PyFloat_CheckExact(value) || !PyFloat_Check(value)) return PyFloat_AsDouble(value);
  PyObject* exact = PyNumber_Float(value);
  const double v = exact ? PyFloat_AS_DOUBLE(exact) : -1;
  Py_XDECREF(exact);
  return v;
}

// An integer's decimal digits; of one with too many for a message, or for str(), a word.
inline std::string digits_of(PyObject* value) {
  constexpr Py_ssize_t kMost = 40;
  PyObject* text = PyObject_Str(value);
  Py_ssize_t n = 0;
  const char* data = text ? PyUnicode_AsUTF8AndSize(text, &n) : nullptr;
  std::string out = data && n <= kMost ? std::string(data, static_cast<size_t>(n)) : "a larger one";
  Py_XDECREF(text);
  PyErr_Clear();
  return out;
}

inline int64_t to_int64(OpId op, const AttrSpec& spec, PyObject* value) {
  const bool whole = !PyBool_Check(value) && PyIndex_Check(value);
  const OwnedObject index(whole ? PyNumber_Index(value) : nullptr);
  if (whole && !index.get()) throw_python_error();
  const int64_t v = whole ? PyLong_AsLongLong(index.get()) : -1;
  if (!whole || (v == -1 && PyErr_Occurred())) {
    PyErr_Clear();
    if (PyLong_Check(value))  // but not one of 64 bits
      fail(ErrorKind::Type, name_of(op), ": ", spec.name, " must fit in 64 bits, got ",
           digits_of(value));
    fail(ErrorKind::Type, name_of(op), ": ", spec.name, " must be an integer, got ",
         Py_TYPE(value)->tp_name);
  }
  return v;
}

// Adds a whole number; one that a capture log follows with its formula.
inline void add_int(OpId op, const AttrSpec& spec, PyObject* value, Attrs& attrs) {
  if (!PyLong_CheckExact(value))
    if (const int64_t row = symbol_row(value); row >= 0) {
      add_row(attrs, row);
      return;
    }
  attrs.add(to_int64(op, spec, value));
}

inline void add_list(OpId op, const AttrSpec& spec, PyObject* value, Attrs& attrs) {
  if (PyLong_Check(value) || symbol_row(value) >= 0) {
    attrs.add(1);
    add_int(op, spec, value, attrs);
    return;
  }
  if (!PyTuple_Check(value) && !PyList_Check(value))
    fail(ErrorKind::Type, name_of(op), ": ", spec.name, " must be a tuple of integers, got ",
         Py_TYPE(value)->tp_name);
  const OwnedObject items(items_of(value));
  const Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  attrs.add(static_cast<int64_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) add_int(op, spec, PyTuple_GET_ITEM(items.get(), i), attrs);
}

// Adds one attribute; `value` null means the row's default.
inline void add_attr(OpId op, const AttrSpec& spec, PyObject* value, Attrs& attrs) {
  if (!value || (spec.kind == 'd' && value == Py_None)) {
    if (spec.kind == 'd') {
      attrs.add(code_of(t_modes.device));
      return;
    }
    if (!spec.has_default)
      fail(ErrorKind::Type, name_of(op), ": missing argument '", spec.name, "'");
    if (spec.kind == 'f')
      attrs.add_float(spec.fallback);
    else
      attrs.add(static_cast<int64_t>(spec.fallback));
    return;
  }
  switch (spec.kind) {
    case 'f': {
      const double v = exact_double(value);
      if (v == -1 && PyErr_Occurred()) {
        if (has_float(value)) throw_python_error();
        PyErr_Clear();
        fail(ErrorKind::Type, name_of(op), ": ", spec.name, " must be a number, got ",
             Py_TYPE(value)->tp_name);
      }
      attrs.add_float(v);
      break;
    }
    case 'b': {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) throw_python_error();
      attrs.add(static_cast<int64_t>(truth));
      break;
    }
    case 'I':
      add_list(op, spec, value, attrs);
      break;
    case 't': {
      const int number = dtype_number(value);
      if (number < 0)
        fail(ErrorKind::Type, name_of(op), ": ", spec.name, " must be a dtype, got ",
             Py_TYPE(value)->tp_name);
      attrs.add(static_cast<int64_t>(number));
      break;
    }
    case 'd': {
      const int64_t code = python_seam().device_code(value);
      if (code < 0) throw_python_error();
      attrs.add(code);
      break;
    }
    default:
      add_int(op, spec, value, attrs);
  }
}

// The attributes as a Python tuple (dtypes as numbers); a new reference.
inline PyObject* attrs_tuple(OpId op, const Attrs& attrs) {
  const auto& specs = attr_specs(op);
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(specs.size()));
  size_t formula = 0;  // the next one
  const auto integer = [&](const int64_t* at) {
    const auto place = static_cast<size_t>(at - attrs.ints.data());
    while (formula < attrs.formulas.size() && attrs.formulas[formula].first < place) ++formula;
    const bool has = formula < attrs.formulas.size() && attrs.formulas[formula].first == place;
    CaptureLog* log = has ? tracing() : nullptr;
    const int64_t row = log ? log->decoded(attrs.formulas[formula].second) : -1;
    return row < 0 ? PyLong_FromLongLong(*at) : symbol_of_row(row);
  };
  AttrReader read(attrs);
  for (size_t i = 0; i < specs.size(); ++i) {
    PyObject* item;
    if (specs[i].kind == 'f') {
      item = PyFloat_FromDouble(read.real());
    } else if (specs[i].kind == 'b') {
      item = PyBool_FromLong(read.flag());
    } else if (specs[i].kind == 'I') {
      const auto list = read.list();
      item = PyTuple_New(static_cast<Py_ssize_t>(list.size()));
      for (size_t k = 0; k < list.size(); ++k)
        PyTuple_SET_ITEM(item, static_cast<Py_ssize_t>(k), integer(&list[k]));
    } else {
      item = integer(&read.next());
    }
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
  }
  return out;
}

// Whether a number, or a part of one, lies within the limits of a dtype, as PyTorch has it: floats
// take infinities and NaN, bool takes everything, and negative integers wrap in unsigned dtypes.
inline bool holds(DType dtype, double v, bool integer) {
  if (is_bool(dtype)) return true;
  if (is_differentiable(dtype)) {
    const double largest = dtype == DType::Float16            ? 65504
                           : dtype == DType::BFloat16         ? 0x1.FEp127
                           : real_of(dtype) == DType::Float32 ? FLT_MAX
                                                              : DBL_MAX;
    return !std::isfinite(v) || std::abs(v) <= largest;
  }
  const bool wraps = dtype == DType::UInt8;
  const auto end = static_cast<double>(uint64_t{1} << (8 * size_of(dtype) - !wraps));
  const double least = !wraps ? -end : integer ? 1 - end : 0;
  return least <= v && v <= end - 1 && v < end;  // the last for int64, where end - 1 is end
}

// Whether work on these operands is worth giving up the interpreter lock for.
inline bool is_large(std::span<const Tensor> inputs) {
  bool large = false;
  for (const Tensor& t : inputs) large |= t.numel() >= kReleaseLockElements;
  return large;
}
// The same for an op that makes a tensor: its first attribute is the size, a list or one number.
inline bool makes_large(OpId op, const Attrs& attrs) {
  AttrReader read(attrs);
  if (attr_specs(op)[0].kind != 'I') return read.integer() >= kReleaseLockElements;
  double count = 1;
  for (int64_t n : read.list()) count *= static_cast<double>(n);
  return count >= static_cast<double>(kReleaseLockElements);
}

// Releases the interpreter lock for its lifetime, where the work is large enough.
class MaybeUnlocked {
 public:
  explicit MaybeUnlocked(bool large) {
    if (large && !lazily()) state_ = PyEval_SaveThread();
  }
  ~MaybeUnlocked() {
    if (state_) take_python_lock(state_);
  }
  MaybeUnlocked(const MaybeUnlocked&) = delete;
  MaybeUnlocked& operator=(const MaybeUnlocked&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// The tensor operands of one call, and the Python objects they came from (null: a number).
class Operands {
 public:
  void add(Tensor t, PyObject* object) {
    if (count_ < kFew) {
      few_[count_] = std::move(t);
      few_objects_[count_++] = object;
      return;
    }
    if (count_ == kFew) {
      for (size_t i = 0; i < kFew; ++i) {
        many_.push_back(std::move(few_[i]));
        many_objects_.push_back(few_objects_[i]);
      }
    }
    many_.push_back(std::move(t));
    many_objects_.push_back(object);
    ++count_;
  }
  size_t size() const { return count_; }
  const Tensor& at(size_t i) const { return count_ <= kFew ? few_[i] : many_[i]; }
  PyObject* object(size_t i) const { return count_ <= kFew ? few_objects_[i] : many_objects_[i]; }
  std::span<const Tensor> span() const { return {count_ <= kFew ? few_ : many_.data(), count_}; }

 private:
  static constexpr size_t kFew = 3;
  Tensor few_[kFew];
  PyObject* few_objects_[kFew];
  std::vector<Tensor> many_;
  std::vector<PyObject*> many_objects_;
  size_t count_ = 0;
};

// RuntimeError where the row says H and one of its last operands is an int that the call's dtype
// cannot hold.
inline void check_numbers(int op, const Operands& in) {
  for (size_t i = std::max<size_t>(in.size(), 3) - 2; i < in.size(); ++i) {
    const Tensor& t = in.at(i);
    if (in.object(i) || t.dtype() != DType::Int64 || t.is_recorded() || t.impl()->traced >= 0)
      continue;
    const int64_t value = *t.ptr<int64_t>();
    if (INT8_MIN <= value && value <= INT8_MAX) continue;
    const auto id = static_cast<OpId>(op);
    const DType compute =
        result_dtype(in.span().subspan(has_flag(id, op_flags::predicate_first) ? 1 : 0));
    if (!is_integral(compute) || compute == DType::Int64) continue;
    require(holds(compute, static_cast<double>(value), true), ErrorKind::Runtime, name_of(id),
            ": the value ", value, " cannot be converted to ", name_of(compute),
            " without overflow");
  }
}

inline Outputs call(int op, const Operands& in, const Attrs& attrs, Attrs* normalised) {
  const auto id = static_cast<OpId>(op);
  const bool large = info(id).inputs ? is_large(in.span()) : makes_large(id, attrs);
  const MaybeUnlocked unlocked(large || id == OpId::to_device);  // which may wait for a device
  return dispatch(id, in.span(), attrs, normalised);
}

inline void call_into(int op, const Operands& in, const Attrs& attrs, const Tensor& out) {
  const MaybeUnlocked unlocked(is_large(in.span()) || out.numel() >= kReleaseLockElements);
  dispatch_into(static_cast<OpId>(op), in.span(), attrs, out);
}

inline void call_out(int op, const Operands& in, const Attrs& attrs, Tensor& out) {
  const MaybeUnlocked unlocked(is_large(in.span()) || out.numel() >= kReleaseLockElements);
  dispatch_out(static_cast<OpId>(op), in.span(), attrs, out);
}

inline void call_assign(const Tensor& to, const Tensor& from) {
  const MaybeUnlocked unlocked(is_large({&to, 1}));
  assign(to, from);
}

// Thin forms for Cython.
inline size_t attr_count(int op) { return attr_specs(static_cast<OpId>(op)).size(); }
inline int attr_index(int op, const char* name) {
  const auto& specs = attr_specs(static_cast<OpId>(op));
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == name) return static_cast<int>(i);
  return -1;
}
inline void add_attr_at(int op, size_t i, PyObject* value, Attrs& attrs) {
  const auto id = static_cast<OpId>(op);
  add_attr(id, attr_specs(id)[i], value, attrs);
}
inline PyObject* attrs_tuple_of(int op, const Attrs& attrs) {
  return attrs_tuple(static_cast<OpId>(op), attrs);
}
inline PyObject* op_name(int op) {
  return PyUnicode_FromStringAndSize(kOps[op].name.data(),
                                     static_cast<Py_ssize_t>(kOps[op].name.size()));
}
inline int64_t storage_elements(const Tensor& t) {
  return static_cast<int64_t>(t.observe_shape().storage().buffer.bytes / t.itemsize());
}
inline bool is_recording() { return recording() != nullptr; }
// The Python object that keeps this thread's recording (borrowed), or null.
inline PyObject* recording_owner() {
  return recording() ? static_cast<PyObject*>(recording()->owner.get()) : nullptr;
}
// A call that no recording sees.
inline PyObject* call_aside(PyObject* function, PyObject* args) {
  const PausedRecording paused;
  return PyObject_Call(function, args, nullptr);
}
inline uint64_t recording_id() { return recording() ? recording()->id() : 0; }
// This thread's recording, for what needs one.
inline Graph& open_recording() {
  require(recording() != nullptr, ErrorKind::Capture, "record: no recording is under way");
  return *recording();
}
inline Tensor add_argument(const Tensor& like) { return open_recording().add_argument(like); }
inline Tensor scalar_cell(int64_t number) { return open_recording().cell(number); }
inline RuntimeScalars& recorded_scalars() { return recording()->scalars(); }
inline bool is_real_row(const SymbolicScalars& table, int64_t row) {
  return SymbolicScalars::is_real(table.at(row).op);
}
inline Tensor make_view(const Tensor& t, const Dims& shape, const Dims& strides, int64_t offset) {
  return t.observe_shape().view(shape, strides, offset);
}
inline Tensor copy_of(const Tensor& t) {
  const MaybeUnlocked unlocked(is_large({&t, 1}));
  return dispatch(OpId::copy, {&t, 1}).first;
}
// A Python number as an ordinary 0-d tensor, as a call of that dtype computes with it.
inline Tensor cast_number(const Tensor& number, DType dtype) {
  Attrs attrs;
  attrs.add(info(dtype).compute);
  return dispatch(OpId::cast, {&number, 1}, attrs).first;
}
// Whether no other tensor can see this memory; lazy recordings are none.
inline bool sole_owner(const Tensor& t) {
  return is_dense(t) && t.impl()->refs.load() == 1 &&
         t.storage().refs.load() == 1 + t.storage().held.load() && !t.storage().release_foreign;
}
inline bool is_pending(const Tensor& t) { return t.storage().lazy.load() != nullptr; }
// Others may read and write the memory from now on, until they give it back.
inline void lend(const Tensor& t) {
  settle_for_write(t);
  t.storage().exports.fetch_add(1, std::memory_order_relaxed);
}
inline void take_back(const Tensor& t) {
  t.storage().exports.fetch_sub(1, std::memory_order_relaxed);
}
// Whether tensors of this dtype are positions in brackets.
inline bool is_position(DType dtype) { return dtype == DType::Int64 || dtype == DType::Int32; }
inline Tensor empty_tensor() {
  const Dims shape{0};
  return Tensor::empty(shape, default_dtype());
}
inline Tensor new_empty(PyObject* sizes, int dtype, Device device = t_modes.device) {
  Attrs attrs;
  add_list(OpId::fill, attr_specs(OpId::fill)[0], sizes, attrs);
  for (const auto& formula : attrs.formulas)
    tracing()->table().guard_on(tracing()->decoded(formula.second));
  const auto shape = AttrReader(attrs).list();
  for (int64_t n : shape)
    require(n >= 0, ErrorKind::Runtime, "empty: sizes must not be negative, got ", shape);
  return Tensor::empty(shape, static_cast<DType>(dtype), device);
}
// A Python complex number.
inline Tensor complex_scalar(double re, double im) { return Tensor::scalar(ComplexDouble{re, im}); }
// The same bytes as another dtype: of another size, the last dimension grows or shrinks.
inline Tensor view_as_dtype(const Tensor& t, int number) {
  t.observe_shape();
  const auto dtype = static_cast<DType>(number);
  const auto have = static_cast<int64_t>(t.itemsize()), want = static_cast<int64_t>(size_of(dtype));
  Dims shape = t.shape(), strides = t.strides();
  int64_t offset = t.offset();
  if (have != want) {
    const int64_t last = t.rank() - 1;
    require(last >= 0 && strides[last] == 1, ErrorKind::Runtime, "view: to see ",
            name_of(t.dtype()), " as ", name_of(dtype),
            " the last dimension must have stride 1, got strides ", t.strides());
    const int64_t grow = have / want, shrink = want / have;
    if (grow > 0) {
      const auto grown = [grow](int64_t n) { return checked_mul("view", "the size", n, grow); };
      for (int64_t d = 0; d < last; ++d) strides[d] = grown(strides[d]);
      shape[last] = grown(shape[last]);
      offset = grown(offset);
    } else {
      bool fits = shape[last] % shrink == 0 && offset % shrink == 0;
      for (int64_t d = 0; d < last; ++d) {
        fits = fits && strides[d] % shrink == 0;
        strides[d] /= shrink;
      }
      require(fits, ErrorKind::Runtime, "view: to see ", name_of(t.dtype()), " as ", name_of(dtype),
              " the last size, the offset and the other strides must divide by ", shrink,
              ", got shape ", t.shape(), ", offset ", t.offset(), " and strides ", t.strides());
      shape[last] /= shrink;
      offset /= shrink;
    }
  }
  return t.view_as(dtype, shape, strides, offset);
}
inline int result_dtype_of(const Operands& in) { return static_cast<int>(result_dtype(in.span())); }
inline int op_inputs(int op) { return kOps[op].inputs; }
inline int op_outputs(int op) { return kOps[op].outputs; }
inline unsigned op_flags_of(int op) { return kOps[op].flags; }
inline bool is_scalar_op(int op) { return kOps[op].kind == OpKind::Scalar; }

// Fails when a saved tensor was written to since; `what` says whose it is.
inline void check_version(const std::string& what, const SavedTensor& saved) {
  const uint64_t now = saved.tensor.version();
  if (now == saved.version) return;
  fail(ErrorKind::Runtime,
       "backward: one of the variables needed for gradient computation has been modified by an "
       "inplace operation: [",
       name_of(saved.tensor.dtype()), " ", saved.tensor.shape(), "], which is ", what,
       ", is at version ", now, "; expected version ", saved.version, " instead");
}
// The same for an op; `which` is an input's number, or -1: the output.
inline void check_saved(int op, int which, const SavedTensor& saved) {
  if (saved.tensor.version() == saved.version) return;
  const std::string role = which < 0 ? "the output" : "input " + std::to_string(which);
  check_version(role + " of " + std::string(kOps[op].name), saved);
}

// How `view` lies in the contiguous layout of `base`: the attributes of as_strided and update.
inline Attrs view_geometry(const Tensor& base, const Tensor& view) {
  base.observe_shape();
  view.observe_shape();
  if (!base.is_contiguous())
    fail(ErrorKind::NotImplemented,
         "in-place: gradients through a write to a view need a contiguous base, got strides ",
         base.strides(), " for shape ", base.shape());
  Attrs attrs;
  attrs.add(std::span<const int64_t>(view.shape())).add(std::span<const int64_t>(view.strides()));
  return attrs.add(view.offset() - base.offset());
}

}  // namespace tinyt
