#include "core/program/program.h"

#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "core/base/parallel.h"
#include "core/program/program_profile.h"
#include "cpu/register.h"

namespace {

using namespace tinyt;

constexpr int64_t kElements = 5000;

Tensor ones() {
  Tensor x = Tensor::empty(Dims{kElements}, DType::Float32);
  for (int64_t i = 0; i < kElements; ++i) x.ptr<float>()[i] = 1;
  return x;
}

Tensor apply(OpId op, const Tensor& a, const Tensor& b) {
  const Tensor inputs[] = {a, b};
  return dispatch(op, inputs, {}).first;
}

// x * scale, and later twice that plus the scale.
void record(Graph& graph, const Tensor& x) {
  set_recording(&graph);
  const Tensor scale = graph.cell(graph.numbers().give(1));
  const Tensor now = apply(OpId::mul, x, scale);
  graph.add_output(now);
  graph.set_mark();
  graph.add_output(apply(OpId::add, apply(OpId::add, now, now), scale));
  set_recording(nullptr);
  graph.finish();
}

bool all_are(const Tensor& x, float value) {
  bool good = true;
  for (int64_t i = 0; i < kElements; ++i) good = good && x.ptr<float>()[i] == value;
  return good;
}

// Each run of either program reads the numbers that it was given, and tells them.
void test_programs_share_numbers() {
  set_num_threads(2);
  Graph graph;
  record(graph, ones());
  Program first(graph, Plan::Part::First), later(graph, Plan::Part::Later);
  const auto work = [&](double scale) {
    for (int i = 0; i < 200; ++i) {
      const double given[] = {scale};
      std::vector<double> numbers;
      const auto now = first.run({}, given, {}, nullptr, &numbers);
      CHECK_EQ(numbers.at(0), scale);
      const auto then = later.run({&now->back(), 1}, given, {});
      CHECK(all_are(now->front(), static_cast<float>(scale)));
      CHECK(all_are(then->front(), static_cast<float>(3 * scale)));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

// A number that is held decides whether a program stands for a call, while others run.
void test_held_numbers() {
  Graph graph;
  record(graph, ones());
  Program first(graph, Plan::Part::First);
  {
    const std::lock_guard lock(graph.numbers());
    graph.numbers().hold(0);
  }
  const double same[] = {1}, other[] = {2};
  std::thread runs([&] {
    for (int i = 0; i < 100; ++i) CHECK(first.run({}, same, {}).has_value());
  });
  for (int i = 0; i < 100; ++i) {
    CHECK(first.holds(same));
    CHECK(!first.holds(other));
    CHECK(!first.run({}, other, {}).has_value());
  }
  runs.join();
}

// Few operations on halves run in their own kernels; between many, values stay float32.
void test_halves_of_a_region() {
  const DType own = fusion_target_of({}).kernel_dtype(OpId::add, DType::BFloat16, false);
  for (int additions = 2; additions <= 4; ++additions) {
    Graph graph;
    set_recording(&graph);
    const Tensor x = Tensor::empty(Dims{kElements}, DType::BFloat16);
    Tensor sum = x;
    for (int i = 0; i < additions; ++i) sum = apply(OpId::add, sum, x);
    graph.add_output(sum);
    set_recording(nullptr);
    graph.finish();
    const Program program(graph);
    CHECK_EQ(program.plan().regions.size(), size_t{1});
    for (const TileProgram::Step& step : program.plan().regions.at(0).tiles.steps)
      if (step.op == OpId::add) CHECK(step.dtype == (additions < 3 ? own : DType::Float32));
  }
}

Tensor matrix(int64_t rows, int64_t cols, int64_t seed) {
  Tensor x = Tensor::empty(Dims{rows, cols}, DType::Float32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.ptr<float>()[i] = static_cast<float>((i * 37 + seed) % 101 - 50) / 64;
  return x;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.numel()) * a.itemsize()) == 0;
}

// Two chains: relu(x w) and its product with w, for each of two matrices.
void record_branches(Graph& graph, const Tensor& x, const Tensor& a, const Tensor& b) {
  set_recording(&graph);
  const Tensor input = graph.add_argument(x);
  std::vector<Tensor> made;
  for (const Tensor& w : {a, b}) {
    const Tensor product = apply(OpId::matmul, input, w);
    made.push_back(dispatch(OpId::relu, {&product, 1}, {}).first);
    made.push_back(apply(OpId::matmul, made.back(), w));
  }
  for (const Tensor& y : made) graph.add_output(y);
  set_recording(nullptr);
  graph.finish();
}

// Steps that run side by side: the bits of one thread, for several runs at once, observed or not.
void test_sides() {
  set_num_threads(2);
  const Tensor x = matrix(64, 96, 1), a = matrix(96, 96, 2), b = matrix(96, 96, 3);
  Graph graph;
  record_branches(graph, x, a, b);
  Program program(graph);
  CHECK(!program.plan().groups.empty());
  set_num_threads(1);
  const auto expected = program.run({&x, 1}, {}, {});
  set_num_threads(3);
  std::mutex mutex;  // of a program's measures, which are of one run
  Measures measures(program);
  const auto work = [&] {
    for (int i = 0; i < 100; ++i) {
      std::unique_lock lock(mutex, std::try_to_lock);
      const auto found = program.run({&x, 1}, {}, {}, lock ? &measures : nullptr);
      for (size_t r = 0; r < expected->size(); ++r) CHECK(same_bits((*found)[r], (*expected)[r]));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  const std::vector<size_t> held = program.plan().held_bytes();
  CHECK(measures.complete());
  for (const Measures::Step& step : measures.steps()) CHECK(step.begin <= step.end);
  CHECK_EQ(measures.steps().size(), held.size());
}

}  // namespace

int main() {
  cpu::register_cpu();
  test_programs_share_numbers();
  test_held_numbers();
  test_halves_of_a_region();
  test_sides();
  return tinyt::test::summary();
}
