#include "cuda/launch_log.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tinyt::cuda {

void LaunchLog::mark_done(uint64_t launched) {
  uint64_t before = done_.load(std::memory_order_relaxed);
  while (before < launched &&
         !done_.compare_exchange_weak(before, launched, std::memory_order_relaxed)) {
  }
}

std::string LaunchLog::suspects() const {
  constexpr size_t kNamed = 8;
  const uint64_t end = launched(), done = done_.load(std::memory_order_relaxed),
                 begin = std::max(done, end - std::min(end, kKept));
  std::vector<std::string_view> names;  // the last one first
  for (uint64_t number = end; number > begin && names.size() <= kNamed; --number) {
    const char* found = operations_[(number - 1) % kKept].load(std::memory_order_relaxed);
    const std::string_view name = found != nullptr ? found : "a kernel of no operation";
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (names.empty()) return "";
  const bool is_whole = names.size() <= kNamed && begin == done;
  if (names.size() > kNamed) names.pop_back();
  if (names.size() == 1 && is_whole) return ", in " + std::string(names[0]);
  std::string text = ", in one of the operations since the last wait, the last one first: ";
  for (size_t i = 0; i < names.size(); ++i) text.append(i > 0 ? ", " : "").append(names[i]);
  return text + (is_whole ? "" : ", and earlier ones") +
         " (TINYT_CUDA_LAUNCH_BLOCKING=1 in the environment tells which)";
}

}  // namespace tinyt::cuda
