#include "cuda/graphs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cuda/library.h"

namespace tinyt::cuda {

namespace {

CopyNode copy_node(const WorkList::Item& item) {
  CopyNode node;
  node.from.device = item.from;
  node.to.device = item.to;
  node.width = node.from.pitch = node.to.pitch = item.bytes;
  node.from.height = node.to.height = 1;
  return node;
}

KernelNode kernel_node(const WorkList::Item& item, void** arguments) {
  return {.function = item.function,
          .grid = {item.shape.blocks, 1, 1},
          .block = {item.shape.threads, 1, 1},
          .shared_bytes = item.shape.shared_bytes,
          .arguments = arguments};
}

FillNode fill_node(const WorkList::Item& item) {
  return {.to = item.to, .pitch = item.bytes, .value = item.value, .width = item.bytes};
}

}  // namespace

// ---- one graph

InstantiatedGraph::~InstantiatedGraph() {
  if (exec_ != nullptr) api_.cuGraphExecDestroy(exec_);  // it goes when it has run
  if (graph_ != nullptr) api_.cuGraphDestroy(graph_);
}

Status InstantiatedGraph::add(WorkList& list, size_t i) {
  const WorkList::Item& item = list[i];
  const GraphNode* const before = i > 0 ? &nodes_[i - 1] : nullptr;
  const size_t count = i > 0 ? 1 : 0;
  switch (item.kind) {
    case WorkList::Kind::Copy: {
      const CopyNode node = copy_node(item);
      call_ = "cuGraphAddMemcpyNode";
      return api_.cuGraphAddMemcpyNode(&nodes_[i], graph_, before, count, &node, context_);
    }
    case WorkList::Kind::Fill: {
      const FillNode node = fill_node(item);
      call_ = "cuGraphAddMemsetNode";
      return api_.cuGraphAddMemsetNode(&nodes_[i], graph_, before, count, &node, context_);
    }
    default: {
      ArgumentPointers arguments = list.arguments(item);
      const KernelNode node = kernel_node(item, arguments.data());
      call_ = "cuGraphAddKernelNode";
      return api_.cuGraphAddKernelNode(&nodes_[i], graph_, before, count, &node);
    }
  }
}

Status InstantiatedGraph::set(WorkList& list, size_t i) {
  const WorkList::Item& item = list[i];
  switch (item.kind) {
    case WorkList::Kind::Copy: {
      const CopyNode node = copy_node(item);
      call_ = "cuGraphExecMemcpyNodeSetParams";
      return api_.cuGraphExecMemcpyNodeSetParams(exec_, nodes_[i], &node, context_);
    }
    case WorkList::Kind::Fill: {
      const FillNode node = fill_node(item);
      call_ = "cuGraphExecMemsetNodeSetParams";
      return api_.cuGraphExecMemsetNodeSetParams(exec_, nodes_[i], &node, context_);
    }
    default: {
      ArgumentPointers arguments = list.arguments(item);
      const KernelNode node = kernel_node(item, arguments.data());
      call_ = "cuGraphExecKernelNodeSetParams";
      return api_.cuGraphExecKernelNodeSetParams(exec_, nodes_[i], &node);
    }
  }
}

Status InstantiatedGraph::build(WorkList& list) {
  nodes_.resize(list.size());
  call_ = "cuGraphCreate";
  Status status = api_.cuGraphCreate(&graph_, 0);
  for (size_t i = 0; status == kSuccess && i < list.size(); ++i) status = add(list, i);
  if (status != kSuccess) return status;
  call_ = "cuGraphInstantiate";
  return api_.cuGraphInstantiate(&exec_, graph_, 0);
}

Status InstantiatedGraph::update(WorkList& list) {
  Status status = kSuccess;
  for (size_t i = 0; status == kSuccess && i < list.size(); ++i)
    if (!list.is_same(i, list_)) status = set(list, i);
  return status;
}

Status InstantiatedGraph::launch(WorkList& list, Stream stream) {
  if (const Status status = exec_ == nullptr ? build(list) : update(list); status != kSuccess)
    return status;
  call_ = "cuGraphLaunch";
  const Status status = api_.cuGraphLaunch(exec_, stream);
  if (status == kSuccess) std::swap(list_, list);
  return status;
}

Status InstantiatedGraph::instantiate(const WorkList& list) {
  list_ = list;
  return build(list_);
}

Status InstantiatedGraph::launch_again(Stream stream) {
  call_ = "cuGraphLaunch";
  return api_.cuGraphLaunch(exec_, stream);
}

// ---- a program's

// Whether a list of this form came before: a program that runs once is not worth a graph.
bool RunGraphs::was_seen(uint64_t form) {
  if (std::ranges::find(forms_, form) != forms_.end()) return true;
  if (forms_.size() == kMostForms) forms_.erase(forms_.begin());
  forms_.push_back(form);
  return false;
}

bool RunGraphs::launch(WorkList& list, Context context, Stream stream) {
  if (list.size() < kFewest || failures_ == kMostFailures) return false;
  auto found =
      std::ranges::find_if(graphs_, [&](const auto& graph) { return graph->can_do(list); });
  if (found == graphs_.end()) {
    if (graphs_.size() == kMostGraphs || !was_seen(list.form())) return false;
    graphs_.push_back(std::make_unique<InstantiatedGraph>(api_, context));
    found = std::prev(graphs_.end());
  }
  const Status status = (*found)->launch(list, stream);
  if (status == kSuccess) [[likely]]
    return true;
  const std::unique_ptr<InstantiatedGraph> failed = std::move(*found);
  graphs_.erase(found);
  ++failures_;
  if (is_lost(status)) check(api_, status, failed->last_call());
  return false;
}

void RunGraphs::forget() noexcept {
  for (const auto& graph : graphs_) graph->forget();
}

}  // namespace tinyt::cuda
