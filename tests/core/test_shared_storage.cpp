// Segments that tensors share, from several threads at once.
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"
#include "core/ops/dispatch.h"
#include "core/tensor/shared_storage.h"
#include "cpu/register.h"

namespace {

using namespace tinyt;

Tensor made(int64_t n, float value) {
  Tensor x = Tensor::empty({&n, 1}, DType::Float32);
  for (int64_t i = 0; i < n; ++i) x.ptr<float>()[i] = value;
  return x;
}

void test_moving() {
  const Tensor x = made(1000, 2);
  const Tensor view = x.view(x.shape(), x.strides(), 0);
  CHECK_EQ(shared_descriptor(x), -1);
  move_to_shared(x);
  const int descriptor = shared_descriptor(view);
  CHECK(descriptor >= 0);
  CHECK_EQ(view.ptr<float>()[999], 2.0F);
  move_to_shared(view);  // already there
  CHECK_EQ(shared_descriptor(x), descriptor);
  const Tensor bytes = map_shared(::dup(descriptor), 4000);
  CHECK_EQ(&bytes.storage(), &x.storage());  // of one process, one storage
}

void test_another_process_writes() {
  const Tensor x = made(10, 1);
  move_to_shared(x);
  const int told = test::in_child([&] {
    x.ptr<float>()[3] = 7;
    return 0;
  });
  CHECK_EQ(told, 0);
  CHECK_EQ(x.ptr<float>()[3], 7.0F);
}

// A segment is found while its last tensor goes: each mapping is a live one, and all see its bytes.
void test_threads() {
  const Tensor x = made(16, 5);
  move_to_shared(x);
  const int descriptor = ::dup(shared_descriptor(x));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const Tensor mapped = map_shared(::dup(descriptor), 64);
        if (mapped.ptr<float>()[15] != 5) ++wrong;
        const Tensor own = made(4, 1);
        move_to_shared(own);
        if (own.ptr<float>()[3] != 1) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
  ::close(descriptor);
}

void test_what_is_no_segment() {
  int ends[2];
  CHECK_EQ(::pipe(ends), 0);
  // The descriptor is taken over in any case.
  CHECK_FAILS(Runtime, "cannot map a segment", map_shared(ends[0], 100));
  CHECK_EQ(::close(ends[0]), -1);
  ::close(ends[1]);
}

}  // namespace

int main() {
  cpu::register_cpu();
  test_moving();
  test_another_process_writes();
  test_threads();
  test_what_is_no_segment();
  return tinyt::test::summary();
}
