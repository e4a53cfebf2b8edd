#include "core/tensor/shared_storage.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/fork.h"

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace tinyt {

#if defined(_WIN32)

void move_to_shared(const Tensor&) {
  fail(ErrorKind::NotImplemented, "share_memory_: not on Windows");
}
int shared_descriptor(const Tensor&) { return -1; }
Tensor map_shared(int, size_t) { fail(ErrorKind::NotImplemented, "share_memory_: not on Windows"); }

#else

namespace {

using FileId = std::pair<uint64_t, uint64_t>;  // device and inode: which segment it is

// What a storage in a segment owns.
struct Segment {
  void* data;
  size_t bytes;
  int descriptor;
  FileId key;
};

// The storages of this process, by segment. One whose last reference goes is still here for a
// moment: whoever finds it takes a reference only if there is one left.
ForkSafeMutex g_shared_mutex;
std::map<FileId, Storage*>& storages() {
  static auto* const known = new std::map<FileId, Storage*>;
  return *known;
}

[[noreturn]] void fail_with_errno(const char* what) {
  fail(ErrorKind::Runtime, "share_memory_: ", what, ": ", std::strerror(errno),
       errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

void unmap(const Segment& segment) {
  ::munmap(segment.data, segment.bytes);
  ::close(segment.descriptor);
}

void release_segment(void* owner) {
  auto* const segment = static_cast<Segment*>(owner);
  {
    const std::lock_guard<ForkSafeMutex> lock(g_shared_mutex);
    const auto it = storages().find(segment->key);
    if (it != storages().end() && it->second->owner == owner) storages().erase(it);
  }
  unmap(*segment);
  delete segment;
}

// A new segment without a name.
int create_segment(size_t bytes) {
#if defined(__linux__)
  // The call itself: older C libraries have no function for it.
  constexpr unsigned kCloseOnExec = 1;
  const auto descriptor = static_cast<int>(::syscall(SYS_memfd_create, "tinyt", kCloseOnExec));
#else
  static std::atomic<int> count{0};
  const std::string name =
      "/tinyt-" + std::to_string(::getpid()) + "-" + std::to_string(count.fetch_add(1));
  const int descriptor = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (descriptor >= 0) {
    ::shm_unlink(name.c_str());
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
#endif
  if (descriptor < 0) fail_with_errno("cannot make a segment");
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    ::close(descriptor);
    fail_with_errno("cannot size a segment");
  }
  return descriptor;
}

// Takes over the descriptor.
Segment map_segment(int descriptor, size_t bytes) {
  struct stat facts{};
  void* data = MAP_FAILED;
  if (::fstat(descriptor, &facts) == 0 && static_cast<size_t>(facts.st_size) >= bytes)
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    ::close(descriptor);
    fail_with_errno("cannot map a segment");
  }
  return {data,
          bytes,
          descriptor,
          {static_cast<uint64_t>(facts.st_dev), static_cast<uint64_t>(facts.st_ino)}};
}

bool take_reference(Storage* storage) {
  int64_t refs = storage->refs.load(std::memory_order_relaxed);
  while (refs > 0)
    if (storage->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_acq_rel)) return true;
  return false;
}

// The storage that there is of a segment, or a new one, which owns this mapping.
Ref<Storage> storage_of(const Segment& segment, size_t bytes) {
  {
    const std::lock_guard<ForkSafeMutex> lock(g_shared_mutex);
    const auto it = storages().find(segment.key);
    if (it != storages().end() && it->second->buffer.bytes == bytes && take_reference(it->second)) {
      unmap(segment);
      return Ref<Storage>(it->second);
    }
  }
  Ref<Storage> out = Storage::foreign(segment.data, bytes, release_segment, new Segment(segment));
  const std::lock_guard<ForkSafeMutex> lock(g_shared_mutex);
  storages()[segment.key] = out.get();
  return out;
}

size_t mapped_bytes(size_t bytes) { return std::max<size_t>(bytes, 1); }

}  // namespace

void move_to_shared(const Tensor& x) {
  Storage& storage = x.storage();
  if (storage.release_foreign == release_segment) return;
  require(storage.graph == 0, ErrorKind::Capture,
          "share_memory_: a recorded value has no memory; share it outside of the function");
  require(x.device() == Device{}, ErrorKind::Runtime, "share_memory_: the tensor is on ",
          name_of(x.device()), "; move it to the CPU first");
  require(storage.exports.load(std::memory_order_relaxed) == 0, ErrorKind::Runtime,
          "share_memory_: an array or buffer uses the memory, which would move away from it; "
          "delete it first, or share a clone");
  const size_t bytes = storage.buffer.bytes;
  const Segment segment = map_segment(create_segment(mapped_bytes(bytes)), mapped_bytes(bytes));
  if (bytes > 0) std::memcpy(segment.data, storage.buffer.host, bytes);
  const Buffer old = std::exchange(storage.buffer, {.host = segment.data, .bytes = bytes});
  void (*const release_old)(void*) = std::exchange(storage.release_foreign, release_segment);
  void* const old_owner = std::exchange(storage.owner, new Segment(segment));
  storage.read_only = false;
  {
    const std::lock_guard<ForkSafeMutex> lock(g_shared_mutex);
    storages()[segment.key] = &storage;
  }
  if (release_old)
    release_old(old_owner);
  else if (old.from)
    old.from->release(old);
}

int shared_descriptor(const Tensor& x) {
  const Storage& storage = x.storage();
  return storage.release_foreign == release_segment
             ? static_cast<const Segment*>(storage.owner)->descriptor
             : -1;
}

Tensor map_shared(int descriptor, size_t bytes) {
  const Ref<Storage> storage = storage_of(map_segment(descriptor, mapped_bytes(bytes)), bytes);
  const int64_t size = static_cast<int64_t>(bytes), step = 1;
  return Tensor::from_storage(storage, {&size, 1}, {&step, 1}, 0, DType::UInt8);
}

#endif

}  // namespace tinyt
