#include "core/memory/spare.h"

#include <algorithm>

#include "core/memory/poison.h"

namespace tinyt::memory {

Spare::Spare(size_t bytes) : block_(current().allocate(bytes)) {
  poison::close(block_.host, block_.bytes);
  pieces_.reserve(16);
}

Buffer Spare::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, 0, this, nullptr};
  if (bytes <= block_.bytes) {
    const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::lock_guard lock(mutex_);
    size_t begin = 0;
    auto next = pieces_.begin();
    while (next != pieces_.end() && next->begin - begin < size) begin = (next++)->end;
    if (begin + bytes <= block_.bytes) {
      pieces_.insert(next, {begin, begin + size});
      void* data = static_cast<char*>(block_.host) + begin;
      poison::open(data, bytes);
      return {data, bytes, this, nullptr};
    }
  }
  const Substitute none(nullptr);
  return current().allocate(bytes);
}

void Spare::release(const Buffer& block) noexcept {
  if (block.host == nullptr) return;
  poison::close(block.host, block.bytes);
  const auto begin =
      static_cast<size_t>(static_cast<char*>(block.host) - static_cast<char*>(block_.host));
  const std::lock_guard lock(mutex_);
  pieces_.erase(std::find_if(pieces_.begin(), pieces_.end(),
                             [&](const Piece& piece) { return piece.begin == begin; }));
}

}  // namespace tinyt::memory
