#include "core/program/program.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/fused/tile_builder.h"

#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "core/base/parallel.h"
#include "core/program/program_profile.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/fused/tile_builder.h"
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
  const Tensor scale = graph.cell(graph.scalars().give(1));
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
    const std::lock_guard lock(graph.scalars());
    graph.scalars().table().guard_on(0);
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
  const DType own = cpu::kernel_dtype(OpId::add, DType::BFloat16, false);
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
    cpu::TileBuilder builder(program.plan().regions.at(0).meaning);
    builder.run();
    for (const cpu::TileProgram::Step& step : builder.tiles.steps)
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
  return std::memcmp(a.host_data(), b.host_data(), static_cast<size_t>(a.numel()) * a.itemsize()) ==
         0;
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

// The same geometry in memory that the host may not read.
Tensor hidden(const Tensor& x) {
  Tensor out = geometry_of(x);
  out.storage().buffer.handle = out.impl();
  return out;
}

void record_kernels(Graph& graph, const Tensor& x, const Tensor& w) {
  const Tensor turned = x.view(Dims{x.size(1), x.size(0)}, Dims{1, x.size(1)}, 0);
  const auto call = [&](OpId op, std::initializer_list<Tensor> inputs, const Attrs& attrs) {
    graph.add_output(dispatch(op, {inputs.begin(), inputs.size()}, attrs).first);
  };
  constexpr int64_t kOnes[] = {1, 1}, kFirst[] = {0};
  const std::span<const int64_t> ones(kOnes), first(kFirst);
  const Tensor image =
      x.view(Dims{1, 4, x.size(0) / 4, x.size(1)}, Dims{x.numel(), x.numel() / 4, x.size(1), 1}, 0);
  const Tensor taps = w.view(Dims{8, 4, 3, 3}, Dims{36, 9, 3, 1}, 0);
  const Tensor heads = x.view(Dims{1, 1, x.size(0), 20}, Dims{0, 0, x.size(1), 1}, 0);
  const Tensor no_mask = Tensor::scalar(0.0);
  call(OpId::matmul, {x, w}, {});
  call(OpId::matmul, {turned, x}, {});
  call(OpId::sort, {turned}, Attrs().add(int64_t{-1}).add(int64_t{0}));
  call(OpId::sum, {turned}, Attrs().add(first).add(int64_t{0}));
  call(OpId::argmax, {turned}, Attrs().add(int64_t{0}).add(int64_t{0}));
  call(OpId::softmax, {turned}, Attrs().add(int64_t{1}));
  call(OpId::conv, {image, taps}, Attrs().add(ones).add(ones).add(ones).add(int64_t{1}));
  call(OpId::attention, {heads, heads, heads, no_mask}, Attrs().add(int64_t{1}).add_float(0.5));
}

// Kernels state their workspace without their operands' memory.
void test_workspace_is_of_geometry() {
  Graph graph;
  set_recording(&graph);
  const Tensor x = graph.add_argument(matrix(400, 600, 1));
  record_kernels(graph, x, graph.add_argument(matrix(600, 200, 2)));
  set_recording(nullptr);
  graph.finish();
  const Program program(graph);
  const Plan& plan = program.plan();
  const FusionTarget& target = *find_fusion_target({});
  int taken = 0;
  for (const Plan::Step& step : plan.steps) {
    if (step.kind != Plan::Kind::Op) continue;
    std::vector<Tensor> in, out;
    for (const Tensor& t : plan.inputs(step)) in.push_back(hidden(t));
    for (const Tensor& t : plan.outputs(step)) out.push_back(hidden(t));
    const size_t bytes = target.workspace({step.op, in, out, plan.attrs_of(step), step.compute});
    CHECK_EQ(bytes, plan.scratch_of(step));
    taken += bytes > 0;
  }
  CHECK(taken >= 5);
}

// (x * 2 + y) in halves, then its rows' sums: what its steps over tiles give is what it means.
void test_a_fused_kernel_means_its_operations() {
  const auto cast_to = [](const Tensor& t, DType dtype) { return cast(t, dtype); };
  Graph graph;
  set_recording(&graph);
  const Tensor x = graph.add_argument(cast(matrix(5, 70, 1), DType::Float16));
  const Tensor y = graph.add_argument(matrix(5, 70, 2));
  const Tensor twice = apply(OpId::mul, x, Tensor::scalar(2.0));
  const Tensor both = apply(OpId::add, twice, cast_to(y, DType::Float16));
  const int64_t last = 1;
  const Tensor sum = dispatch(OpId::sum, {&both, 1}, Attrs().add({&last, 1}).add(0)).first;
  graph.add_output(both);
  graph.add_output(sum);
  set_recording(nullptr);
  graph.finish();
  Program program(graph);
  CHECK_EQ(program.plan().regions.size(), size_t{1});
  const FusedKernel& kernel = program.plan().regions.at(0).meaning;
  CHECK_EQ(kernel.stores.size(), size_t{2});
  const Tensor given[] = {cast(matrix(5, 70, 3), DType::Float16), matrix(5, 70, 4)};
  const auto results = program.run(given, {}, {});
  std::vector<Tensor> loads;
  for (int v = 0; v < kernel.loads; ++v)
    loads.push_back(kernel.values[v].dtype == DType::Float16   ? given[0]
                    : kernel.values[v].dtype == DType::Float32 ? given[1]
                                                               : Tensor::scalar(2.0));
  const std::vector<Tensor> meant = interpret(kernel, loads);
  CHECK(same_bits(cast(meant.at(0), DType::Float32), cast(results->at(0), DType::Float32)));
  CHECK(same_bits(cast(meant.at(1).view(Dims{5}, Dims{1}, 0), DType::Float32),
                  cast(results->at(1), DType::Float32)));

  const auto fails = [&](auto&& spoil) {
    FusedKernel other = kernel;
    spoil(other);
    try {
      verify(other);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  CHECK(!fails([](FusedKernel&) {}));
  CHECK(fails([](FusedKernel& k) { k.ops[0].in[0].value = k.made_by(0); }));
  CHECK(fails([](FusedKernel& k) { k.ops[0].in.push_back({0, false}); }));
  CHECK(fails([](FusedKernel& k) { k.values.back().dtype = DType::Bool; }));
  CHECK(fails([](FusedKernel& k) { k.values.back().per_row = false; }));
  CHECK(fails([](FusedKernel& k) { k.stores[0] = 0; }));
  CHECK(fails([](FusedKernel& k) { k.values.pop_back(); }));
}

int main() {
  cpu::register_cpu();
  test_programs_share_numbers();
  test_held_numbers();
  test_halves_of_a_region();
  test_sides();
  test_workspace_is_of_geometry();
  test_a_fused_kernel_means_its_operations();
  return tinyt::test::summary();
}
