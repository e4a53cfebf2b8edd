// Chooses which nodes of a graph run as one region.
#pragma once

#include "program.h"

namespace tinyt {

// Grows regions: a scalar op joins the region of the node before it when it works on the same
// shape and the values between them are needed nowhere else; a reduction of the last dimensions
// may end one.
class Fuser {
 public:
  Fuser(Program& program, const Graph& graph);
  void run();

 private:
  bool can_fuse(const Graph::Node& node) const;
  bool can_end(const Graph::Node& node, const std::vector<int64_t>& chain) const;
  bool feeds_only(int64_t value, int64_t consumer) const;
  void emit(const std::vector<int64_t>& chain, int64_t reduction);
  int register_of(int64_t value, DType want, Program::Region& region,
                  std::vector<std::pair<int64_t, int>>& known) const;

  Program& program_;
  const Graph& graph_;
  std::vector<int64_t> uses_;       // of each value, by nodes and outputs
  std::vector<int64_t> last_user_;  // the last node that reads it
};

}  // namespace tinyt
