// What the nodes of a region do, as a fused kernel.
#pragma once

#include "core/plan/fuse.h"

namespace tinyt {

class KernelBuilder {
 public:
  KernelBuilder(const Fuser& fuser, Group& group);
  // The group's kernel, compiled for its device.
  void run();

 private:
  void build();
  bool is_inside(int64_t v) const;
  bool is_row(int64_t node) const;
  int load(int64_t v, bool per_row);
  FusedKernel::Operand operand(int64_t v, int64_t node);
  std::vector<bool> wanted() const;
  void finish();

  const Fuser& fuser_;
  const Graph& graph_;
  Group& group_;
  int64_t region_;
  // While building, an operation's result has its number, a load has ~its number.
  std::vector<FusedKernel::Value> loads_, made_;
  std::vector<int64_t> value_of_;  // of the graph, of each operation
};

}  // namespace tinyt
