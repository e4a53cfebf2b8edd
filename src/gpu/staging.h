// Memory of the host that a device reads later, so that copies to it wait for nobody.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

namespace tinyt::gpu {

// Pieces of one device, of which it keeps at most kMostStaged bytes. Safe from any thread.
template <class Piece>
class Staging {
 public:
  static constexpr size_t kPiece = size_t{1} << 20, kMostStaged = size_t{32} << 20;

  // Calls write(piece), which fills the piece and asks the device to read it. Pieces come from a
  // driver: make() gives one of kPiece bytes, or none; is_read(piece) says whether its memory is
  // free again, and wait(piece) waits for that. False, and nothing is called, where there are none.
  template <class Source, class Write>
  bool use(const Source& source, const Write& write) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bool is_free = !pieces_.empty() && source.is_read(pieces_.front());
    if (!is_free && pieces_.size() < kMostStaged / kPiece)
      if (const std::optional<Piece> made = source.make()) {
        pieces_.push_front(*made);
        is_free = true;
      }
    if (pieces_.empty()) return false;
    if (!is_free) source.wait(pieces_.front());
    const Piece oldest = pieces_.front();
    pieces_.pop_front();
    write(pieces_.emplace_back(oldest));
    return true;
  }

 private:
  std::mutex mutex_;          // of what follows
  std::deque<Piece> pieces_;  // the one that was taken longest ago first
};

}  // namespace tinyt::gpu
