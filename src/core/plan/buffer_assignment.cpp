#include "core/plan/buffer_assignment.h"

#include <iterator>
#include <map>

namespace tinyt {

namespace {

// Free memory below a top that rises where no gap is large enough. No gap lies across two pieces.
class Gaps {
 public:
  explicit Gaps(size_t piece) : piece_(piece) {}

  size_t take(size_t bytes) {
    auto best = gaps_.end();
    for (auto it = gaps_.begin(); it != gaps_.end(); ++it)
      if (it->second >= bytes && (best == gaps_.end() || it->second < best->second)) best = it;
    if (best == gaps_.end()) return raise(bytes);
    const auto [offset, size] = *best;
    gaps_.erase(best);
    if (size > bytes) gaps_[offset + bytes] = size - bytes;
    return offset;
  }

  void put_back(size_t offset, size_t bytes) {
    auto it = gaps_.emplace(offset, bytes).first;
    if (auto next = std::next(it); next != gaps_.end() && joins(offset + bytes, next->first)) {
      it->second += next->second;
      gaps_.erase(next);
    }
    if (it == gaps_.begin()) return;
    if (auto before = std::prev(it); joins(before->first + before->second, offset)) {
      before->second += it->second;
      gaps_.erase(it);
    }
  }

  size_t top() const { return top_; }

 private:
  bool joins(size_t end, size_t begin) const {
    return end == begin && (piece_ == 0 || begin % piece_ != 0);
  }

  // The last gap grows where it reaches the top; what is left of a piece that is too small becomes
  // one.
  size_t raise(size_t bytes) {
    size_t offset = top_;
    const auto last = gaps_.empty() ? gaps_.end() : std::prev(gaps_.end());
    if (last != gaps_.end() && joins(last->first + last->second, top_)) {
      offset = last->first;
      gaps_.erase(last);
    }
    if (piece_ != 0 && offset % piece_ + bytes > piece_) {
      const size_t left = piece_ - offset % piece_;
      gaps_[offset] = left;
      offset += left;
    }
    top_ = offset + bytes;
    return offset;
  }

  const size_t piece_;
  std::map<size_t, size_t> gaps_;  // offset to bytes
  size_t top_ = 0;
};

}  // namespace

Packing pack(std::span<const Lifetime> blocks, int64_t steps, size_t alignment, size_t piece) {
  std::vector<std::vector<size_t>> starts(static_cast<size_t>(steps)), ends(starts);
  for (size_t b = 0; b < blocks.size(); ++b) {
    starts[static_cast<size_t>(blocks[b].first)].push_back(b);
    ends[static_cast<size_t>(blocks[b].last)].push_back(b);
  }
  const auto room = [&](size_t b) {
    return (blocks[b].bytes + alignment - 1) / alignment * alignment;
  };
  Packing out{.offsets = std::vector<size_t>(blocks.size())};
  Gaps gaps(piece);
  for (size_t s = 0; s < starts.size(); ++s) {
    for (size_t b : starts[s])
      if (room(b) > 0) out.offsets[b] = gaps.take(room(b));
    for (size_t b : ends[s])
      if (room(b) > 0) gaps.put_back(out.offsets[b], room(b));
  }
  out.bytes = gaps.top();
  return out;
}

}  // namespace tinyt
