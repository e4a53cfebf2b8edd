#include "gpu/driver.h"

#include <memory>

#include "core/base/backend_error.h"
#include "core/memory/device_cache.h"
#include "core/ops/ops.h"

namespace tinyt::gpu {

namespace {

constexpr size_t kFaultWords = 4;

}  // namespace

void Driver::copy(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                  size_t bytes) {
  if (bytes == 0) return;
  if (from.handle != nullptr && to.handle != nullptr && from.device != to.device) {
    carry_faults(from.device.index, to.device.index);
    return copy_to_peer(to, to_place, from, from_place, bytes);
  }
  copy_bytes(to, to_place, from, from_place, bytes);
  if (to.handle == nullptr) raise_faults(from.device.index, "to_device");
}

void Driver::copy_to_peer(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                          size_t bytes) {
  const auto host = std::make_unique<char[]>(bytes);
  const Buffer between{.host = host.get(), .bytes = bytes};
  copy_bytes(between, 0, from, from_place, bytes);
  copy_bytes(to, to_place, between, 0, bytes);
}

void Driver::synchronise(int index) {
  wait(index);
  raise_faults(index, "synchronize");
}

const Buffer& Driver::faults(int index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Faults& found = faults_[index];
  if (found.words.handle == nullptr) found.words = new_faults(index);
  return found.words;
}

void Driver::expect_faults(int index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_[index].may_be = true;
}

// What is read on the second device may come from what the first one has found.
void Driver::carry_faults(int from, int to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = faults_.find(from);
  if (it == faults_.end()) return;
  std::set<int> sources = it->second.others;
  if (it->second.may_be) sources.insert(from);
  sources.erase(to);
  if (!sources.empty()) faults_[to].others.merge(sources);
}

// Zeros. They stay for good and are no tensor's, so they are not counted with these.
Buffer Driver::new_faults(int index) {
  constexpr size_t kBytes = kFaultWords * sizeof(int64_t);
  Buffer words = allocate(kBytes, index);
  if (words.handle == nullptr) {
    memory::cache_of(device_at(index)).empty_cache();
    words = allocate(kBytes, index);
  }
  if (words.handle == nullptr)
    fail_in_backend(ErrorKind::OutOfMemory, "memory: ", name_of(device_at(index)),
                    " has no more, asked for ", kBytes, " bytes");
  words.device = device_at(index);
  try {
    fill(words, 0, kBytes, 0);
  } catch (...) {
    free(words);
    throw;
  }
  return words;
}

void Driver::raise_faults(int index, const char* looked) {
  std::set<int> others;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = faults_.find(index);
    if (it == faults_.end()) return;
    others = it->second.others;
  }
  for (const int other : others) {
    raise_own_faults(other, looked);
    const std::lock_guard<std::mutex> lock(mutex_);
    faults_[index].others.erase(other);
  }
  raise_own_faults(index, looked);
}

void Driver::raise_own_faults(int index, const char* looked) {
  int64_t words[kFaultWords] = {};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = faults_.find(index);
    if (it == faults_.end() || !it->second.may_be) return;
    const Buffer host{.host = words, .bytes = sizeof words};
    copy_bytes(host, 0, it->second.words, 0, sizeof words);
    if (words[0] != 0) fill(it->second.words, 0, sizeof words, 0);
    it->second.may_be = false;  // looked at, unless the device has failed
  }
  if (words[0] == 0) return;
  const auto op = static_cast<OpId>(words[0] - 1);
  // What the host has called is named in front, and is not what was wrong.
  fail(ErrorKind::Index, looked, ": an earlier operation, ",
       op == OpId::linear_index ? "index" : name_of(op), ": index ", words[1],
       " is out of range for dimension ", words[2], " of size ", words[3]);
}

void need_turns(OpId op, Device device, int64_t turns) {
  const int64_t most = driver_of(device).launch_model(device.index).most_turns;
  if (turns > most)
    fail(ErrorKind::NotImplemented, name_of(op), ": a thread would take ", turns, " elements, and ",
         name_of(device), " ends its loops after ", most);
}

}  // namespace tinyt::gpu
