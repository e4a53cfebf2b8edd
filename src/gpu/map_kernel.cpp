#include "gpu/map_kernel.h"

#include <algorithm>
#include <utility>

#include "core/ops/scalar_definition.h"
#include "gpu/fused_source.h"
#include "gpu/launch.h"

namespace tinyt::gpu {

MapKernel::MapKernel(Device device, std::string key)
    : ValueSource(dialect_on(device), kKernelName),
      device_(device),
      driver_(driver_of(device)),
      key_(std::move(key)) {}

DType MapKernel::bits_type(DType t) {
  switch (size_of(t)) {
    case 1:
      return DType::UInt8;
    case 2:
      return DType::Int16;
    case 4:
      return DType::Int32;
    default:
      return DType::Int64;
  }
}

MapKernel::View MapKernel::add(const Tensor& x, DType as, std::string_view spelling) {
  const std::string name = numbered("a", static_cast<int64_t>(memory_.size()));
  arguments_.push_back({spelling, memory_type(as), name});
  memory_.push_back(&x.storage().buffer);
  key_ += " " + std::string(tinyt::name_of(as));
  return {name, word(first_element(x)), as};
}

std::string MapKernel::word(int64_t value) {
  words_.push_back(value);
  return write().word(words_.size() - 1);
}

std::string MapKernel::number_of_bits(DType dtype, int64_t bits) {
  if (dialect().has_wide_words()) return of_word(dtype, word(bits), "");
  const std::string low = word(static_cast<int32_t>(bits));
  return of_word(dtype, low, word(bits >> 32));
}

std::string MapKernel::number(DType dtype, double value) {
  const ScalarType type = held(dtype);
  return number_of_bits(dtype, is_float(type) ? static_cast<int64_t>(bits_of(type, value))
                                              : static_cast<int64_t>(value));
}

std::string MapKernel::held_place(const std::string& place) const {
  return dialect().has_wide_words() ? place : write().widened(place);
}

std::string MapKernel::place_of(const std::string& value) const {
  return dialect().has_wide_words() ? value
                                    : write().narrowed(write().type(dialect().index), value);
}

std::vector<std::string> MapKernel::places(const std::string& number,
                                           std::span<const int64_t> shape,
                                           std::span<const Dims> strides) {
  key_ += "/" + std::to_string(shape.size());
  std::vector<std::string> texts(strides.size()), sizes;
  for (const int64_t size : shape) sizes.push_back(word(size));
  for (size_t d = 0; d < shape.size(); ++d) {
    std::string below;
    for (size_t k = d + 1; k < shape.size(); ++k) below += (below.empty() ? "" : " * ") + sizes[k];
    const std::string index =
        digit(number, below.empty() ? "1" : below, d == 0 ? "" : sizes[d]) + " * ";
    for (size_t k = 0; k < strides.size(); ++k)
      texts[k] += (d == 0 ? "" : " + ") + index + word(strides[k][d]);
  }
  for (std::string& text : texts)
    if (text.empty()) text = "0";
  return texts;
}

std::string MapKernel::place(const std::string& number, std::span<const int64_t> shape,
                             const Dims& strides) {
  return places(number, shape, {&strides, 1})[0];
}

MapKernel::Fault MapKernel::fault(OpId op, int64_t dim, int64_t size) {
  if (faults_.empty()) {
    faults_ = "faults";
    arguments_.push_back({dialect().writes, memory_type(DType::Int64), faults_});
    memory_.push_back(&driver_.faults(device_.index));
  }
  return {word(static_cast<int64_t>(op) + 1), word(dim), word(size)};
}

void MapKernel::check_index(const Fault& fault, const std::string& index, int64_t instead) {
  const std::string size = held_place(fault.size);
  const auto word = [&](int number, const std::string& value) {
    write().set_element(DType::Int64, faults_, std::to_string(number), value);
  };
  const std::string zero = whole(0);
  write().open_if(write().less(ScalarType::I64, index, zero) + " || " +
                  write().less_equal(ScalarType::I64, size, index));
  // The first one that is seen: others may follow from it.
  write().open_if(
      write().equal(ScalarType::I64, write().element(DType::Int64, faults_, "0"), zero));
  word(1, index);
  word(2, held_place(fault.dim));
  word(3, size);
  word(0, held_place(fault.op));
  write().close();
  write().assign(index, whole(instead));
  write().close();
}

void MapKernel::run(int64_t count, FunctionRef<void()> body, int64_t least) {
  if (count == 0) return;
  const LaunchModel model = driver_.launch_model(device_.index);
  const int64_t block = model.by_element() ? 1 : std::max(least, ceil_div(count, model.threads));
  const std::string elements = word(count), of_thread = word(block);
  BuiltKernel& built = built_kernel(device_, key_, {memory_.size(), words_.size()}, [&] {
    const ScalarType index = dialect().index;
    write().open_kernel(kKernelName, arguments_, words_.size());
    write().constant(index, "thread", write().thread());
    write().constant(index, "begin", "thread * " + of_thread);
    write().limit(index, "end", "begin + " + of_thread, elements);
    write().open_count(index, "i", "begin", "end");
    body();
    write().close();
    write().close();
    return whole_source({functions(), write().text()}, dialect());
  });
  launch(built, ceil_div(count, block));
}

void MapKernel::launch(BuiltKernel& built, int64_t threads) const {
  driver_.launch(built, device_.index, memory_, words_, threads);
  if (!faults_.empty()) driver_.expect_faults(device_.index);
}

void MapKernel::share(ScalarType type, const std::string& name, int64_t size) {
  shared_.push_back({type, name, size});
}

void MapKernel::run_groups(int64_t groups, FunctionRef<void()> body) {
  BuiltKernel& built = built_kernel(device_, key_, {memory_.size(), words_.size()}, [&] {
    const ScalarType index = dialect().index;
    const std::string size = std::to_string(kGroupThreads);
    const auto declare = [&] {
      for (const Shared& array : shared_) write().shared_array(array.type, array.name, array.size);
    };
    if (dialect().apart) declare();
    write().open_kernel(kKernelName, arguments_, words_.size());
    if (!dialect().apart) declare();
    write().constant(index, "thread", write().thread());
    write().constant(index, "group", "thread / " + size);
    write().constant(index, "lane", "thread % " + size);
    body();
    write().close();
    return whole_source({functions(), write().text()}, dialect());
  });
  launch(built, groups * kGroupThreads);
}

}  // namespace tinyt::gpu
