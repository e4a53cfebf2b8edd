#include "gpu/launch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/base/backend_error.h"
#include "core/base/fork.h"
#include "core/ops/kernels.h"

namespace tinyt::gpu {

namespace {

// ---- kernels by key

struct BuiltKernels {
  RunMutex mutex;  // compilers take long
  std::unordered_map<std::string, BuiltKernel*> kernels;
};

BuiltKernels& built_kernels(Device device) {
  using Row = std::array<std::atomic<BuiltKernels*>, 256>;
  static auto& rows = *new std::array<Row, kMaxDeviceKinds>{};
  std::atomic<BuiltKernels*>& place = rows[static_cast<size_t>(device.kind)][device.index];
  if (BuiltKernels* found = place.load(std::memory_order_acquire)) return *found;
  auto made = std::make_unique<BuiltKernels>();
  BuiltKernels* expected = nullptr;
  if (place.compare_exchange_strong(expected, made.get())) return *made.release();
  return *expected;
}

// ---- operands

// A number's bits as a kernel holds it.
int64_t bits_of_number(const Tensor& x) {
  const Tensor number = is_half(x.dtype()) ? number_as(x, DType::Float32) : x;
  const char* p = number.host_data();
  const auto read = [&]<class T>(T) {
    T x;
    std::memcpy(&x, p, sizeof x);
    return x;
  };
  switch (number.dtype()) {
    case DType::Bool:
      return read(uint8_t{}) != 0;
    case DType::UInt8:
      return read(uint8_t{});
    case DType::Int8:
      return read(int8_t{});
    case DType::Int16:
      return read(int16_t{});
    case DType::Int32:
      return read(int32_t{});
    case DType::Int64:
      return read(int64_t{});
    case DType::Float32:
      return std::bit_cast<int32_t>(read(float{}));
    case DType::Float64:
      return std::bit_cast<int64_t>(read(double{}));
    default:
      fail(ErrorKind::NotImplemented, "a number of ", name_of(number.dtype()), " for a kernel");
  }
}

Inner inner_of(const Tensor& operand, const Dims& strides) {
  if (is_number(operand)) return Inner::Number;
  if (strides.empty() || strides.back() == 0) return Inner::Repeated;
  return strides.back() == 1 ? Inner::Dense : Inner::Strided;
}

// Whether threads take rows together: what they share is little on some devices.
bool has_lanes(const FusedKernel& kernel, const LaunchModel& model) {
  constexpr int kMostReductions = 16;
  const auto reductions = std::ranges::count_if(
      kernel.ops, [](const FusedKernel::Op& op) { return info(op.op).kind == OpKind::Reduce; });
  return model.row_threads(kernel.cols()) > 1 && reductions <= kMostReductions;
}

// All that the text of a kernel depends on.
std::string key_of(const FusedKernel& kernel, const KernelForm& form) {
  std::string key;
  const auto add = [&](auto x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  add(static_cast<uint8_t>(kernel.shape.size()));
  add(static_cast<uint8_t>(kernel.reduced));
  add(static_cast<uint8_t>(form.strided_stores));
  add(static_cast<uint8_t>(form.streams));
  add(static_cast<uint8_t>(form.by_lanes));
  add(static_cast<uint16_t>(kernel.loads));
  for (const Inner inner : form.loads) add(inner);
  for (const FusedKernel::Value& value : kernel.values) {
    add(value.dtype);
    add(value.per_row);
  }
  for (const FusedKernel::Op& op : kernel.ops) {
    add(static_cast<uint16_t>(op.op));
    add(op.compute);
    for (const FusedKernel::Operand& in : op.in) {
      add(static_cast<uint16_t>(in.value));
      add(in.single);
    }
  }
  for (const int v : kernel.stores) add(static_cast<uint16_t>(v));
  return key;
}

}  // namespace

Tensor number_as(const Tensor& number, DType dtype) {
  if (number.dtype() == dtype) return number;
  const Tensor out = Tensor::number(dtype);
  kernels_of({}).copy_into(number, out);
  return out;
}

int64_t first_element(const Tensor& t) {
  const Buffer& buffer = t.storage().buffer;
  require(buffer.offset % t.itemsize() == 0, ErrorKind::Runtime, "a tensor of ", name_of(t.dtype()),
          " begins at byte ", buffer.offset, ", between two elements");
  return t.offset() + static_cast<int64_t>(buffer.offset / t.itemsize());
}

BuiltKernel& built_kernel(Device device, const std::string& key, ArgumentCount arguments,
                          const std::function<std::string()>& source) {
  if (const size_t most = driver_of(device).most_argument_bytes(device.index);
      arguments.bytes() > most)
    fail_in_backend(ErrorKind::NotImplemented, name_of(device), " passes a kernel at most ", most,
                    " bytes of arguments, and ", arguments.memory,
                    " operands with their sizes and ", "strides take ", arguments.bytes(),
                    "; take fewer at once, or join dimensions by reshape");
  BuiltKernels& all = built_kernels(device);
  const std::lock_guard<RunMutex> lock(all.mutex);
  if (const auto it = all.kernels.find(key); it != all.kernels.end()) return *it->second;
  BuiltKernel& built = driver_of(device).build(source(), kKernelName, device.index);
  all.kernels.emplace(key, &built);
  return built;
}

int64_t built_count(Device device) {
  BuiltKernels& all = built_kernels(device);
  const std::lock_guard<RunMutex> lock(all.mutex);
  return static_cast<int64_t>(all.kernels.size());
}

FusedLaunch::FusedLaunch(const FusedKernel& given, std::span<const Tensor> operands,
                         std::span<const Tensor> stores)
    : device_(stores[0].device()) {
  const bool strided = given.reduced == 0;
  Space space{given.shape, {}};
  const auto add = [&](const Tensor& t) {
    space.strides.push_back(broadcast_strides(t.shape(), t.strides(), given.shape));
  };
  std::ranges::for_each(operands, add);
  if (strided) {
    std::ranges::for_each(stores, add);
    space.sort_by(operands.size());
  }
  const size_t rows = given.shape.size() - given.reduced;
  size_t reduced = space.collapse(rows, given.shape.size());
  space.collapse(0, rows);
  // A row, and elements in it, there are always, so that kernels are shared.
  if (strided && space.shape.empty()) space.insert_one(0);
  if (!strided && reduced == 0) space.insert_one(space.shape.size());
  if (!strided) reduced = std::max<size_t>(reduced, 1);
  if (!strided && space.shape.size() == reduced) space.insert_one(0);
  for (size_t k = 0; k < operands.size(); ++k)
    form_.loads.push_back(inner_of(operands[k], space.strides[k]));
  for (size_t k = operands.size(); k < space.strides.size(); ++k)
    form_.strided_stores |= !is_contiguous(space.shape, space.strides[k]);
  const LaunchModel model = driver_of(device_).launch_model(device_.index);
  for (const Tensor& t : stores) form_.streams |= goes_past(t, model);
  form_.by_lanes = !strided && has_lanes(given, model);

  FusedKernel kernel = given;
  kernel.shape = space.shape;
  kernel.reduced = reduced;
  Driver& driver = driver_of(device_);
  const Dialect& dialect = driver.dialect(device_.index);
  narrow_ = !dialect.has_wide_words();
  no_doubles_ = dialect.type(ScalarType::F64).empty();
  if (no_doubles_) shorten_numbers(kernel);
  layout_ = WordLayout(space.shape.size(), form_, stores.size(), dialect);
  const auto numbers = static_cast<size_t>(std::ranges::count(form_.loads, Inner::Number));
  const ArgumentCount arguments{operands.size() - numbers + stores.size(), layout_.count()};
  built_ = &built_kernel(device_, key_of(kernel, form_), arguments, [&] {
    return whole_source(kernel_source(kernel, form_, kKernelName, dialect), dialect);
  });
  fill_geometry(space, stores.size());
  share_out(space.shape, reduced, model);
}

// Numbers of Python are float64; operations of floats take them as float32, rounded once.
void FusedLaunch::shorten_numbers(FusedKernel& kernel) const {
  for (size_t k = 0; k < form_.loads.size(); ++k) {
    if (form_.loads[k] != Inner::Number || kernel.values[k].dtype != DType::Float64) continue;
    const bool of_floats = std::ranges::all_of(kernel.ops, [&](const FusedKernel::Op& op) {
      return !is_integral(op.compute) ||
             std::ranges::none_of(op.in, [&](const FusedKernel::Operand& in) {
               return in.value == static_cast<int>(k);
             });
    });
    if (of_floats) kernel.values[k].dtype = DType::Float32;
  }
}

void FusedLaunch::fill_geometry(const Space& space, size_t stores) {
  words_.resize(layout_.count());
  for (size_t d = 0; d < space.shape.size(); ++d) {
    words_[layout_.size(d)] = space.shape[d];
    for (size_t k = 0; k < form_.loads.size(); ++k)
      if (form_.loads[k] != Inner::Number) words_[layout_.stride(k, d)] = space.strides[k][d];
    for (size_t k = 0; form_.strided_stores && k < stores; ++k)
      words_[layout_.store_stride(k, d)] = space.strides[form_.loads.size() + k][d];
  }
}

// How many threads there are, and what each takes.
void FusedLaunch::share_out(const Dims& shape, size_t reduced, const LaunchModel& model) {
  const size_t row_dims = shape.size() - std::max<size_t>(reduced, 1);
  const int64_t rows = numel_of(std::span(shape).first(row_dims)),
                columns = numel_of(std::span(shape).subspan(row_dims));
  int64_t parts = 1;
  if (reduced == 0) {
    parts = std::max<int64_t>(1, model.threads / rows);
    const int64_t block = std::max(model.least_block, ceil_div(columns, parts));
    words_[layout_.block()] = block;
    parts = ceil_div(columns, block);
  }
  const int64_t least_lines = ceil_div(model.least_block, std::max<int64_t>(1, columns));
  const int64_t lines =
      parts > 1 || model.by_element() ? 1 : std::max(ceil_div(rows, model.threads), least_lines);
  words_[layout_.lines()] = lines;
  threads_ = ceil_div(rows, lines) * parts * (form_.by_lanes ? kReduceLanes : 1);
}

void FusedLaunch::run(std::span<const Tensor> operands, std::span<const Tensor> stores) {
  SmallVec<const Buffer*, 16> memory;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (form_.loads[k] == Inner::Number) {
      const bool is_double = no_doubles_ && operands[k].dtype() == DType::Float64;
      const int64_t bits =
          bits_of_number(is_double ? number_as(operands[k], DType::Float32) : operands[k]);
      words_[layout_.load(k)] = narrow_ ? static_cast<int32_t>(bits) : bits;
      if (narrow_) words_[layout_.load(k) + 1] = bits >> 32;
      continue;
    }
    memory.push_back(&operands[k].storage().buffer);
    words_[layout_.load(k)] = first_element(operands[k]);
  }
  for (size_t k = 0; k < stores.size(); ++k) {
    memory.push_back(&stores[k].storage().buffer);
    words_[layout_.store(k)] = first_element(stores[k]);
  }
  driver_of(device_).launch(*built_, device_.index, memory, words_, threads_);
}

void run_fused(const FusedKernel& kernel, std::span<const Tensor> operands,
               std::span<const Tensor> stores) {
  if (!are_empty(stores)) FusedLaunch(kernel, operands, stores).run(operands, stores);
}

FusedKernel single_op(OpId op, DType compute, std::span<const Tensor> operands, DType result,
                      std::span<const int64_t> shape, size_t reduced) {
  FusedKernel kernel;
  kernel.shape = Dims(shape);
  kernel.reduced = reduced;
  kernel.loads = static_cast<int>(operands.size());
  kernel.ops.push_back({op, compute, {}});
  for (size_t k = 0; k < operands.size(); ++k) {
    kernel.values.push_back({operands[k].dtype(), false});
    const bool single = !converts(op) && reduced == 0 && operands[k].numel() == 1 &&
                        operands[k].dtype() != compute;  // else it is as any other
    kernel.ops[0].in.push_back({static_cast<int>(k), single});
  }
  kernel.values.push_back({result, reduced > 0});
  kernel.stores.push_back(kernel.loads);
  return kernel;
}

void add_into(const Tensor& out, const Tensor& more) {
  const Tensor both[] = {out, more};
  run_fused(single_op(OpId::add, out.dtype(), both, out.dtype(), out.shape()), both, {&out, 1});
}

}  // namespace tinyt::gpu
