#include "program.h"

#include "backend.h"
#include "plan.h"

namespace tinyt {

namespace {

// Shows `x` (broadcast to the region's shape) as rows x cols, copying only what has no such view.
Tensor as_operand(const Tensor& x, DType want, const Program::Region& region, TileOperand& out) {
  const Tensor t = cast(x, want);
  const auto item = static_cast<int64_t>(t.itemsize());
  const Dims strides = broadcast_strides(t.shape(), t.strides(), region.shape);
  // Split the dimensions where the columns begin.
  size_t split = region.shape.size();
  for (int64_t cols = 1; cols < region.space.cols;) cols *= region.shape[--split];
  const std::span<const int64_t> shape(region.shape), steps(strides);
  const Dims rows{region.space.rows}, cols{region.space.cols};
  const auto row = view_strides(shape.first(split), steps.first(split), rows);
  const auto col = view_strides(shape.subspan(split), steps.subspan(split), cols);
  if (row && col && ((*col)[0] == 1 || (*col)[0] == 0)) {
    out = {t.data(), (*row)[0] * item, (*col)[0] == 1};
    return t;
  }
  Attrs size;
  size.add(shape);
  const Tensor wide = dispatch(OpId::expand, {&t, 1}, size).first;
  const Tensor dense = contiguous(wide);
  out = {dense.data(), region.space.cols * item, true};
  return dense;
}

}  // namespace

Program::Program(const Graph& graph)
    : nodes_(graph.nodes().begin(), graph.nodes().end()),
      values_(graph.values().begin(), graph.values().end()),
      inputs_(graph.inputs()),
      outputs_(graph.outputs()),
      writes_(graph.writes()) {
  Fuser(*this, graph).run();
}

void Program::run_node(const Graph::Node& node, std::vector<Tensor>& values) const {
  std::vector<Tensor> in;
  for (int64_t v : node.inputs) in.push_back(values[v]);
  // Geometry attributes count from the start of a dense value.
  if (node.op == OpId::as_strided && (in[0].offset() != 0 || !in[0].is_contiguous()))
    in[0] = dispatch(OpId::copy, {in.data(), 1}).first;
  Outputs out = dispatch(node.op, in, node.attrs);
  values[node.outputs[0]] = out.first;
  if (node.outputs.size() > 1) values[node.outputs[1]] = out.second;
}

void Program::run_region(const Region& region, std::vector<Tensor>& values) const {
  std::vector<Tensor> alive;
  std::vector<TileOperand> operands(region.inputs.size());
  for (size_t i = 0; i < region.inputs.size(); ++i)
    alive.push_back(
        as_operand(values[region.inputs[i]], region.tiles.registers[i], region, operands[i]));
  const Graph::Value& out = values_[region.output];
  values[region.output] = Tensor::empty(out.shape, out.dtype);
  backend_of({}).run_tiles(region.tiles, operands, region.space, values[region.output].data());
}

std::vector<Tensor> Program::run() const {
  std::vector<Tensor> values(values_.size());
  for (const Graph::Input& input : inputs_) values[input.value] = input.tensor;
  for (const Step& step : steps_) {
    if (step.region >= 0)
      run_region(regions_[step.region], values);
    else
      run_node(nodes_[step.node], values);
  }
  std::vector<Tensor> out;
  for (int64_t v : outputs_) out.push_back(values[v]);
  // An output that is, or is a view of, memory about to be written keeps its value of now.
  for (Tensor& t : out)
    for (const Graph::Write& w : writes_)
      if (ranges_overlap(t, w.target)) t = dispatch(OpId::copy, {&t, 1}).first;
  std::vector<Tensor> sources;
  for (const Graph::Write& w : writes_) {
    Tensor source = values[w.value];
    for (const Graph::Write& other : writes_)
      if (ranges_overlap(source, other.target)) {
        source = dispatch(OpId::copy, {&source, 1}).first;
        break;
      }
    sources.push_back(source);
  }
  for (size_t i = 0; i < writes_.size(); ++i) assign(writes_[i].target, sources[i]);
  return out;
}

}  // namespace tinyt
