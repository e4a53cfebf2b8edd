// Lists of work as graphs of the driver's: one launch for all of a list, and an update of each node
// in which it differs from the list before.
#pragma once

#include <memory>
#include <vector>

#include "cuda/work_list.h"

namespace tinyt::cuda {

// An instantiated graph: a chain, each node after the one before it. Its context is the thread's in
// all calls.
class InstantiatedGraph {
 public:
  InstantiatedGraph(const Api& api, Context context) : api_(api), context_(context) {}
  ~InstantiatedGraph();
  InstantiatedGraph(const InstantiatedGraph&) = delete;
  InstantiatedGraph& operator=(const InstantiatedGraph&) = delete;

  bool can_do(const WorkList& list) const { return exec_ != nullptr && list.has_form_of(list_); }
  // Launches a list, the first one or another that it can do, and takes it: another is left in its
  // place. Where a call fails, nothing is launched, the list stays, and the graph is of no use.
  Status launch(WorkList& list, Stream stream);
  // The same in two steps, the second one any number of times.
  Status instantiate(const WorkList& list);
  Status launch_again(Stream stream);
  const WorkList& list() const { return list_; }
  GraphHandle handle() const { return graph_; }
  GraphExec instantiated_handle() const { return exec_; }
  const char* last_call() const { return call_; }
  // A process that cannot call the driver any more keeps what it cannot give back.
  void forget() noexcept { exec_ = nullptr, graph_ = nullptr; }

 private:
  Status build(WorkList& list);
  Status update(WorkList& list);
  Status add(WorkList& list, size_t i);
  Status set(WorkList& list, size_t i);

  const Api& api_;
  const Context context_;
  GraphHandle graph_ = nullptr;  // whose nodes name those of the instantiated one
  GraphExec exec_ = nullptr;
  std::vector<GraphNode> nodes_;
  WorkList list_;  // that it did last
  const char* call_ = "";
};

// The graphs of a program on a device: of the parts of its runs that the host does not look into.
// Not for two threads at once.
class RunGraphs {
 public:
  static constexpr size_t kFewest = 3;  // items: fewer are launched as fast one by one
  static constexpr size_t kMostGraphs = 8;

  explicit RunGraphs(const Api& api) : api_(api) {}

  // Launches what is listed. False where it is to be asked for call by call: few items, a list that
  // comes for the first time, or one that the driver does not take. DeviceError where the device is
  // lost. The context is the thread's.
  bool launch(WorkList& list, Context context, Stream stream);
  // Gives all back to the driver, with the context the thread's.
  void clear() { graphs_.clear(); }
  // A process that cannot call the driver any more keeps what it cannot give back.
  void forget() noexcept;

 private:
  static constexpr size_t kMostForms = 16;
  static constexpr int kMostFailures = 4;

  bool was_seen(uint64_t form);

  const Api& api_;
  std::vector<std::unique_ptr<InstantiatedGraph>> graphs_;
  std::vector<uint64_t> forms_;  // of lists that came, the last one at the end
  int failures_ = 0;
};

}  // namespace tinyt::cuda
