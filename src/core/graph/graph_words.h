// A row of int64s that says what a graph is, read with every count and number checked.
#pragma once

#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/ops/ops.h"

namespace tinyt {

// What is no graph is an error of the kind Runtime.
template <class... Parts>
void check_graph(bool ok, const Parts&... parts) {
  require(ok, ErrorKind::Runtime, "graph: ", parts...);
}

class Words {
 public:
  explicit Words(std::span<const int64_t> all) : all_(all) {}
  // Each an error of the kind Runtime where there is no such word.
  int64_t next();
  // A number below a limit.
  int64_t below(int64_t limit, std::string_view what);
  bool flag(std::string_view what) { return below(2, what) != 0; }
  // Words that follow their count.
  std::span<const int64_t> list();
  // A count of things of at least one word each.
  size_t count();
  bool at_end() const { return at_ == all_.size(); }

 private:
  std::span<const int64_t> all_;
  size_t at_ = 0;
};

// An error where the attributes are not as the op's row has them, so that reading them stays
// inside.
void check_attrs(OpId op, const Attrs& attrs);

}  // namespace tinyt
