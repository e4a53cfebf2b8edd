#include "core/program/machine.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/ops/kernels.h"

namespace tinyt {

namespace {

// The least seconds of one call, of several batches that each last as long as a clock can tell.
template <class F>
double least_seconds(F&& call) {
  using Clock = std::chrono::steady_clock;
  constexpr double kBatch = 2e-4;
  constexpr int kBatches = 8;
  double least = 1e30;
  int64_t calls = 1;
  call();  // the memory is there
  for (int batch = 0; batch < kBatches;) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < kBatch) {
      calls *= 2;
      continue;
    }
    least = std::min(least, seconds / static_cast<double>(calls));
    ++batch;
  }
  return least;
}

Tensor zeros(int64_t rows, int64_t cols, DType dtype) {
  Tensor x = Tensor::empty(Dims{rows, cols}, dtype);
  kernels_of({}).copy_into(Tensor::scalar(0.0), x);
  return x;
}

}  // namespace

double copy_rate(size_t bytes) {
  const int64_t half = std::max<int64_t>(static_cast<int64_t>(bytes) / 2, 1);
  const Tensor from = zeros(1, half, DType::UInt8), to = zeros(1, half, DType::UInt8);
  return 2.0 * static_cast<double>(half) /
         least_seconds([&] { kernels_of({}).copy_into(from, to); });
}

double product_rate(DType dtype) {
  constexpr int64_t kSide = 512;
  const bool bytes = dtype == DType::Int8;
  require(bytes || info(dtype).category == Category::Float, ErrorKind::DType,
          "product_rate: expected a floating dtype or int8, got ", name_of(dtype));
  const OpId op = bytes ? OpId::int_mm : OpId::matmul;
  const Tensor in[] = {zeros(kSide, kSide, dtype), zeros(kSide, kSide, dtype)};
  const Tensor out[] = {zeros(kSide, kSide, bytes ? DType::Int32 : dtype)};
  const Attrs none{};
  const Kernel kernel = kernels_of({}).row(op);
  return 2.0 * kSide * kSide * kSide / least_seconds([&] { kernel({op, in, out, none, dtype}); });
}

}  // namespace tinyt
