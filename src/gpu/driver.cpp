#include "gpu/driver.h"

#include "core/base/error.h"
#include "core/ops/ops.h"

namespace tinyt::gpu {

namespace {

constexpr size_t kFaultWords = 4;

}  // namespace

void Driver::copy(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                  size_t bytes) {
  copy_bytes(to, to_place, from, from_place, bytes);
  if (to.handle == nullptr) raise_faults(from.device.index);
}

void Driver::synchronise(int index) {
  wait(index);
  raise_faults(index);
}

const Buffer& Driver::faults(int index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Faults& found = faults_[index];
  if (found.words.handle == nullptr) {
    constexpr size_t kBytes = kFaultWords * sizeof(int64_t);
    found.words = allocate(kBytes, index);
    require(found.words.handle != nullptr, ErrorKind::OutOfMemory,
            "memory: the device has none for faults");
    found.words.device.index = static_cast<uint8_t>(index);
    fill(found.words, 0, kBytes, 0);
  }
  found.may_be = true;
  return found.words;
}

void Driver::raise_faults(int index) {
  int64_t words[kFaultWords] = {};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = faults_.find(index);
    if (it == faults_.end() || !it->second.may_be) return;
    it->second.may_be = false;
    const Buffer host{.host = words, .bytes = sizeof words};
    copy_bytes(host, 0, it->second.words, 0, sizeof words);
    if (words[0] != 0) fill(it->second.words, 0, sizeof words, 0);
  }
  if (words[0] == 0) return;
  const auto op = static_cast<OpId>(words[0] - 1);
  // What the host has called is named in front.
  fail(ErrorKind::Index, "to_device: ", op == OpId::linear_index ? "index" : name_of(op),
       ": index ", words[1], " is out of range for dimension ", words[2], " of size ", words[3]);
}

}  // namespace tinyt::gpu
