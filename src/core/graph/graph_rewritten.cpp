// A graph as passes give it back: one array, all of which is checked.
#include <bit>

#include "core/graph/graph.h"
#include "core/graph/graph_words.h"

namespace tinyt {

namespace {

constexpr int64_t kGraphFormat = 1;
constexpr int64_t kMadeByPass = -1;  // an origin; those below name other recordings

}  // namespace

// Reads the array, one part after another, into a graph over the same inputs.
class Rewriting {
 public:
  using Parts = std::unordered_map<int64_t, ExternalOp::Graphs>;

  Rewriting(const Graph& old, Graph& made, std::span<const int64_t> flat, const Parts& parts)
      : old_(old), made_(made), words_(flat), parts_(parts) {}

  void run(std::span<const Tensor> inputs) {
    const int64_t format = words_.next(), known = words_.next();
    check_graph(format == kGraphFormat, "the array is of format ", format, ", not ", kGraphFormat);
    check_graph(known == static_cast<int64_t>(old_.values_.size()), "the recording has ",
                old_.values_.size(), " values, not ", known);
    read_values();
    read_inputs(inputs);
    read_nodes();
    read_ends();
    check_graph(words_.at_end(), "the array goes on after its end");
  }

 private:
  void read_values() {
    made_.values_ = old_.values_;
    for (Graph::Value& v : made_.values_) v.node = -1;
    for (int64_t n = words_.below(INT64_MAX, "count"); n > 0; --n) {
      const auto dtype = static_cast<DType>(words_.below(kDTypeCount, "dtype"));
      const Dims shape(words_.list());
      for (int64_t size : shape) check_graph(size >= 0, "a size is ", size);
      numel_of(shape);
      made_.values_.push_back({shape, dtype, -1});  // where: what makes it tells
    }
    is_made_.assign(made_.values_.size(), false);
    standing_.resize(made_.values_.size());
    for (const Graph::Input& input : old_.inputs_) {
      is_made_[input.value] = true;
      if (input.tensor.impl()->is_scalar) standing_[input.value] = input.tensor;
    }
  }

  void read_inputs(std::span<const Tensor> inputs) {
    const auto numbers = words_.list();
    check_graph(numbers.size() == inputs.size(), numbers.size(), " new inputs, but ", inputs.size(),
                " tensors");
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t v = numbers[i];
      const Tensor& t = inputs[i];
      check_graph(v >= 0 && v < static_cast<int64_t>(is_made_.size()) && !is_made_[v], "input %", v,
                  " is no new value");
      check_graph(!t.is_recorded() && t.is_contiguous() && t.shape() == made_.values_[v].shape &&
                      t.dtype() == made_.values_[v].dtype,
                  "input %", v,
                  " has another shape or dtype than its tensor, or that is not dense");
      is_made_[v] = true;
      if (t.impl()->is_scalar) standing_[v] = t;
      made_.values_[v].device = t.device();
      made_.inputs_.push_back({.value = v, .tensor = t});
    }
  }

  int64_t value() { return words_.below(static_cast<int64_t>(made_.values_.size()), "value"); }

  int64_t made_value() {
    const int64_t v = value();
    check_graph(is_made_[v], "%", v, " is read before it is made");
    return v;
  }

  // A tensor without data of a value's geometry, as inference sees it.
  const Tensor& standing(int64_t v) {
    Tensor& t = standing_[v];
    if (!t) {
      const Graph::Value& of = made_.values_[v];
      t = Tensor::from_storage(Storage::without_memory(of.bytes(), of.device), of.shape,
                               contiguous_strides(of.shape), 0, of.dtype);
    }
    return t;
  }

  void read_nodes() {
    const int64_t nodes = words_.below(INT64_MAX, "count");
    split_point_ = words_.next();
    check_graph((split_point_ < 0) == (old_.split_point_.node < 0) && split_point_ <= nodes,
                "the split point is at node ", split_point_);
    for (int64_t n = 0; n < nodes; ++n) {
      Graph::Node node = read_node();
      for (int64_t word : words_.list()) node.inputs.push_back(word);
      for (int64_t v : node.inputs)
        check_graph(v >= 0 && v < static_cast<int64_t>(is_made_.size()) && is_made_[v], "node ", n,
                    " (", node.name(), ") reads %", v, " too early");
      for (int64_t word : words_.list()) node.outputs.push_back(word);
      for (int64_t v : node.outputs) {
        check_graph(v >= 0 && v < static_cast<int64_t>(is_made_.size()) && !is_made_[v], "node ", n,
                    " (", node.name(), ") makes %", v, " anew");
        is_made_[v] = true;
        made_.values_[v].node = n;
      }
      node.opaque ? check_opaque(node, n) : check_op(node, n);
      made_.nodes_.push_back(std::move(node));
    }
  }

  // What it does: as a recorded node, a node of another recording, or an op with its attributes.
  Graph::Node read_node() {
    origin_ = words_.next();
    if (origin_ < kMadeByPass) return read_borrowed();
    if (origin_ >= 0) {
      check_graph(origin_ < static_cast<int64_t>(old_.nodes_.size()), "no node ", origin_,
                  " was recorded");
      Graph::Node node = old_.nodes_[origin_];
      node.inputs.clear();
      node.outputs.clear();
      if (const auto it = parts_.find(origin_); it != parts_.end()) {
        check_graph(node.opaque && node.opaque->graphs().size() == it->second.size(), "node ",
                    origin_, " (", node.name(), ") does not run ", it->second.size(),
                    " recordings");
        node.opaque = node.opaque->with_graphs(it->second);
      }
      return node;
    }
    Graph::Node node{
        static_cast<OpId>(words_.below(kCallableCount, "op")), DType::Float32, {}, {}, {}, nullptr};
    check_graph(!has_flag(node.op, op_flags::random | op_flags::dynamic_shape), name_of(node.op),
                " cannot be added");
    for (int64_t word : words_.list()) node.attrs.ints.push_back(word);
    for (int64_t word : words_.list()) node.attrs.floats.push_back(std::bit_cast<double>(word));
    check_attrs(node.op, node.attrs);
    return node;
  }

  // A node that is no row of the op table, of the recording among `parts` that its origin names.
  // Neither numbers of that recording nor others that it runs come with it.
  Graph::Node read_borrowed() {
    const auto it = parts_.find(origin_);
    check_graph(it != parts_.end() && it->second.size() == 1 && it->second.front(),
                "no recording has number ", origin_);
    lender_ = it->second.front().get();
    lent_ = words_.below(static_cast<int64_t>(lender_->nodes_.size()), "node");
    Graph::Node node = lender_->nodes_[lent_];
    check_graph(node.opaque && node.opaque->graphs().empty() && node.opaque->numbers().empty(),
                "node ", lent_, " (", node.name(), ") cannot be added");
    node.inputs.clear();
    node.outputs.clear();
    return node;
  }

  static bool is_like(const Graph::Value& a, const Graph::Value& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
  }

  bool same_types(std::span<const int64_t> now, const Graph& graph,
                  std::span<const int64_t> then) const {
    return std::equal(now.begin(), now.end(), then.begin(), then.end(), [&](int64_t a, int64_t b) {
      return is_like(made_.values_[a], graph.values_[b]);
    });
  }

  void check_opaque(const Graph::Node& node, int64_t n) {
    const Graph& graph = origin_ < 0 ? *lender_ : old_;
    const Graph::Node& was = graph.nodes_[origin_ < 0 ? lent_ : origin_];
    for (size_t i = 0; i < std::min(node.outputs.size(), was.outputs.size()); ++i)
      made_.values_[node.outputs[i]].device = graph.values_[was.outputs[i]].device;
    check_graph(
        same_types(node.inputs, graph, was.inputs) && same_types(node.outputs, graph, was.outputs),
        "node ", n, " (", node.name(),
        ") has operands of other shapes, dtypes or devices than were recorded");
  }

  void check_op(Graph::Node& node, int64_t n) {
    const OpInfo& row = info(node.op);
    check_graph(row.inputs < 0 ? !node.inputs.empty()
                               : static_cast<int64_t>(node.inputs.size()) == row.inputs,
                "node ", n, " (", row.name, ") takes ", int{row.inputs}, " values, not ",
                node.inputs.size());
    check_graph(static_cast<int64_t>(node.outputs.size()) == row.outputs, "node ", n, " (",
                row.name, ") makes ", int{row.outputs}, " values, not ", node.outputs.size());
    std::vector<Tensor> inputs;
    for (int64_t v : node.inputs) inputs.push_back(standing(v));
    Inferred inferred;
    infer(node.op, inputs, node.attrs, inferred);
    const Device device =
        inferred.is_view ? inputs[0].device() : device_of_call(node.op, inputs, inferred.attrs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Graph::Value& v = made_.values_[node.outputs[i]];
      check_graph(v.shape == inferred.shape[i] && v.dtype == inferred.dtype[i], "node ", n, " (",
                  row.name, ") makes ", name_of(inferred.dtype[i]), " ", inferred.shape[i],
                  ", but %", node.outputs[i], " is ", name_of(v.dtype), " ", v.shape);
      made_.values_[node.outputs[i]].device = device;
    }
    if (origin_ < 0) {
      node.attrs = inferred.attrs;
      node.compute = inferred.compute;
    } else if (row.kind == OpKind::Scalar) {
      check_graph(node.compute == inferred.compute, "node ", n, " (", row.name, ") computes in ",
                  name_of(inferred.compute), ", recorded in ", name_of(node.compute));
    }
    if (node.op == OpId::cat)
      for (const Tensor& t : inputs)
        check_graph(t.dtype() == node.compute, "node ", n, " (cat) reads ", name_of(t.dtype()));
  }

  // The value that takes the place of another one, in the same part of the graph.
  int64_t in_place_of(int64_t was, bool first) {
    const int64_t v = made_value();
    const Graph::Value &now = made_.values_[v], &then = old_.values_[was];
    check_graph(is_like(now, then), "%", v, " is ", name_of(now.dtype), " ", now.shape, " on ",
                name_of(now.device), ", what it stands for is ", name_of(then.dtype), " ",
                then.shape, " on ", name_of(then.device));
    check_graph(split_point_ < 0 || !first || now.node < split_point_, "%", v,
                " is made after the split point");
    return v;
  }

  void read_ends() {
    check_graph(words_.next() == static_cast<int64_t>(old_.outputs_.size()),
                "the outputs are others");
    for (size_t i = 0; i < old_.outputs_.size(); ++i) {
      Graph::Output output = old_.outputs_[i];
      output.value = in_place_of(output.value, i < old_.split_point_.output);
      made_.outputs_.push_back(std::move(output));
    }
    check_graph(words_.next() == static_cast<int64_t>(old_.writes_.size()),
                "the writes are others");
    for (const Graph::Write& was : old_.writes_) {
      const bool first = old_.values_[was.value].node < old_.split_point_.node;
      Graph::Write write = was;
      write.value = in_place_of(was.value, first);
      check_graph(split_point_ < 0 || first == (made_.values_[write.value].node < split_point_),
                  "%", write.value, " is written on the other side of the split point");
      made_.writes_.push_back(std::move(write));
    }
    made_.split_point_ = old_.split_point_;
    made_.split_point_.node = split_point_;
  }

  const Graph& old_;
  Graph& made_;
  Words words_;
  const Parts& parts_;
  int64_t split_point_ = -1;
  int64_t origin_ = kMadeByPass;
  const Graph* lender_ = nullptr;  // of the last borrowed node
  int64_t lent_ = 0;
  std::vector<bool> is_made_;
  std::vector<Tensor> standing_;
};

std::unique_ptr<Graph> Graph::rewritten(
    std::span<const int64_t> flat, std::span<const Tensor> inputs,
    const std::unordered_map<int64_t, ExternalOp::Graphs>& parts) const {
  auto made = std::make_unique<Graph>();
  made->inputs_ = inputs_;
  made->arguments_ = arguments_;
  made->scalars_ = scalars_;
  Rewriting(*this, *made, flat, parts).run(inputs);
  return made;
}

}  // namespace tinyt
