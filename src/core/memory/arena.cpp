// Arenas. A chunk is a block of the caching allocator with a count at its start: one for the
// arena while it holds the chunk, one for every live block in it.
#include "core/memory/arena.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/memory/device_cache.h"
#include "core/memory/poison.h"
#include "core/memory/thread_pointer.h"

namespace tinyt::memory {
namespace {

constexpr size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Chunk {
  Buffer memory;  // this chunk itself
  Chunk* next;    // in the arena
  std::atomic<int64_t> users{1};
};
constexpr size_t kHeader = round_up(sizeof(Chunk));

void drop(Chunk* chunk) noexcept {
  if (chunk->users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const Buffer memory = chunk->memory;
  chunk->~Chunk();
  memory.from->release(memory);
}

// What the blocks name as their allocator, since they may outlive their arena.
class ChunkBlocks final : public Allocator {
 public:
  Buffer allocate(size_t bytes) override { return caching().allocate(bytes); }
  void release(const Buffer& block) noexcept override {
    if (block.host == nullptr) return;
    poison::close(block.host, block.bytes);
    drop(static_cast<Chunk*>(block.context));
  }
};

ChunkBlocks& chunk_blocks() {
  static ChunkBlocks& blocks = *new ChunkBlocks;
  return blocks;
}

}  // namespace

struct Arena::State {
  size_t chunk_bytes;
  Chunk* newest = nullptr;  // the one that blocks are bumped from
  char* cursor = nullptr;
  char* end = nullptr;
  int64_t used = 0;
  int64_t peak = 0;
  int64_t capacity = 0;
  bool entered = false;
  Arena* outer = nullptr;

  void grow(size_t bytes);
};

namespace {
TINYT_THREAD_POINTER Arena* t_innermost = nullptr;
TINYT_THREAD_POINTER Allocator* t_substitute = nullptr;
}  // namespace

// Gets a chunk that holds `bytes` more and bumps from it.
void Arena::State::grow(size_t bytes) {
  const size_t size = std::max(chunk_bytes, bytes) + kHeader;
  const Buffer memory = caching().allocate(size);
  Chunk* chunk = new (memory.host) Chunk{memory, newest};
  newest = chunk;
  cursor = static_cast<char*>(memory.host) + kHeader;
  end = static_cast<char*>(memory.host) + size;
  capacity += static_cast<int64_t>(size);
  poison::close(cursor, size - kHeader);
}

Arena::Arena(size_t chunk_bytes) : state_(std::make_unique<State>()) {
  // Room for all roundings below, at sizes no machine has.
  state_->chunk_bytes = round_up(std::min(chunk_bytes, size_t{1} << 48));
}

Arena::~Arena() {
  for (Arena** at = &t_innermost; *at != nullptr; at = &(*at)->state_->outer) {
    if (*at == this) {
      *at = state_->outer;
      break;
    }
  }
  reset();
}

Buffer Arena::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, 0, &chunk_blocks(), nullptr};
  if (bytes > size_t{1} << 48) return caching().allocate(bytes);  // fails with the right words
  State& s = *state_;
  const size_t step = round_up(bytes) + poison::kRedZone;
  if (static_cast<size_t>(s.end - s.cursor) < step) s.grow(step);
  void* data = s.cursor;
  s.cursor += step;
  s.used += static_cast<int64_t>(step - poison::kRedZone);
  s.peak = std::max(s.peak, s.used);
  s.newest->users.fetch_add(1, std::memory_order_relaxed);
  poison::open(data, bytes);
  return {data, bytes, &chunk_blocks(), s.newest};
}

void Arena::release(const Buffer& block) noexcept { block.from->release(block); }

void Arena::enter() {
  require(!state_->entered, ErrorKind::Runtime, "memory.Arena: enter: it is entered already");
  state_->entered = true;
  state_->outer = t_innermost;
  t_innermost = this;
}

void Arena::exit() {
  require(t_innermost == this, ErrorKind::Runtime,
          "memory.Arena: exit: only the innermost arena of a thread can exit, and this one ",
          state_->entered ? "is not innermost here" : "was not entered");
  state_->entered = false;
  t_innermost = state_->outer;
  state_->outer = nullptr;
}

void Arena::reset() {
  State& s = *state_;
  while (s.newest != nullptr) {
    Chunk* chunk = s.newest;
    s.newest = chunk->next;
    drop(chunk);
  }
  s.cursor = s.end = nullptr;
  s.used = s.capacity = 0;
}

int64_t Arena::used_bytes() const { return state_->used; }
int64_t Arena::peak_bytes() const { return state_->peak; }
int64_t Arena::capacity_bytes() const { return state_->capacity; }

Allocator* substitute() { return t_substitute; }

Substitute::Substitute(Allocator* from) : outer_(std::exchange(t_substitute, from)) {}
Substitute::~Substitute() { t_substitute = outer_; }

Allocator& current() {
  if (t_substitute != nullptr) [[unlikely]]
    return *t_substitute;
  return t_innermost != nullptr ? *t_innermost : caching();
}

Allocator& allocator_of(Device device) {
  if (device == Device{}) [[likely]]
    return current();
  return cache_of(device);
}

}  // namespace tinyt::memory
