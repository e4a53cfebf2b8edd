#include "gpu/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#if !defined(_WIN32)
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#endif

#include "gpu/sha256.h"

namespace tinyt::gpu {

namespace {

constexpr uint64_t kMostCacheBytes = uint64_t{256} << 20;
constexpr std::string_view kCacheFormat = "1", kEnding = ".kernel", kUnfinished = ".unfinished-";

// In front of the key and the binary.
struct FileHeader {
  char magic[8] = {'t', 'i', 'n', 'y', 't', 'k', 'r', 'n'};
  uint64_t key_bytes = 0, binary_bytes = 0;
  Digest checksum{};  // of the two lengths, the key and the binary
};

Digest checksum_of(std::string_view key, std::string_view binary) {
  const uint64_t lengths[] = {key.size(), binary.size()};
  return Sha256()
      .add({reinterpret_cast<const char*>(lengths), sizeof lengths})
      .add(key)
      .add(binary)
      .finish();
}

// The binary in a file's bytes, where it is that of the key.
std::optional<std::string> binary_in(const std::string& bytes, std::string_view key) {
  FileHeader header, expected;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view rest = std::string_view(bytes).substr(sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 ||
      header.key_bytes != key.size() || rest.size() < key.size() ||
      header.binary_bytes != rest.size() - key.size() || rest.substr(0, key.size()) != key)
    return std::nullopt;
  const std::string_view binary = rest.substr(key.size());
  if (header.checksum != checksum_of(key, binary)) return std::nullopt;
  return std::string(binary);
}

std::string user_folder() {
  if (const char* named = std::getenv("TINYT_KERNEL_CACHE_DIR")) {
    std::error_code failed;
    const auto whole = std::filesystem::absolute(named, failed);
    return *named == '\0' || failed ? "" : whole.string();
  }
  const char* caches = std::getenv("XDG_CACHE_HOME");
  if (caches && *caches == '/') return std::string(caches) + "/tinyt/kernels";
  const char* home = std::getenv("HOME");
  if (!home || *home != '/') return "";
#if defined(__APPLE__)
  return std::string(home) + "/Library/Caches/tinyt/kernels";
#else
  return std::string(home) + "/.cache/tinyt/kernels";
#endif
}

}  // namespace

std::string kernel_key(std::initializer_list<std::pair<std::string_view, std::string_view>> parts) {
  std::string key = "tinyt kernel " + std::string(kCacheFormat) + "\n";
  for (const auto& [name, text] : parts) {
    key.append(name).append(" ").append(std::to_string(text.size())).append("\n");
    key.append(text).append("\n");
  }
  return key;
}

KernelCache::KernelCache(std::string folder, uint64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {}

KernelCache& KernelCache::instance() {
  static KernelCache& cache = *new KernelCache(user_folder(), kMostCacheBytes);
  return cache;
}

std::string KernelCache::take_warning() {
  static std::atomic<bool> taken{false};
  const char* named = std::getenv("TINYT_KERNEL_CACHE_DIR");
  if (named == nullptr || *named == '\0') return "";
  const std::string why = instance().refusal();
  if (why.empty() || taken.exchange(true)) return "";
  return "device: the kernel cache " + std::string(named) + " is not used: " + why;
}

std::string KernelCache::path_of(std::string_view key) const {
  std::string path = folder_ + "/" + to_hex(Sha256().add(key).finish());
  return path.append(kEnding);
}

#if defined(_WIN32)

std::optional<std::string> KernelCache::find(std::string_view) const noexcept { return {}; }
void KernelCache::keep(std::string_view, std::string_view) noexcept {}
std::string KernelCache::refusal() const noexcept { return "not on Windows yet"; }

#else

namespace {

class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile() {
    if (number_ >= 0) ::close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// The user's, and nobody else may write to it.
bool is_private(const struct stat& facts) {
  return facts.st_uid == ::geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool read_all(int file, std::string& to) {
  for (size_t done = 0; done < to.size();) {
    const ssize_t n = ::read(file, to.data() + done, to.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// With the folders that it lies in, for the user alone where they are new.
void make_folder(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), 0700);
    if (end == std::string::npos) return;
  }
}

}  // namespace

std::string KernelCache::refusal() const noexcept {
  try {
    if (folder_.empty()) return "none is named";
    struct stat facts;
    if (::stat(folder_.c_str(), &facts) != 0) {
      make_folder(folder_);
      if (::stat(folder_.c_str(), &facts) != 0) return std::strerror(errno);
    }
    if (!S_ISDIR(facts.st_mode)) return "it is no folder";
    if (!is_private(facts)) return "others may write to it";
    return "";
  } catch (...) {
    return "no memory";  // which fits in a string itself
  }
}

std::optional<std::string> KernelCache::find(std::string_view key) const noexcept {
  try {
    if (!refusal().empty()) return std::nullopt;
    const OpenFile file(::open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat facts;
    if (!file.is_open() || ::fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        !is_private(facts) || static_cast<uint64_t>(facts.st_size) > most_bytes_)
      return std::nullopt;
    std::string bytes(static_cast<size_t>(facts.st_size), '\0');
    if (!read_all(file.number(), bytes)) return std::nullopt;
    ::futimens(file.number(), nullptr);  // used last
    return binary_in(bytes, key);
  } catch (...) {
    return std::nullopt;
  }
}

void KernelCache::keep(std::string_view key, std::string_view binary) noexcept {
  try {
    if (!binary.empty() && refusal().empty()) write(key, binary);
  } catch (...) {
  }
}

// Under another name first, so that a file is whole from the moment that it has its own.
void KernelCache::write(std::string_view key, std::string_view binary) {
  FileHeader header;
  header.key_bytes = key.size();
  header.binary_bytes = binary.size();
  header.checksum = checksum_of(key, binary);
  const uint64_t bytes = sizeof header + key.size() + binary.size();
  if (bytes > most_bytes_) return;
  std::string name = folder_ + "/" + std::string(kUnfinished) + "XXXXXX";
  bool is_whole = false;
  {
    const OpenFile file(::mkstemp(name.data()));  // for the user alone
    if (!file.is_open()) return;
    is_whole = write_all(file.number(), {reinterpret_cast<const char*>(&header), sizeof header}) &&
               write_all(file.number(), key) && write_all(file.number(), binary);
  }
  if (!is_whole || ::rename(name.c_str(), path_of(key).c_str()) != 0) {
    ::unlink(name.c_str());
    return;
  }
  trim(bytes);
}

// Files go, those first that were used longest ago, until a quarter of the room is free; and what a
// process that has ended did not finish.
void KernelCache::trim(uint64_t written) {
  const std::lock_guard<RunMutex> lock(mutex_);
  bytes_ += written;
  if (is_counted_ && bytes_ <= most_bytes_) return;
  struct Found {
    struct timespec used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<Found> files;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir(folder_.c_str()), ::closedir);
  if (!all) return;
  bytes_ = 0;
  constexpr time_t kHour = 3600;
  while (const dirent* entry = ::readdir(all.get())) {
    const std::string_view name = entry->d_name;
    const bool is_unfinished = name.starts_with(kUnfinished);
    struct stat facts;
    std::string path = folder_ + "/" + entry->d_name;
    if ((!is_unfinished && !name.ends_with(kEnding)) || ::lstat(path.c_str(), &facts) != 0)
      continue;
    if (is_unfinished) {
      if (facts.st_mtime < ::time(nullptr) - kHour) ::unlink(path.c_str());
      continue;
    }
    bytes_ += static_cast<uint64_t>(facts.st_size);
#if defined(__APPLE__)
    files.push_back({facts.st_mtimespec, static_cast<uint64_t>(facts.st_size), std::move(path)});
#else
    files.push_back({facts.st_mtim, static_cast<uint64_t>(facts.st_size), std::move(path)});
#endif
  }
  is_counted_ = true;
  if (bytes_ <= most_bytes_) return;
  std::ranges::sort(files, [](const Found& a, const Found& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Found& file : files) {
    if (bytes_ <= most_bytes_ / 4 * 3) return;
    if (::unlink(file.path.c_str()) == 0) bytes_ -= file.bytes;
  }
}

#endif

}  // namespace tinyt::gpu
