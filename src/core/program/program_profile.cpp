#include "core/program/program_profile.h"

#include <algorithm>
#include <mutex>

#include "core/ops/fallback.h"
#include "core/ops/to_device.h"

namespace tinyt {

namespace {

constexpr int64_t kValues = 6;

// The first elements along the last dimension, or of all where they are dense.
Tensor head_of(const Tensor& x) {
  const bool dense = x.is_contiguous();
  const int64_t length = dense ? x.numel() : x.numel() == 0 ? 0 : x.size(x.rank() - 1);
  const int64_t step = dense ? 1 : x.stride(x.rank() - 1);
  const int64_t count = std::min(length, kValues);
  return x.view({&count, 1}, {&step, 1}, x.offset());
}

}  // namespace

Measures::Measures(const Program& program) : program_(program) {
  for (const Plan::Step& step : program.plan().steps) {
    steps_.emplace_back();
    for (const Tensor& x : program.plan().outputs(step))
      steps_.back().values.push_back(Tensor::empty(head_of(x).shape(), x.dtype()));
  }
  for (const Tensor& x : program.plan().operands)
    if (x && x.device() != Device{})
      if (auto* cache = &memory::cache_of(x.device());
          std::ranges::find(others_, cache) == others_.end())
        others_.push_back(cache);
}

memory::Statistics Measures::statistics() const {
  memory::Statistics all = memory::statistics();
  for (memory::DeviceCache* other : others_) {
    const memory::Statistics own = other->statistics();
    all.current_bytes += own.current_bytes;
    all.peak_bytes += own.peak_bytes;
  }
  return all;
}

void Measures::reset_peak() const {
  memory::reset_peak();
  for (memory::DeviceCache* other : others_) other->reset_peak();
}

int64_t Measures::now() const {
  const auto passed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
}

void Measures::begin() {
  complete_ = concurrent_ = false;
  threads_.clear();
  bytes_before_ = statistics().current_bytes;
  peak_before_ = memory::statistics().peak_bytes;
  start_ = std::chrono::steady_clock::now();
}

void Measures::before(size_t step) {
  Step& s = steps_[step];
  {
    const std::lock_guard lock(mutex_);
    const auto id = std::this_thread::get_id();
    const auto it = std::find(threads_.begin(), threads_.end(), id);
    s.thread = it - threads_.begin();
    if (it == threads_.end()) threads_.push_back(id);
  }
  if (!concurrent_) {
    reset_peak();
    s.held = statistics().current_bytes - bytes_before_;
  }
  s.begin = now();
}

void Measures::before_group(size_t first, size_t last) {
  reset_peak();
  const int64_t held = statistics().current_bytes - bytes_before_;
  for (size_t step = first; step <= last; ++step) steps_[step].held = held;
  concurrent_ = true;
}

void Measures::after_group(size_t first, size_t last) {
  const int64_t peak = statistics().peak_bytes;
  for (size_t step = first; step <= last; ++step)
    steps_[step].scratch = peak - bytes_before_ - steps_[step].held;
  peak_before_ = std::max(peak_before_, memory::statistics().peak_bytes);
  concurrent_ = false;
}

void Measures::after(size_t step) {
  Step& s = steps_[step];
  s.end = now();
  if (!concurrent_) {
    s.scratch = statistics().peak_bytes - bytes_before_ - s.held;
    peak_before_ = std::max(peak_before_, memory::statistics().peak_bytes);
  }
  const std::span<const Tensor> outputs = program_.plan().outputs(program_.plan().steps[step]);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (s.values[i].numel() > 0) {
      const Tensor head = head_of(outputs[i]);
      if (head.device() == Device{}) {
        copy_into("measure", head, s.values[i]);
      } else {
        copy_to_device({OpId::to_device, {&head, 1}, {&s.values[i], 1}, {}, head.dtype()});
      }
    }
}

void Measures::end(bool ran) noexcept {
  nanoseconds_ = now();
  memory::raise_peak(peak_before_);
  complete_ = ran;
}

int64_t Measures::peak_bytes() const {
  int64_t peak = 0;
  for (const Step& s : steps_) peak = std::max(peak, s.held + s.scratch);
  return peak;
}

}  // namespace tinyt
