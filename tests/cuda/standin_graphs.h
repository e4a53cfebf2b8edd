// Graphs of the stand-in's driver: what nodes do is copied at the call, an update is of later
// launches, and nodes that do not depend on each other run in any order. Included by standin.cpp.
#pragma once

#include <variant>

namespace tinyt::cuda {

// A kernel with its arguments, a copy or a fill, for the context that it was made in.
struct GraphNodeTag {
  struct Kernel {
    Function function;
    StandinDim grid, block;
    unsigned shared_bytes;
    std::vector<std::vector<char>> arguments;
  };
  GraphTag* graph;
  std::vector<size_t> after;  // numbers of nodes of the graph
  size_t number;
  std::variant<Kernel, CopyNode, FillNode> work;
};

struct GraphTag {
  std::vector<GraphNodeTag*> nodes;
};

struct GraphExecTag {
  GraphTag* graph;
  ContextTag* context;
  std::vector<GraphNodeTag> nodes;  // as they are launched next
  StreamTag* stream = nullptr;      // of the last launch
  uint64_t ticket = 0;
};

}  // namespace tinyt::cuda

namespace {

Status kernel_work(const KernelNode* given, GraphNodeTag::Kernel* work) {
  if (given == nullptr || given->function == nullptr) return kInvalidValue;
  const StandinDim grid{given->grid[0], given->grid[1], given->grid[2]},
      block{given->block[0], given->block[1], given->block[2]};
  RETURN_IF_FAILED(check_launch(given->function, grid, block, given->shared_bytes, given->arguments,
                                given->extra));
  *work = {given->function, grid, block, given->shared_bytes, {}};
  const StandinKernel& kernel = *given->function->kernel;
  for (unsigned i = 0; i < kernel.argument_count; ++i) {
    const auto first = static_cast<const char*>(given->arguments[i]);
    work->arguments.emplace_back(first, first + kernel.arguments[i].bytes);
  }
  return kSuccess;
}

// Bytes in a row, from memory of a device to such memory.
Status check_copy(const CopyNode* given, Context context) {
  if (given == nullptr || context != g_current) return kInvalidValue;
  for (const CopyEnd* end : {&given->from, &given->to}) {
    if (end->memory_type != kDeviceMemory || end->reserved != nullptr) return kInvalidValue;
    if (end->x != 0 || end->y != 0 || end->z != 0 || end->level != 0) return kNotSupported;
    if (find_memory(end->device, given->width, context) == nullptr) return kInvalidValue;
  }
  return given->width > 0 && given->height == 1 && given->depth == 1 ? kSuccess : kInvalidValue;
}

Status check_fill(const FillNode* given, Context context) {
  if (given == nullptr || context != g_current || given->width == 0) return kInvalidValue;
  if (given->element_bytes != 1 || given->height != 1) return kNotSupported;
  return find_memory(given->to, given->width, context) ? kSuccess : kInvalidValue;
}

Status add_node(GraphNode* node, GraphHandle graph, const GraphNode* after, size_t count,
                decltype(GraphNodeTag::work) work) {
  RETURN_IF_FAILED(check_handle(graph));
  if (node == nullptr || (count > 0 && after == nullptr)) return kInvalidValue;
  auto made =
      std::make_unique<GraphNodeTag>(GraphNodeTag{graph, {}, graph->nodes.size(), std::move(work)});
  for (size_t i = 0; i < count; ++i) {
    if (check_handle(after[i]) != kSuccess || after[i]->graph != graph) return kInvalidValue;
    made->after.push_back(after[i]->number);
  }
  graph->nodes.push_back(make_live(made.release()));
  *node = graph->nodes.back();
  return kSuccess;
}

// The node of an instantiated graph that one of its graph's stands for.
Status find_node(GraphExec exec, GraphNode node, size_t kind, GraphNodeTag** found) {
  RETURN_IF_FAILED(check_handle(exec));
  RETURN_IF_FAILED(check_handle(node));
  if (node->graph != exec->graph || exec->context != g_current) return kInvalidValue;
  *found = &exec->nodes[node->number];
  return (*found)->work.index() == kind ? kSuccess : kInvalidValue;
}

void push_node(Stream stream, GraphNodeTag& node) {
  if (auto* const kernel = std::get_if<GraphNodeTag::Kernel>(&node.work)) {
    std::vector<void*> arguments;
    for (std::vector<char>& argument : kernel->arguments) arguments.push_back(argument.data());
    push_launch(stream, kernel->function, kernel->grid, kernel->block, kernel->shared_bytes,
                arguments.data());
    return;
  }
  // Memory that is gone when a graph runs is an error of the context.
  ContextTag* const context = stream->context;
  if (const auto* const copy = std::get_if<CopyNode>(&node.work))
    return (void)stream->push([=, copy = *copy] {
      const auto to = find_memory(copy.to.device, copy.width, context),
                 from = find_memory(copy.from.device, copy.width, context);
      if (to == nullptr || from == nullptr) return (void)(context->error = kIllegalAddress);
      memmove(host_address(copy.to.device), host_address(copy.from.device), copy.width);
    });
  stream->push([=, fill = std::get<FillNode>(node.work)] {
    if (find_memory(fill.to, fill.width, context) == nullptr)
      return (void)(context->error = kIllegalAddress);
    memset(host_address(fill.to), static_cast<int>(fill.value), fill.width);
  });
}

// In an order that the dependences allow: of what is ready the first, the last, or any.
void push_nodes(Stream stream, std::vector<GraphNodeTag>& nodes) {
  std::vector<bool> done(nodes.size());
  std::minstd_rand random(g_seed++);
  for (size_t left = nodes.size(); left > 0; --left) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(),
                                  [&](size_t before) { return done[before]; }))
        ready.push_back(i);
    const Order order = g_order;
    const size_t next = order == Order::kForward   ? ready.front()
                        : order == Order::kReverse ? ready.back()
                                                   : ready[random() % ready.size()];
    push_node(stream, nodes[next]);
    done[next] = true;
  }
}

}  // namespace

// How many graphs there are, those that are instantiated too.
static std::atomic<long> g_graphs{0};
EXPORT long standin_graphs(void) { return g_graphs; }

EXPORT Status cuGraphCreate(GraphHandle* graph, unsigned flags) {
  IN_CONTEXT(cuGraphCreate);
  if (graph == nullptr || flags != 0) return kInvalidValue;
  *graph = make_live(new GraphTag);
  ++g_graphs;
  return kSuccess;
}

EXPORT Status cuGraphDestroy(GraphHandle graph) {
  COUNTED(cuGraphDestroy);
  RETURN_IF_FAILED(check_handle(graph));
  const std::lock_guard lock(driver().mutex);
  for (GraphNodeTag* const node : graph->nodes) {
    driver().handles.erase(node);
    delete node;
  }
  driver().handles.erase(graph);
  delete graph;
  --g_graphs;
  return kSuccess;
}

EXPORT Status cuGraphAddKernelNode_v2(GraphNode* node, GraphHandle graph, const GraphNode* after,
                                      size_t count, const KernelNode* given) {
  IN_CONTEXT(cuGraphAddKernelNode);
  GraphNodeTag::Kernel work;
  RETURN_IF_FAILED(kernel_work(given, &work));
  return add_node(node, graph, after, count, std::move(work));
}

EXPORT Status cuGraphAddMemcpyNode(GraphNode* node, GraphHandle graph, const GraphNode* after,
                                   size_t count, const CopyNode* given, Context context) {
  IN_CONTEXT(cuGraphAddMemcpyNode);
  RETURN_IF_FAILED(check_copy(given, context));
  return add_node(node, graph, after, count, *given);
}

EXPORT Status cuGraphAddMemsetNode(GraphNode* node, GraphHandle graph, const GraphNode* after,
                                   size_t count, const FillNode* given, Context context) {
  IN_CONTEXT(cuGraphAddMemsetNode);
  RETURN_IF_FAILED(check_fill(given, context));
  return add_node(node, graph, after, count, *given);
}

EXPORT Status cuGraphInstantiateWithFlags(GraphExec* exec, GraphHandle graph,
                                          unsigned long long flags) {
  IN_CONTEXT(cuGraphInstantiate);
  RETURN_IF_FAILED(check_handle(graph));
  if (exec == nullptr || flags != 0) return kInvalidValue;
  auto* const made = new GraphExecTag{graph, g_current, {}};
  for (const GraphNodeTag* const node : graph->nodes) made->nodes.push_back(*node);
  *exec = make_live(made);
  ++g_graphs;
  return kSuccess;
}

// The function stays of its context, which check_launch sees to.
EXPORT Status cuGraphExecKernelNodeSetParams_v2(GraphExec exec, GraphNode node,
                                                const KernelNode* given) {
  IN_CONTEXT(cuGraphExecKernelNodeSetParams);
  GraphNodeTag* found = nullptr;
  RETURN_IF_FAILED(find_node(exec, node, 0, &found));
  GraphNodeTag::Kernel work;
  RETURN_IF_FAILED(kernel_work(given, &work));
  found->work = std::move(work);
  return kSuccess;
}

EXPORT Status cuGraphExecMemcpyNodeSetParams(GraphExec exec, GraphNode node, const CopyNode* given,
                                             Context context) {
  IN_CONTEXT(cuGraphExecMemcpyNodeSetParams);
  GraphNodeTag* found = nullptr;
  RETURN_IF_FAILED(find_node(exec, node, 1, &found));
  RETURN_IF_FAILED(check_copy(given, context));
  found->work = *given;
  return kSuccess;
}

// Another width may be refused, as the manual has it, and is here.
EXPORT Status cuGraphExecMemsetNodeSetParams(GraphExec exec, GraphNode node, const FillNode* given,
                                             Context context) {
  IN_CONTEXT(cuGraphExecMemsetNodeSetParams);
  GraphNodeTag* found = nullptr;
  RETURN_IF_FAILED(find_node(exec, node, 2, &found));
  RETURN_IF_FAILED(check_fill(given, context));
  if (given->width != std::get<FillNode>(found->work).width) return kInvalidValue;
  found->work = *given;
  return kSuccess;
}

// After all launches of it that were before, in other streams too.
EXPORT Status cuGraphLaunch(GraphExec exec, Stream stream) {
  IN_CONTEXT(cuGraphLaunch);
  RETURN_IF_FAILED(check_handle(exec));
  RETURN_IF_FAILED(check_stream(stream));
  if (exec->context != g_current) return kInvalidValue;
  if (exec->stream != nullptr && exec->stream != stream)
    stream->push([other = exec->stream, ticket = exec->ticket] { other->wait(ticket); });
  push_nodes(stream, exec->nodes);
  exec->stream = stream;
  exec->ticket = stream->last_ticket();
  return kSuccess;
}

// Launches that are under way go on.
EXPORT Status cuGraphExecDestroy(GraphExec exec) {
  COUNTED(cuGraphExecDestroy);
  {
    const std::lock_guard lock(driver().mutex);
    if (driver().handles.erase(exec) == 0) return kInvalidHandle;
  }
  delete exec;
  --g_graphs;
  return kSuccess;
}
