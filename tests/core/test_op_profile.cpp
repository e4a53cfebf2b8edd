// Profiles that begin and end while several threads work.
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"
#include "core/ops/dispatch.h"
#include "core/ops/op_profile.h"
#include "cpu/register.h"

namespace {

using namespace tinyt;

Tensor ones(int64_t n) {
  Tensor x = Tensor::empty({&n, 1}, DType::Float32);
  for (int64_t i = 0; i < n; ++i) x.ptr<float>()[i] = 1;
  return x;
}

void test_events() {
  const Tensor in[] = {ones(8), ones(8)};
  start_profile(true);
  const Tensor sum = dispatch(OpId::add, in).first;
  assign(sum, in[0]);
  const std::vector<OpEvent> events = stop_profile();
  CHECK_EQ(events.size(), size_t{2});
  CHECK(events[0].name == "add" && events[1].name == "copy_");
  CHECK(events[0].begin <= events[0].end && events[0].end <= events[1].begin);
  CHECK_EQ(events[0].shapes.size(), size_t{2});
  CHECK_EQ(events[0].shapes[1][0], 8);
  CHECK_EQ(events[0].bytes, 32);
  CHECK_EQ(events[0].thread, profile_thread());
  CHECK_EQ(sum.ptr<float>()[7], 1.0F);
}

void test_errors() {
  start_profile(false);
  CHECK_FAILS(Runtime, "on already", start_profile(false));
  stop_profile();
  CHECK_FAILS(Runtime, "no profile is on", stop_profile());
}

void test_threads() {
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!ends) {
        const Tensor in[] = {ones(16), ones(16)};
        if (dispatch(OpId::add, in).first.ptr<float>()[15] != 2) ++wrong;
      }
    });
  for (int i = 0; i < 50; ++i) {
    start_profile(i % 2 == 0);
    const Tensor in[] = {ones(4), ones(4)};
    dispatch(OpId::mul, in);
    bool found = false;
    for (const OpEvent& event : stop_profile()) {
      found |= event.name == "mul";
      if (event.begin > event.end) ++wrong;
    }
    if (!found) ++wrong;
  }
  ends = true;
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
}

}  // namespace

int main() {
  cpu::register_cpu();
  test_events();
  test_errors();
  test_threads();
  return tinyt::test::summary();
}
