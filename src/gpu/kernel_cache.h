// Compiled kernels on disk, so that a later process need not compile them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/fork.h"

namespace tinyt::gpu {

// The key of a binary: all that it depends on, each part under its name.
std::string kernel_key(std::initializer_list<std::pair<std::string_view, std::string_view>> parts);

// A folder with one file a binary. A file's name is a hash of the key; the file has the whole key
// and a checksum. The folder and its files are the user's own, and nobody else may write to them:
// others are not used. What is damaged or cannot be read is as if it were not there, and what
// cannot be written is left out: nothing fails. Safe from any thread, and from several processes.
class KernelCache {
 public:
  // Files that were used longest ago go where all have more than `most_bytes`. Nothing is kept in a
  // folder of no name.
  KernelCache(std::string folder, uint64_t most_bytes);

  std::optional<std::string> find(std::string_view key) const noexcept;
  // In the place of what was there under that key.
  void keep(std::string_view key, std::string_view binary) noexcept;
  // Why the folder is not used; empty where it is. The folder is made where there is none.
  std::string refusal() const noexcept;

  // That of the process: in the folder that TINYT_KERNEL_CACHE_DIR names (none where it is empty),
  // else in "tinyt/kernels" in the user's folder for caches.
  static KernelCache& instance();
  // What the user is told, once: a folder that was named is not used. Else empty.
  static std::string take_warning();

 private:
  std::string path_of(std::string_view key) const;
  void write(std::string_view key, std::string_view binary);
  void trim(uint64_t written);

  const std::string folder_;
  const uint64_t most_bytes_;
  RunMutex mutex_;      // of what follows
  uint64_t bytes_ = 0;  // of all files, about
  bool is_counted_ = false;
};

}  // namespace tinyt::gpu
