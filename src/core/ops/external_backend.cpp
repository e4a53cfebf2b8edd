#include "core/ops/external_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include "core/base/error.h"
#include "core/device/runtime.h"
#include "core/ops/backend_api.h"
#include "core/ops/external_calls.h"
#include "core/ops/kernels.h"
#include "core/ops/to_device.h"

namespace tinyt {

namespace {

using namespace external;

constexpr const char* kCopyInto = "copy_into";
constexpr const char* kCountNonzero = "count_nonzero";

// ---- what libraries ask of the core

std::atomic<FusedOnCpu> g_fused_on_cpu{nullptr};

void run_kernel_on_cpu(const TinytCall& call) {
  const std::vector<Tensor> inputs = host_tensors(call.inputs, call.input_count);
  const std::vector<Tensor> outputs = host_tensors(call.outputs, call.output_count);
  const Kernels& kernels = kernels_of({});
  require(call.op != nullptr && is_dtype(call.compute), ErrorKind::Value,
          "run_on_cpu: a call without a name, or of dtype ", call.compute);
  const std::string_view name = call.op;
  if (name == kCopyInto) return kernels.copy_into(inputs.at(0), outputs.at(0));
  if (name == kCountNonzero) {
    *outputs.at(0).ptr<int64_t>() = kernels.count_nonzero(inputs.at(0));
    return;
  }
  const std::optional<OpId> found = find_op(name);
  require(found.has_value(), ErrorKind::Value, "run_on_cpu: there is no operation ", name);
  const OpId op = *found;
  const OpInfo& row = info(op);
  require((row.inputs < 0 || inputs.size() == static_cast<size_t>(row.inputs)) &&
              (row.outputs < 0 || outputs.size() == static_cast<size_t>(row.outputs)),
          ErrorKind::Value, "run_on_cpu: ", name, " does not take ", inputs.size(),
          " operands for ", outputs.size(), " results");
  Attrs attrs;
  for (size_t i = 0; i < call.int_count; ++i) attrs.add(call.ints[i]);
  for (size_t i = 0; i < call.float_count; ++i) attrs.add_float(call.floats[i]);
  kernels.row(op)({op, inputs, outputs, attrs, static_cast<DType>(call.compute)});
}

constexpr TinytHost kHost = {
    TINYT_BACKEND_VERSION,
    [](const char* text) { set_error(text != nullptr ? text : ""); },
    [](int32_t dtype) {
      return is_dtype(dtype) ? name_of(static_cast<DType>(dtype)).data() : nullptr;
    },
    [](int32_t dtype) { return is_dtype(dtype) ? size_of(static_cast<DType>(dtype)) : size_t{0}; },
    [](const TinytCall* call) { return status_of([&] { run_kernel_on_cpu(*call); }); },
    [](const TinytFusedKernel* kernel, const TinytTensor* operands, const TinytTensor* stores) {
      return status_of([&] {
        const FusedOnCpu run = g_fused_on_cpu;
        require(run != nullptr, ErrorKind::NotImplemented, "run_fused_on_cpu: not there yet");
        run(*kernel, operands, stores);
      });
    },
};

// ---- a library as a device

class ExternalRuntime final : public Runtime {
 public:
  explicit ExternalRuntime(const TinytBackend& api) : api_(api) {}

  int device_count() const override { return api_.device_count(api_.context); }
  size_t most_buffers() const override { return api_.most_buffers; }
  DeviceProperties properties(int index) const override {
    TinytProperties found{};
    check(api_.properties(api_.context, index, &found), api_.name, "properties");
    return {found.name != nullptr ? found.name : "", found.memory_bytes, found.alignment};
  }

  Buffer allocate(size_t bytes, int index) override {
    TinytMemory found{};
    const int status = api_.allocate(api_.context, index, bytes, &found);
    if (status == TINYT_OUT_OF_MEMORY) return {};
    check(status, api_.name, "allocate");
    require(found.handle != nullptr || found.host != nullptr, ErrorKind::Runtime,
            "allocate: ", api_.name, " gave no memory and no error");
    return {.host = found.host, .bytes = bytes, .handle = found.handle};
  }
  void free(const Buffer& buffer) noexcept override {
    const TinytMemory memory = memory_of(buffer);
    api_.release(api_.context, &memory);
  }

  void copy(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
            size_t bytes) override {
    const TinytPlace target = place_in(to, to_place), source = place_in(from, from_place);
    check(api_.copy(api_.context, &target, &source, bytes), api_.name, "copy");
  }
  void fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) override {
    const TinytPlace target = place_in(to, place);
    check(api_.fill(api_.context, &target, bytes, value), api_.name, "fill");
  }
  void synchronise(int index) override {
    check(api_.synchronise(api_.context, index), api_.name, "synchronise");
  }

 private:
  const TinytBackend& api_;
};

struct ExternalBackend {
  const TinytBackend& api;
  ExternalRuntime runtime{api};
  Kernels kernels;
  std::array<TinytKernel, kOpCount> rows{};
  std::array<uint32_t, kOpCount> lacks{};  // dtypes, as bits
  TinytKernel copy_into = nullptr, count_nonzero = nullptr;

  explicit ExternalBackend(const TinytBackend& from);
  void run(TinytKernel kernel, const TinytCall& call) const {
    check(kernel(api.context, &call), api.name, call.op);
  }
};

std::array<std::atomic<ExternalBackend*>, kMaxDeviceKinds> g_backends{};

const ExternalBackend& backend_of(const Tensor& t) {
  return *g_backends[static_cast<size_t>(t.device().kind)].load(std::memory_order_acquire);
}

void run_row(const KernelCall& call) {
  const ExternalBackend& backend = backend_of(call.outputs[0]);
  const std::vector<TinytTensor> inputs = tensors_of(call.inputs),
                                 outputs = tensors_of(call.outputs);
  backend.run(backend.rows[static_cast<size_t>(call.op)],
              {name_of(call.op).data(), static_cast<int32_t>(call.compute),
               static_cast<int32_t>(inputs.size()), static_cast<int32_t>(outputs.size()),
               inputs.data(), outputs.data(), call.attrs.ints.data(), call.attrs.ints.size(),
               call.attrs.floats.data(), call.attrs.floats.size()});
}

// A call of one operand and one result, without attributes.
void run_unary(const ExternalBackend& backend, TinytKernel kernel, const char* name,
               const Tensor& from, const Tensor& to) {
  const TinytTensor input = tensor_of(from), output = tensor_of(to);
  backend.run(kernel, {name, static_cast<int32_t>(from.dtype()), 1, 1, &input, &output, nullptr, 0,
                       nullptr, 0});
}

ExternalBackend::ExternalBackend(const TinytBackend& from) : api(from) {
  for (int op = 0; op < kOpCount; ++op) {
    rows[static_cast<size_t>(op)] = api.kernel(api.context, kOps[op].name.data());
    // A fused row that binds more than it can runs as what it is made of.
    const bool is_wide = api.most_buffers > 0 && (kOps[op].flags & op_flags::fused) != 0 &&
                         kOps[op].inputs + kOps[op].outputs > static_cast<int>(api.most_buffers);
    if (rows[static_cast<size_t>(op)] == nullptr || is_wide) continue;
    kernels.rows[static_cast<size_t>(op)] = run_row;
    for (int32_t dtype = 0; api.lacks != nullptr && dtype < kDTypeCount; ++dtype)
      if (api.lacks(api.context, kOps[op].name.data(), dtype) != 0)
        lacks[static_cast<size_t>(op)] |= uint32_t{1} << dtype;
  }
  kernels.lacks = &lacks;
  kernels.rows[static_cast<size_t>(OpId::to_device)] = copy_to_device;
  if ((copy_into = api.kernel(api.context, kCopyInto)) != nullptr)
    kernels.copy_into = [](const Tensor& source, const Tensor& to) {
      const ExternalBackend& backend = backend_of(to);
      run_unary(backend, backend.copy_into, kCopyInto, source, to);
    };
  if ((count_nonzero = api.kernel(api.context, kCountNonzero)) != nullptr)
    kernels.count_nonzero = [](const Tensor& x) {
      const ExternalBackend& backend = backend_of(x);
      const Tensor count = Tensor::number(DType::Int64);
      run_unary(backend, backend.count_nonzero, kCountNonzero, x, count);
      return *count.ptr<int64_t>();
    };
}

// ---- loading

// A library, closed again unless it is kept.
class Library {
 public:
  explicit Library(const std::string& path) {
#if defined(_WIN32)
    fail(ErrorKind::NotImplemented, "load_backend: not on Windows yet, got ", path);
#else
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) fail(ErrorKind::Runtime, "load_backend: ", dlerror());
#endif
  }
  ~Library() {
#if !defined(_WIN32)
    if (handle_ != nullptr) dlclose(handle_);
#endif
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  TinytEntry entry() const {
#if defined(_WIN32)
    return nullptr;
#else
    return reinterpret_cast<TinytEntry>(dlsym(handle_, "tinyt_backend"));
#endif
  }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_ = nullptr;
};

void check_complete(const TinytBackend& api, const std::string& path) {
  require(api.version == TINYT_BACKEND_VERSION, ErrorKind::Runtime, "load_backend: ", path,
          " is for version ", api.version, " of the interface, this is version ",
          TINYT_BACKEND_VERSION);
  require(api.name != nullptr && api.device_count && api.properties && api.allocate &&
              api.release && api.copy && api.fill && api.synchronise && api.kernel,
          ErrorKind::Runtime, "load_backend: ", path, " leaves out a function or its name");
}

}  // namespace

void register_fused_on_cpu(FusedOnCpu run) { g_fused_on_cpu = run; }

const TinytBackend* external_backend(DeviceKind kind) {
  const ExternalBackend* backend = g_backends[static_cast<size_t>(kind)].load();
  return backend ? &backend->api : nullptr;
}

DeviceKind load_backend(const std::string& path) {
  Library library(path);
  const TinytEntry entry = library.entry();
  require(entry != nullptr, ErrorKind::Runtime, "load_backend: ", path,
          " does not export tinyt_backend");
  take_error();
  const TinytBackend* api = entry(TINYT_BACKEND_VERSION, &kHost);
  if (const std::string text = take_error(); api == nullptr)
    fail(ErrorKind::Runtime, "load_backend: ", path,
         " brings no device: ", text.empty() ? "it does not say why" : text);
  check_complete(*api, path);
  std::vector<std::string> aliases;
  for (const char* const* alias = api->aliases; alias != nullptr && *alias != nullptr; ++alias)
    aliases.emplace_back(*alias);
  auto backend = std::make_unique<ExternalBackend>(*api);
  const DeviceKind kind = register_device(api->name, backend->runtime, aliases);
  // From here on it may be in use, and is never taken away.
  ExternalBackend& kept = *backend.release();
  library.keep();
  g_backends[static_cast<size_t>(kind)].store(&kept, std::memory_order_release);
  register_kernels(kind, kept.kernels);
  return kind;
}

}  // namespace tinyt
