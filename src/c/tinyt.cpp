#include "c/tinyt.h"

#include <cstring>
#include <new>

#include "c/saved_programs.h"
#include "core/base/checked.h"
#include "core/base/parallel.h"
#include "core/graph/graph_words.h"
#include "core/ops/dispatch.h"
#include "cpu/register.h"

struct tinyt_tensor {
  tinyt::Tensor x;
};

struct tinyt_program {
  explicit tinyt_program(const char* path) : all(path) {}
  tinyt::SavedPrograms all;
};

namespace tinyt {

namespace {

// The enumerators of the header are the table's numbers.
#define TINYT_DTYPE(id, ...) DType::id,
constexpr DType kInOrder[] = {
#include "core/base/dtype.def"
};
#undef TINYT_DTYPE
static_assert(std::size(kInOrder) == TINYT_COMPLEX128 + 1 &&
              kInOrder[TINYT_FLOAT16] == DType::Float16 &&
              kInOrder[TINYT_FLOAT32] == DType::Float32 && kInOrder[TINYT_INT64] == DType::Int64);

thread_local std::string t_error;

tinyt_status status_of_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Shape:
      return TINYT_SHAPE_ERROR;
    case ErrorKind::DType:
      return TINYT_DTYPE_ERROR;
    case ErrorKind::Device:
      return TINYT_DEVICE_ERROR;
    case ErrorKind::Dim:
      return TINYT_DIM_ERROR;
    case ErrorKind::Index:
      return TINYT_INDEX_ERROR;
    case ErrorKind::Value:
      return TINYT_VALUE_ERROR;
    case ErrorKind::Type:
      return TINYT_TYPE_ERROR;
    case ErrorKind::OutOfMemory:
      return TINYT_MEMORY_ERROR;
    case ErrorKind::Capture:
      return TINYT_CAPTURE_ERROR;
    case ErrorKind::NotImplemented:
      return TINYT_NOT_IMPLEMENTED_ERROR;
    default:
      return TINYT_RUNTIME_ERROR;
  }
}

tinyt_status failed_with(tinyt_status status, const char* text) noexcept {
  try {
    t_error = text;
  } catch (...) {
    t_error.clear();  // no memory for it
  }
  return status;
}

// Nothing that is thrown leaves the library.
template <class F>
tinyt_status guarded_call(const F& body) noexcept {
  try {
    cpu::register_cpu();
    body();
    return TINYT_SUCCESS;
  } catch (const Error& error) {
    return failed_with(status_of_kind(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return failed_with(TINYT_MEMORY_ERROR, "out of memory");
  } catch (const std::exception& error) {
    return failed_with(TINYT_RUNTIME_ERROR, error.what());
  }
}

// The same of a file: what is wrong with one is a status of its own.
template <class F>
tinyt_status guarded_file(const F& body) noexcept {
  const tinyt_status status = guarded_call(body);
  const bool is_file = status != TINYT_SUCCESS && status != TINYT_MEMORY_ERROR &&
                       status != TINYT_NOT_IMPLEMENTED_ERROR;
  return is_file ? TINYT_FILE_ERROR : status;
}

template <class... Parts>
void check_given(bool ok, const Parts&... parts) {
  require(ok, ErrorKind::Value, parts...);
}

// What a pointer of the caller's points to.
template <class T>
T& given_pointer(T* x, std::string_view what) {
  check_given(x != nullptr, what, " is NULL");
  return *x;
}

Dims shape_of(int dtype, int rank, const int64_t* shape) {
  check_given(dtype >= 0 && dtype < kDTypeCount, "there is no dtype ", dtype);
  check_given(rank >= 0 && rank <= 64 && (rank == 0 || shape),
              "a rank is from 0 to 64, with as many sizes");
  const Dims out(std::span(shape, static_cast<size_t>(rank)));
  for (int64_t size : out) check_given(size >= 0, "a size is ", size);
  bytes_of("tensor", out, static_cast<DType>(dtype));
  return out;
}

void give_handle(tinyt_tensor** out, Tensor x) {
  given_pointer(out, "out");
  *out = new tinyt_tensor{std::move(x)};
}

std::vector<Tensor> tensors_of_handles(const tinyt_tensor* const* handles, size_t count) {
  check_given(count == 0 || handles != nullptr, "a list of tensors is NULL");
  std::vector<Tensor> out;
  for (size_t i = 0; i < count; ++i) out.push_back(given_pointer(handles[i], "a tensor").x);
  return out;
}

// All of them or none.
void give_handles(tinyt_tensor** out, std::vector<Tensor> tensors) {
  std::vector<std::unique_ptr<tinyt_tensor>> handles;
  for (Tensor& x : tensors) handles.push_back(std::make_unique<tinyt_tensor>(std::move(x)));
  for (size_t i = 0; i < handles.size(); ++i) out[i] = handles[i].release();
}

// The attributes of a row, in its order, of those that were given by name and its defaults.
class NamedAttributes {
 public:
  NamedAttributes(OpId op, const tinyt_attribute* list, size_t count)
      : op_(op), list_(list, count), is_used_(count, false) {
    check_given(count == 0 || list != nullptr, "a list of attributes is NULL");
  }

  Attrs read() {
    std::string_view row = info(op_).attributes;
    while (!row.empty()) {
      const std::string_view word = row.substr(0, row.find(' '));
      row.remove_prefix(std::min(word.size() + 1, row.size()));
      const size_t colon = word.find(':');
      const std::string_view rest = word.substr(colon + 1);
      add(word.substr(0, colon), rest[0], rest.size() > 1 ? rest.substr(2) : std::string_view());
    }
    for (size_t i = 0; i < list_.size(); ++i)
      check_given(is_used_[i], name_of(op_), ": there is no attribute \"",
                  list_[i].name ? list_[i].name : "", "\"; there are ", info(op_).attributes);
    check_attrs(op_, out_);
    return std::move(out_);
  }

 private:
  const tinyt_attribute* find(std::string_view name) {
    for (size_t i = 0; i < list_.size(); ++i) {
      if (!list_[i].name || name != list_[i].name || is_used_[i]) continue;
      is_used_[i] = true;
      return &list_[i];
    }
    return nullptr;
  }

  void add(std::string_view name, char kind, std::string_view value) {
    const tinyt_attribute* found = find(name);
    // A device that is not given is the CPU.
    check_given(found || !value.empty() || kind == 'd', name_of(op_), ": the attribute ", name,
                " is missing");
    if (kind == 'f') {
      out_.add_float(found ? found->real : std::stod(std::string(value)));
    } else if (kind == 'I') {
      check_given(!found || found->count == 0 || found->list, name_of(op_), ": the list ", name,
                  " is NULL");
      out_.add(found ? std::span<const int64_t>(found->list, found->count)
                     : std::span<const int64_t>());
    } else if (found) {
      const int64_t limit = kind == 'b'   ? 2
                            : kind == 't' ? kDTypeCount
                            : kind == 'd' ? kDeviceCodes
                                          : 0;
      check_given(limit == 0 || (found->integer >= 0 && found->integer < limit), name_of(op_), ": ",
                  name, " must be from 0 to ", limit - 1, ", got ", found->integer);
      out_.add(found->integer);
    } else {
      out_.add(value.empty() ? int64_t{0} : int64_t{std::stoll(std::string(value))});
    }
  }

  OpId op_;
  std::span<const tinyt_attribute> list_;
  std::vector<bool> is_used_;
  Attrs out_;
};

}  // namespace

extern "C" {

const char* tinyt_version(void) { return TINYT_PROJECT_VERSION; }
int tinyt_c_version(void) { return TINYT_C_VERSION; }
const char* tinyt_error(void) { return t_error.c_str(); }
int tinyt_num_threads(void) { return num_threads(); }
tinyt_status tinyt_set_num_threads(int threads) {
  return guarded_call([&] { set_num_threads(threads); });
}
const char* tinyt_dtype_name(int dtype) {
  const bool is_one = dtype >= 0 && dtype < kDTypeCount;
  return is_one ? kDTypes[dtype].name.data() : nullptr;
}
size_t tinyt_dtype_size(int dtype) {
  return dtype >= 0 && dtype < kDTypeCount ? kDTypes[dtype].size : 0;
}

tinyt_status tinyt_tensor_new(int dtype, int rank, const int64_t* shape, const void* data,
                              tinyt_tensor** out) {
  return guarded_call([&] {
    const Tensor x = Tensor::empty(shape_of(dtype, rank, shape), static_cast<DType>(dtype));
    const size_t bytes = static_cast<size_t>(x.numel()) * x.itemsize();
    if (bytes > 0 && data) std::memcpy(x.host_data(), data, bytes);
    if (bytes > 0 && !data) std::memset(x.host_data(), 0, bytes);
    give_handle(out, x);
  });
}

tinyt_status tinyt_tensor_wrap(int dtype, int rank, const int64_t* shape, void* data,
                               void (*release)(void* context), void* context, tinyt_tensor** out) {
  return guarded_call([&] {
    given_pointer(out, "out");
    const Dims sizes = shape_of(dtype, rank, shape);
    const auto t = static_cast<DType>(dtype);
    const size_t bytes = bytes_of("tensor", sizes, t);
    check_given(data || bytes == 0, "data is NULL");
    check_given(reinterpret_cast<uintptr_t>(data) % std::min<size_t>(size_of(t), 8) == 0,
                "data is not aligned for ", name_of(t));
    const auto keep = [](void*) {};
    auto handle = std::make_unique<tinyt_tensor>();
    handle->x =
        Tensor::from_storage(Storage::foreign(data, bytes, release ? release : keep, context),
                             sizes, contiguous_strides(sizes), 0, t);
    *out = handle.release();
  });
}

tinyt_status tinyt_tensor_float(double number, tinyt_tensor** out) {
  return guarded_call([&] { give_handle(out, Tensor::scalar(number)); });
}
tinyt_status tinyt_tensor_integer(int64_t number, tinyt_tensor** out) {
  return guarded_call([&] { give_handle(out, Tensor::scalar(number)); });
}

tinyt_status tinyt_tensor_view(const tinyt_tensor* x, int rank, const int64_t* shape,
                               const int64_t* stride, int64_t offset, tinyt_tensor** out) {
  return guarded_call([&] {
    const Tensor& base = given_pointer(x, "x").x;
    const Dims sizes = shape_of(static_cast<int>(base.dtype()), rank, shape);
    check_given(rank == 0 || stride != nullptr, "stride is NULL");
    const std::span steps(stride, static_cast<size_t>(rank));
    Attrs attrs;
    attrs.add(std::span<const int64_t>(sizes)).add(std::span<const int64_t>(steps)).add(offset);
    give_handle(out, dispatch(OpId::as_strided, {&base, 1}, attrs).first);
  });
}

tinyt_status tinyt_tensor_share(const tinyt_tensor* x, tinyt_tensor** out) {
  return guarded_call([&] { give_handle(out, given_pointer(x, "x").x); });
}
void tinyt_tensor_free(tinyt_tensor* x) { delete x; }

tinyt_dtype tinyt_tensor_dtype(const tinyt_tensor* x) {
  return x ? static_cast<tinyt_dtype>(x->x.dtype()) : TINYT_NO_DTYPE;
}
int tinyt_tensor_rank(const tinyt_tensor* x) { return x ? static_cast<int>(x->x.rank()) : -1; }
int64_t tinyt_tensor_numel(const tinyt_tensor* x) { return x ? x->x.numel() : -1; }
const int64_t* tinyt_tensor_shape(const tinyt_tensor* x) {
  return x ? x->x.shape().data() : nullptr;
}
const int64_t* tinyt_tensor_stride(const tinyt_tensor* x) {
  return x ? x->x.strides().data() : nullptr;
}
void* tinyt_tensor_data(const tinyt_tensor* x) { return x ? x->x.host_data() : nullptr; }

tinyt_status tinyt_tensor_read(const tinyt_tensor* x, void* data, size_t bytes) {
  return guarded_call([&] {
    const Tensor dense = contiguous(given_pointer(x, "x").x);
    const size_t own = static_cast<size_t>(dense.numel()) * dense.itemsize();
    check_given(bytes == own, "read: the elements are ", own, " bytes, not ", bytes);
    check_given(data || bytes == 0, "data is NULL");
    if (bytes > 0) std::memcpy(data, dense.host_data(), bytes);
  });
}

tinyt_status tinyt_tensor_write(tinyt_tensor* x, const void* data, size_t bytes) {
  return guarded_call([&] {
    const Tensor& to = given_pointer(x, "x").x;
    const size_t own = static_cast<size_t>(to.numel()) * to.itemsize();
    check_given(bytes == own, "write: the elements are ", own, " bytes, not ", bytes);
    check_given(data || bytes == 0, "data is NULL");
    if (bytes == 0) return;
    const Tensor from = Tensor::empty(to.shape(), to.dtype());
    std::memcpy(from.host_data(), data, bytes);
    assign(to, from);
  });
}

tinyt_status tinyt_tensor_assign(tinyt_tensor* to, const tinyt_tensor* from) {
  return guarded_call([&] { assign(given_pointer(to, "to").x, given_pointer(from, "from").x); });
}

int tinyt_op_count(void) { return kCallableCount; }

tinyt_status tinyt_op_at(int number, tinyt_op* out) {
  return guarded_call([&] {
    check_given(number >= 0 && number < kCallableCount, "there is no operation ", number);
    const OpInfo& row = info(static_cast<OpId>(number));
    given_pointer(out, "out") = {row.name.data(), row.attributes.data(), row.inputs, row.outputs};
  });
}

tinyt_status tinyt_call(const char* op, const tinyt_tensor* const* inputs, size_t input_count,
                        const tinyt_attribute* attributes, size_t attribute_count,
                        tinyt_tensor** outputs, size_t output_count) {
  return guarded_call([&] {
    check_given(op != nullptr, "op is NULL");
    const std::optional<OpId> found = find_op(op);
    check_given(found && static_cast<int>(*found) < kCallableCount, "there is no operation \"", op,
                "\"");
    const OpInfo& row = info(*found);
    check_given(row.inputs < 0 ? input_count > 0 : input_count == static_cast<size_t>(row.inputs),
                op, ": takes ", row.inputs < 0 ? std::string("some") : std::to_string(row.inputs),
                " tensors, got ", input_count);
    check_given(output_count == static_cast<size_t>(row.outputs), op, ": gives ", int{row.outputs},
                " tensors, there is room for ", output_count);
    check_given(outputs != nullptr, op, ": outputs is NULL");
    const Attrs attrs = NamedAttributes(*found, attributes, attribute_count).read();
    const std::vector<Tensor> operands = tensors_of_handles(inputs, input_count);
    const Outputs made = dispatch(*found, operands, attrs);
    std::vector<Tensor> results;
    for (int i = 0; i < row.outputs; ++i) results.push_back(made[i]);
    give_handles(outputs, std::move(results));
  });
}

tinyt_status tinyt_program_load(const char* path, tinyt_program** out) {
  if (!path || !out) return failed_with(TINYT_VALUE_ERROR, "load: path or out is NULL");
  return guarded_file([&] { *out = new tinyt_program(path); });
}

tinyt_status tinyt_program_save(tinyt_program* program, const char* path) {
  if (!path || !program) return failed_with(TINYT_VALUE_ERROR, "save: path or program is NULL");
  return guarded_file([&] { program->all.save(path); });
}

void tinyt_program_free(tinyt_program* program) { delete program; }

int tinyt_program_count(const tinyt_program* program) {
  return program ? static_cast<int>(program->all.count()) : 0;
}
const char* tinyt_program_signature(const tinyt_program* program, int number) {
  const bool is_one = number >= 0 && number < tinyt_program_count(program);
  return is_one ? program->all.signature(static_cast<size_t>(number)).c_str() : nullptr;
}
int tinyt_program_result_count(const tinyt_program* program, int number) {
  const bool is_one = number >= 0 && number < tinyt_program_count(program);
  return is_one ? static_cast<int>(program->all.result_count(static_cast<size_t>(number))) : -1;
}

tinyt_status tinyt_program_run(tinyt_program* program, const tinyt_tensor* const* tensors,
                               size_t tensor_count, const double* numbers, size_t number_count,
                               tinyt_tensor** results, size_t result_count) {
  return guarded_call([&] {
    SavedPrograms& all = given_pointer(program, "program").all;
    check_given(number_count == 0 || numbers, "numbers is NULL");
    check_given(result_count == 0 || results, "results is NULL");
    const std::vector<Tensor> given_tensors = tensors_of_handles(tensors, tensor_count);
    std::vector<Tensor> made = all.run(given_tensors, {numbers, number_count}, result_count);
    give_handles(results, std::move(made));
  });
}

int tinyt_program_tensor_count(const tinyt_program* program) {
  return program ? static_cast<int>(program->all.names().size()) : 0;
}
const char* tinyt_program_tensor_name(const tinyt_program* program, int number) {
  const bool is_one = number >= 0 && number < tinyt_program_tensor_count(program);
  return is_one ? program->all.names()[static_cast<size_t>(number)].name.c_str() : nullptr;
}
tinyt_status tinyt_program_tensor(tinyt_program* program, const char* name, tinyt_tensor** out) {
  return guarded_call([&] {
    check_given(name != nullptr, "name is NULL");
    const Tensor* found = given_pointer(program, "program").all.tensor(name);
    check_given(found != nullptr, "there is no tensor ", name);
    give_handle(out, *found);
  });
}
tinyt_status tinyt_program_gradient(tinyt_program* program, const char* name, tinyt_tensor** out) {
  return guarded_call([&] {
    check_given(name != nullptr, "name is NULL");
    const std::optional<Tensor> found = given_pointer(program, "program").all.gradient(name);
    check_given(found.has_value(), "there is no tensor ", name);
    given_pointer(out, "out") = nullptr;
    if (*found) give_handle(out, *found);
  });
}
void tinyt_program_clear_gradients(tinyt_program* program) {
  if (program) program->all.clear_gradients();
}

int tinyt_program_number_count(const tinyt_program* program) {
  return program ? static_cast<int>(program->all.numbers().size()) : 0;
}
const char* tinyt_program_number_name(const tinyt_program* program, int number) {
  const bool is_one = number >= 0 && number < tinyt_program_number_count(program);
  return is_one ? program->all.numbers()[static_cast<size_t>(number)].name.c_str() : nullptr;
}
tinyt_status tinyt_program_number(const tinyt_program* program, const char* name, double* out) {
  return guarded_call([&] {
    check_given(name != nullptr, "name is NULL");
    const std::optional<double> found = given_pointer(program, "program").all.number(name);
    check_given(found.has_value(), "there is no number ", name);
    given_pointer(out, "out") = *found;
  });
}
tinyt_status tinyt_program_set_number(tinyt_program* program, const char* name, double number) {
  return guarded_call([&] {
    check_given(name != nullptr, "name is NULL");
    check_given(given_pointer(program, "program").all.set_number(name, number),
                "there is no number ", name);
  });
}
void tinyt_program_seed(tinyt_program* program, uint64_t seed) {
  if (program) program->all.seed(seed);
}

}  // extern "C"

}  // namespace tinyt
