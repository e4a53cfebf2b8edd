// Kinds of devices, their memory, and one that comes from a shared library.
#include "core/device/device.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "core/device/runtime.h"
#include "core/memory/device_cache.h"
#include "core/ops/dispatch.h"
#include "core/ops/external_backend.h"
#include "core/ops/kernels.h"
#include "cpu/register.h"

namespace {

using namespace tinyt;

// Host memory under another name, with a limit, whose calls are counted.
class Counted final : public Runtime {
 public:
  int device_count() const override { return 2; }
  DeviceProperties properties(int index) const override {
    return {"counted " + std::to_string(index)};
  }
  Buffer allocate(size_t bytes, int) override {
    if (bytes > most - used) return {};
    used += bytes;
    ++allocations;
    return {.bytes = bytes, .handle = std::malloc(bytes)};
  }
  void free(const Buffer& buffer) noexcept override {
    used -= buffer.bytes;
    ++frees;
    std::free(buffer.handle);
  }
  void copy(const Buffer&, size_t, const Buffer&, size_t, size_t) override {}
  void fill(const Buffer&, size_t, size_t, uint8_t) override {}
  void synchronise(int) override {}

  size_t most = size_t{1} << 20, used = 0;
  int allocations = 0, frees = 0;
};

Counted& counted() {
  static Counted& runtime = *new Counted;
  return runtime;
}

void test_kinds_have_names() {
  CHECK(find_device_kind("cpu") == DeviceKind::CPU);
  CHECK(!find_device_kind("counted"));
  const DeviceKind kind = register_device("counted", counted(), {"tallied"});
  CHECK(find_device_kind("counted") == kind && find_device_kind("tallied") == kind);
  CHECK_EQ(name_of(Device{kind, 1}), "counted:1");
  CHECK_EQ(name_of(Device{}), "cpu");
  CHECK_EQ(runtime_of({kind, 1}).properties(1).name, "counted 1");
  CHECK_FAILS(Device, "has no counted:2", runtime_of({kind, 2}));
  CHECK_FAILS(Value, "already", register_device("counted", counted()));
  CHECK_FAILS(Value, "already", register_device("other", counted(), {"tallied"}));
  CHECK_FAILS(Value, "already", register_device("cpu", counted()));
  CHECK_FAILS(Value, "cannot be the name", register_device("two words", counted()));
  CHECK_FAILS(Value, "cannot be the name", register_device("", counted()));
  CHECK(!find_device_kind("other"));
  CHECK_EQ(device_kinds().size(), size_t{2});
  CHECK_FAILS(Device, "counted:0 has no kernels", kernels_of({kind, 0}));
}

void test_the_runtime_of_the_cpu() {
  Runtime& cpu = runtime_of({});
  CHECK_EQ(cpu.device_count(), 1);
  const Buffer a = cpu.allocate(100, 0), b = cpu.allocate(100, 0);
  cpu.fill(a, 0, 100, 7);
  cpu.copy(b, 10, a, 0, 20);
  cpu.synchronise(0);
  CHECK_EQ(static_cast<char*>(b.host)[29], 7);
  cpu.free(a);
  cpu.free(b);
  const Buffer none = cpu.allocate(size_t{1} << 60, 0);
  CHECK(none.host == nullptr && none.handle == nullptr);
}

void test_buffers_are_used_again() {
  const Device device{*find_device_kind("counted"), 1};
  memory::DeviceCache& cache = memory::cache_of(device);
  CHECK(&cache == &memory::cache_of(device));
  CHECK(&memory::allocator_of(device) == &cache);
  const Buffer a = cache.allocate(1000);
  CHECK(a.device == device && a.bytes == 1000 && a.host == nullptr && a.handle != nullptr);
  CHECK_EQ(cache.statistics().current_bytes, 1000);
  cache.release(a);
  const Buffer b = cache.allocate(1020);  // the same size, rounded
  CHECK(b.handle == a.handle);
  CHECK_EQ(counted().allocations, 1);
  cache.release(b);
  const Buffer none = cache.allocate(0);
  CHECK(none.handle == nullptr && none.device == device);
  cache.release(none);
  CHECK_EQ(cache.statistics().cached_bytes, 1024);
  cache.empty_cache();
  CHECK_EQ(counted().frees, 1);
  CHECK_EQ(counted().used, size_t{0});
  CHECK_EQ(cache.statistics().reserved_bytes, 0);
}

void test_what_is_kept_goes_before_memory_is_short() {
  const Device device{*find_device_kind("counted"), 0};
  memory::DeviceCache& cache = memory::cache_of(device);
  const Buffer half = cache.allocate(size_t{1} << 19);
  cache.release(half);
  const Buffer most = cache.allocate(size_t{7} << 17);  // does not fit beside it
  CHECK_EQ(counted().frees, 2);
  CHECK_FAILS(OutOfMemory, "counted:0 has no more", cache.allocate(size_t{1} << 19));
  CHECK_EQ(cache.statistics().current_bytes, int64_t{7} << 17);
  cache.release(most);
  cache.set_limit(1000);
  CHECK_FAILS(OutOfMemory, "the limit of counted:0", cache.allocate(1001));
  cache.set_limit(0);
  CHECK_FAILS(Value, "at least 0", cache.set_limit(-1));
  CHECK_FAILS(OutOfMemory, "was asked for", cache.allocate(SIZE_MAX));
  CHECK_EQ(cache.statistics().peak_bytes, int64_t{7} << 17);
  cache.reset_peak();
  CHECK_EQ(cache.statistics().peak_bytes, 0);
  const memory::DeviceStatistics counts = cache.statistics();
  CHECK_EQ(counts.refusals, 2);
  CHECK_EQ(counts.retries, 1);  // the second time nothing was kept
  CHECK_EQ(counts.system_frees, 1);
  CHECK_EQ(counts.peak_reserved_bytes, int64_t{7} << 17);
  cache.empty_cache();
  CHECK_EQ(cache.statistics().system_frees, 2);
  cache.reset_reserved_peak();
  CHECK_EQ(cache.statistics().peak_reserved_bytes, 0);
}

// ---- a device from a library

Device g_host2;

Tensor sent(const Tensor& t, Device device) { return to_device(t, device); }
Tensor fetched(const Tensor& t) { return to_device(t, {}); }

Tensor floats(const Dims& shape) {
  Tensor x = Tensor::empty(shape, DType::Float32);
  for (int64_t i = 0; i < x.numel(); ++i) x.ptr<float>()[i] = static_cast<float>(i % 7) - 2.5F;
  return x;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.host_data(), b.host_data(), static_cast<size_t>(a.numel()) * a.itemsize()) ==
             0;
}

void test_a_library_that_brings_a_device() {
  setenv("HOST2_LACKS", "erf,nonzero", 1);
  setenv("HOST2_BYTES", "1048576", 1);
  const DeviceKind kind = load_backend(TINYT_HOST2);
  CHECK(find_device_kind("host2") == kind && find_device_kind("hidden") == kind);
  g_host2 = {kind, 1};
  CHECK_EQ(runtime_of(g_host2).properties(1).memory_bytes, size_t{1} << 20);
  CHECK_FAILS(Device, "has no host2:2", runtime_of({kind, 2}));
  CHECK_FAILS(Value, "already", load_backend(TINYT_HOST2));
  CHECK_FAILS(Runtime, "load_backend", load_backend("/nowhere/none.so"));
  Dl_info core{};  // a library without the entry
  CHECK(dladdr(reinterpret_cast<void*>(&load_backend), &core) != 0);
  CHECK_FAILS(Runtime, "does not export", load_backend(core.dli_fname));
}

void test_the_host_cannot_read_it() {
  const Tensor x = sent(floats({3, 4}), g_host2);
  CHECK(x.device() == g_host2);
  CHECK_FAILS(Device, "cannot read the memory of host2:1", x.host_data());
  CHECK(same(fetched(x), floats({3, 4})));
  runtime_of(g_host2).fill(x.storage().buffer, 4, 8, 0);
  CHECK_EQ(fetched(x).ptr<float>()[2], 0.0F);
  runtime_of(g_host2).synchronise(1);
}

void test_operations_run_on_it() {
  const Tensor x = floats({5, 6}), y = floats({6});
  const Tensor there[] = {sent(x, g_host2), sent(y, g_host2)}, here[] = {x, y};
  const Tensor sum = dispatch(OpId::add, there).first;
  CHECK(sum.device() == g_host2);
  CHECK(same(fetched(sum), dispatch(OpId::add, here).first));
  // Views, strides, attributes, another dtype, two results, numbers, results in place.
  Attrs swap;
  swap.add(std::vector<int64_t>{1, 0});
  const auto rows = [&](const Tensor& t) {
    const Tensor turned = dispatch(OpId::permute, {&t, 1}, swap).first;
    Attrs dim;
    dim.add(0).add(1);
    return dispatch(OpId::sort, {&turned, 1}, Attrs(dim));
  };
  const Outputs far = rows(sum), near = rows(dispatch(OpId::add, here).first);
  CHECK(same(fetched(far.first), near.first) && same(fetched(far.second), near.second));
  CHECK(same(fetched(cast(sum, DType::Float64)),
             cast(dispatch(OpId::add, here).first, DType::Float64)));
  const Tensor far_number[] = {there[0], Tensor::scalar(1.5)};
  const Tensor near_number[] = {x, Tensor::scalar(1.5)};
  CHECK(
      same(fetched(dispatch(OpId::mul, far_number).first), dispatch(OpId::mul, near_number).first));
  dispatch_into(OpId::mul, far_number, {}, far_number[0]);
  CHECK(same(fetched(far_number[0]), dispatch(OpId::mul, near_number).first));
  assign(sum, there[1]);
  const Tensor copy = Tensor::empty(x.shape(), DType::Float32);
  assign(copy, y);
  CHECK(same(fetched(sum), copy));
  assign(sum, Tensor::scalar(int64_t{3}));
  CHECK_EQ(fetched(sum).ptr<float>()[29], 3.0F);
}

void test_tensors_are_made_and_moved() {
  for (const OpId op : {OpId::fill, OpId::iota, OpId::uniform, OpId::normal, OpId::random_bits}) {
    const auto made = [&](Device device) {
      Attrs attrs;
      op == OpId::iota ? attrs.add(9) : attrs.add(std::vector<int64_t>{3, 5});
      if (op != OpId::random_bits) attrs.add(DType::Float32);
      if (op == OpId::fill) attrs.add(2).add_float(2.5).add_float(0);
      if (op == OpId::iota) attrs.add(0).add(1).add_float(0.5).add_float(0.25);
      attrs.add(code_of(device));
      if (has_flag(op, op_flags::random)) attrs.add(7).add(11);
      return dispatch(op, {}, attrs).first;
    };
    CHECK(made(g_host2).device() == g_host2 && made({}).device() == Device{});
    CHECK(same(fetched(made(g_host2)), made({})));
  }
  Attrs swap;
  swap.add(std::vector<int64_t>{1, 0});
  const Tensor x = floats({4, 3}), turned = dispatch(OpId::permute, {&x, 1}, swap).first;
  const Tensor far = sent(turned, g_host2), other = sent(far, {g_host2.kind, 0});
  CHECK(other.device().index == 0 && same(fetched(other), contiguous(turned)) &&
        same(fetched(far), contiguous(turned)));
  CHECK(to_device(far, g_host2).impl() == far.impl());
  const Tensor back = dispatch(OpId::permute, {&far, 1}, swap).first;  // strided there
  CHECK(same(fetched(back), x));
  assign(back, x);
  assign(turned, sent(floats({3, 4}), g_host2));
  CHECK(same(contiguous(turned), floats({3, 4})));
  CHECK_EQ(fetched(sent(floats({0, 2}), g_host2)).numel(), int64_t{0});
  Attrs absent;
  absent.add(code_of({g_host2.kind, 9}));
  CHECK_FAILS(Device, "has no host2:9", dispatch(OpId::to_device, {&x, 1}, absent));
}

void test_what_does_not_go_together() {
  const Tensor x = floats({4});
  const Tensor mixed[] = {sent(x, g_host2), x};
  CHECK_FAILS(Device, "one device, got host2:1 and cpu", dispatch(OpId::add, mixed));
  const Tensor others[] = {mixed[0], sent(x, {g_host2.kind, 0})};
  CHECK_FAILS(Device, "got host2:1 and host2:0", dispatch(OpId::add, others));
  CHECK_FAILS(NotImplemented, "erf: no kernel on host2:1", dispatch(OpId::erf, {mixed, 1}));
  CHECK_FAILS(Device, "out is on cpu, the operands on host2:1",
              dispatch_into(OpId::exp, {mixed, 1}, {}, x));
  const Tensor zero = sent(Tensor::scalar(int64_t{0}), g_host2);
  const Tensor ints[] = {cast(mixed[0], DType::Int64), zero};
  // What the CPU's kernel raises comes through both interfaces.
  CHECK_FAILS(Runtime, "zero", dispatch(OpId::floor_divide, ints));
}

void test_its_memory_has_an_end() {
  memory::cache_of(g_host2).empty_cache();
  const Tensor most = Tensor::empty(Dims{200000}, DType::Float32, g_host2);
  CHECK_FAILS(OutOfMemory, "host2:1 has no more",
              Tensor::empty(Dims{200000}, DType::Float32, g_host2));
  const Tensor other = Tensor::empty(Dims{200000}, DType::Float32, {g_host2.kind, 0});
  CHECK_EQ(memory::cache_of(g_host2).statistics().live_blocks, int64_t{1});
}

void test_threads_share_it() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 100; ++k) {
        const Buffer buffer = memory::cache_of(g_host2).allocate(300);
        memory::cache_of(g_host2).release(buffer);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(memory::cache_of(g_host2).statistics().live_blocks, int64_t{0});
}

}  // namespace

int main() {
  cpu::register_cpu();
  test_kinds_have_names();
  test_the_runtime_of_the_cpu();
  test_buffers_are_used_again();
  test_what_is_kept_goes_before_memory_is_short();
  test_a_library_that_brings_a_device();
  test_the_host_cannot_read_it();
  test_operations_run_on_it();
  test_tensors_are_made_and_moved();
  test_what_does_not_go_together();
  test_its_memory_has_an_end();
  test_threads_share_it();
  return test::summary();
}
