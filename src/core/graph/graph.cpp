#include "core/graph/graph.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/graph/capture_log.h"

namespace tinyt {

namespace {

std::atomic<uint64_t> g_next_id{1};

Attrs view_attrs(const Tensor& x) {
  Attrs attrs;
  attrs.add(std::span<const int64_t>(x.shape())).add(std::span<const int64_t>(x.strides()));
  return attrs.add(x.offset());
}

}  // namespace

TINYT_THREAD_POINTER Graph* t_recording = nullptr;
Graph* set_recording(Graph* graph) { return std::exchange(t_recording, graph); }

bool Graph::Node::is_ordered() const {
  if (!opaque) return false;
  return opaque->effect() == ExternalOp::Effect::Ordered ||
         std::ranges::any_of(opaque->graphs(), [](const auto& part) {
           return std::ranges::any_of(part->nodes(), &Node::is_ordered);
         });
}

Graph::Graph()
    : id_(g_next_id.fetch_add(1)), outermost_(id_), scalars_(std::make_shared<RuntimeScalars>()) {}

Graph::Graph(Graph& outer)
    : id_(g_next_id.fetch_add(1)),
      outermost_(outer.outermost_),
      outer_(&outer),
      scalars_(outer.scalars_) {
  if (outer.log) outer.log->fail("control flow is captured for each size");
}

void Graph::set_mark() {
  if (log) log->fail("a result with a tape is captured for each size");
  split_point_ = {static_cast<int64_t>(nodes_.size()), outputs_.size(), arguments_.size()};
}

bool Graph::is_outside(const Tensor& x) const { return outer_ && x.storage().graph != id_; }

int64_t Graph::add_value(const Dims& shape, DType dtype, int64_t node, Device device) {
  values_.push_back({shape, dtype, node, device});
  return static_cast<int64_t>(values_.size()) - 1;
}

int64_t Graph::add_input(const Tensor& tensor) {
  const int64_t value = add_value(tensor.shape(), tensor.dtype(), -1, tensor.device());
  inputs_.push_back({.value = value, .tensor = tensor});
  return value;
}

int64_t Graph::add_node(OpId op, const Attrs& attrs, DType compute, SmallVec<int64_t, 4> inputs,
                        const Dims& shape, DType dtype) {
  const auto node = static_cast<int64_t>(nodes_.size());
  const int64_t value = add_value(shape, dtype, node, values_[inputs[0]].device);
  nodes_.push_back({op, compute, attrs, std::move(inputs), {value}, nullptr});
  return value;
}

// A value's numbers as complex ones or as their parts; itself where it has the dtype already. A
// storage keeps one value, which its views may see either way.
int64_t Graph::as_dtype(int64_t value, DType dtype) {
  const DType have = values_[value].dtype;
  if (have == dtype) return value;
  const bool parts = (is_complex(have) ? real_of(have) : complex_of(have)) == dtype;
  require(parts && (is_complex(have) || numel_of(values_[value].shape) % 2 == 0),
          ErrorKind::Capture, "record: memory of dtype ", name_of(have), " was seen as ",
          name_of(dtype));
  Dims shape = values_[value].shape;
  if (is_complex(have)) {
    shape.push_back(2);
    return add_node(OpId::view_as_real, {}, dtype, {value}, shape, dtype);
  }
  const Dims pairs{numel_of(shape) / 2, 2}, numbers{pairs[0]};
  value = reshaped(value, pairs);
  return add_node(OpId::view_as_complex, {}, dtype, {value}, numbers, dtype);
}

int64_t Graph::reshaped(int64_t value, const Dims& shape) {
  const DType dtype = values_[value].dtype;
  if (values_[value].shape == shape) return value;
  Attrs attrs;
  attrs.add(std::span<const int64_t>(shape));
  return add_node(OpId::reshape, attrs, dtype, {value}, shape, dtype);
}

void Graph::remember(const Tensor& x, int64_t value) const {
  x.impl()->value = value;
  x.impl()->value_version = x.storage().version;
  x.impl()->value_graph = id_;
}

// A tensor without data whose memory has that value.
Tensor Graph::make(int64_t value) const {
  const auto& [shape, dtype, node, device] = values_[value];
  Ref<Storage> storage = Storage::without_memory(bytes_of("compile", shape, dtype), device);
  storage->graph = id_;
  storage->value = value;
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Graph::add_argument(const Tensor& like) {
  const auto number = static_cast<int64_t>(arguments_.size());
  Tensor placeholder;
  if (like.is_contiguous()) {
    placeholder = make(add_value(like.shape(), like.dtype(), -1, like.device()));
    inputs_.push_back({placeholder.storage().value, placeholder, number});
    // Of a dimension of one element any stride will do.
    if (placeholder.strides() != like.strides())
      placeholder = placeholder.view(like.shape(), like.strides(), 0);
  } else {
    const auto [first, end] = element_range(like);
    const Dims flat{like.numel() == 0 ? 0 : end - first};
    const Tensor whole = make(add_value(flat, like.dtype(), -1, like.device()));
    inputs_.push_back({whole.storage().value, whole, number});
    placeholder =
        whole.view(like.shape(), like.strides(), like.numel() == 0 ? 0 : like.offset() - first);
  }
  placeholder.impl()->is_scalar = like.impl()->is_scalar;
  arguments_.push_back(placeholder);
  if (log) log->argument(like, placeholder);
  return placeholder;
}

Tensor Graph::cell(int64_t number) {
  const Tensor& cell = scalars_->cell(number);
  if (cell.impl()->value_graph != id_) {
    add_number(cell);
    if (log) log->cell(number);
  }
  return cell;
}

void Graph::add_number(const Tensor& cell) {
  const int64_t value = add_value(cell.shape(), cell.dtype(), -1, cell.device());
  inputs_.push_back({.value = value, .tensor = cell, .number = true});
  remember(cell, value);
}

// An argument of a part that stands for a dense tensor outside.
void Graph::add_outside(int64_t value, const Tensor& x) {
  const auto number = static_cast<int64_t>(arguments_.size());
  const Tensor placeholder = make(value);
  inputs_.push_back({value, placeholder, number});
  arguments_.push_back(placeholder);
  outside_.emplace_back(number, x);
}

Graph::Cell& Graph::cell_of(const Tensor& x) {
  if (auto it = cells_.find(&x.storage()); it != cells_.end()) return it->second;
  materialize(x);
  Tensor whole = x;
  if (!covers_storage(x)) {
    const Dims flat{static_cast<int64_t>(x.storage().buffer.bytes / x.itemsize())};
    whole = x.view(flat, Dims{1}, 0);
  }
  Cell cell{whole, -1};
  if (outer_) {
    cell.value = add_value(whole.shape(), whole.dtype(), -1, whole.device());
    add_outside(cell.value, whole);
  } else {
    cell.value = add_input(whole);
  }
  return cells_.emplace(&x.storage(), std::move(cell)).first->second;
}

int64_t Graph::read(const Tensor& x) {
  TensorImpl& t = *x.impl();
  if (t.value_graph == id_ && t.value_version == x.storage().version) return t.value;
  if (const auto it = seen_.find(&t); it != seen_.end()) return it->second.second;
  const uint64_t owner = x.storage().graph;
  const bool outside = is_outside(x);
  require(owner == 0 || owner == id_ || (outside && outer_->reaches(owner)), ErrorKind::Capture,
          "record: a tensor of another recording was used");
  int64_t value;
  if (t.is_scalar && owner == 0) {
    // The cell of a number may have been used by a part since.
    if (const int64_t number = scalars_->number_of(x); number >= 0)
      return cell(number).impl()->value;
    value = add_input(x);
  } else {
    const bool own = owner != 0 && !outside;
    const int64_t base = as_dtype(own ? x.storage().value : cell_of(x).value, x.dtype());
    const bool same = covers_storage(x) && values_[base].shape == x.shape();
    value =
        same ? base
             : add_node(OpId::as_strided, view_attrs(x), x.dtype(), {base}, x.shape(), x.dtype());
  }
  if (outside) {  // what the recording around this one knows of it stays
    seen_.emplace(&t, std::pair(x, value));
  } else {
    remember(x, value);
  }
  return value;
}

Outputs Graph::record(OpId op, std::span<const Tensor> inputs, const Inferred& inferred) {
  if (has_flag(op, op_flags::dynamic_shape))
    fail(ErrorKind::Capture, name_of(op),
         ": the size of the result depends on data, which is not known while recording; call it "
         "outside the recorded function, or keep all elements with where()");
  // Its geometry counts from the start of the storage, not of the view: read() makes the node.
  if (op == OpId::as_strided)
    return inputs[0].view(inferred.shape[0], inferred.strides, inferred.offset);
  const Device device =
      inferred.is_view ? inputs[0].device() : device_of_call(op, inputs, inferred.attrs);
  Node node{op, inferred.compute, inferred.attrs, {}, {}, nullptr};
  for (const Tensor& t : inputs)
    node.inputs.push_back(read(op == OpId::cat ? cast(t, inferred.compute) : t));
  const auto index = static_cast<int64_t>(nodes_.size());
  Outputs out(info(op).outputs);
  for (int i = 0; i < info(op).outputs; ++i) {
    const Dims& shape = inferred.shape[i];
    const int64_t value = add_value(shape, inferred.dtype[i], index, device);
    node.outputs.push_back(value);
    if (inferred.is_view) {
      out[i] = inputs[0].view_as(inferred.dtype[i], shape, inferred.strides, inferred.offset);
    } else {
      out[i] = make(value);
    }
    remember(out[i], value);
  }
  nodes_.push_back(std::move(node));
  return out;
}

void Graph::record(std::shared_ptr<const ExternalOp> opaque, std::span<const Tensor> inputs,
                   size_t written) {
  CaptureLog::Scope scope(this);
  Node node{OpId::kCount, inputs[0].dtype(), {}, {}, {}, opaque};
  for (const Tensor& t : inputs) node.inputs.push_back(read(t));
  const auto index = static_cast<int64_t>(nodes_.size());
  std::vector<Tensor> results;
  for (const Tensor& t : inputs.first(written)) {
    node.outputs.push_back(add_value(t.shape(), t.dtype(), index, t.device()));
    results.push_back(make(node.outputs[node.outputs.size() - 1]));
    remember(results.back(), results.back().storage().value);
  }
  nodes_.push_back(std::move(node));
  for (size_t i = 0; i < written; ++i) write(inputs[i], results[i]);
  if (CaptureLog* of = scope.done()) of->step(std::move(opaque), inputs, written);
}

std::vector<Tensor> Graph::record(std::shared_ptr<const ExternalOp> opaque,
                                  std::span<const Tensor> inputs) {
  if (log) log->fail("control flow is captured for each size");
  Node node{OpId::kCount, inputs[0].dtype(), {}, {}, {}, std::move(opaque)};
  for (const Tensor& t : inputs) node.inputs.push_back(read(t));
  const auto index = static_cast<int64_t>(nodes_.size());
  std::vector<Tensor> out;
  for (const auto& [shape, dtype, device] : node.opaque->outputs()) {
    node.outputs.push_back(add_value(shape, dtype, index, device));
    out.push_back(make(node.outputs[node.outputs.size() - 1]));
    remember(out.back(), out.back().storage().value);
  }
  nodes_.push_back(std::move(node));
  return out;
}

void Graph::write(const Tensor& to, const Tensor& from) {
  if (outer_) {
    bool given = is_outside(to);
    for (const Tensor& argument : arguments_) given |= &argument.storage() == &to.storage();
    require(!given, ErrorKind::Capture,
            "a function of cond, scan or while_loop writes into a tensor that it was given or that "
            "was there before, which a compiled program does not do; write into a clone and return "
            "it, or do it outside");
  }
  // Bring the value to the target's device, dtype and shape, as nodes of their own.
  Tensor source = cast(to_device(from, to.device()), to.dtype());
  if (!(source.shape() == to.shape())) {
    Attrs size;
    size.add(std::span<const int64_t>(to.shape()));
    source = dispatch(OpId::expand, {&source, 1}, size).first;
  }
  int64_t value = read(source);
  Storage& storage = to.storage();
  int64_t& current = storage.graph ? storage.value : cell_of(to).value;
  const bool whole = covers_storage(to) && values_[current].shape == to.shape() &&
                     values_[current].dtype == to.dtype();
  if (!whole) {
    const DType stored = values_[current].dtype;
    const Dims shape = values_[current].shape;
    const int64_t base = as_dtype(current, to.dtype());
    const Dims seen = values_[base].shape;
    const int64_t updated =
        add_node(OpId::update, view_attrs(to), to.dtype(), {base, value}, seen, to.dtype());
    current = reshaped(as_dtype(updated, stored), shape);
  } else {
    current = value;
  }
  if (!storage.graph) ++cell_of(to).writes;
  ++storage.version;
  remember(to, value);
}

bool Graph::has_written(const Tensor& x) const {
  const auto it = cells_.find(&x.storage());
  return (it != cells_.end() && it->second.writes > 0) || (outer_ && outer_->has_written(x));
}

void Graph::add_output(const Tensor& x) {
  if (log) log->output(x);
  int64_t argument = -1;
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (&arguments_[i].storage() == &x.storage()) argument = static_cast<int64_t>(i);
  require(!x.is_recorded() || x.storage().graph == id_, ErrorKind::Capture,
          "record: a tensor of another recording was returned");
  const int64_t whole = x.is_recorded() ? x.storage().value : cell_of(x).value;
  outputs_.push_back({as_dtype(whole, x.dtype()), x, argument});
}

size_t Graph::add_result(const Tensor& x) {
  const int64_t value = read(x);
  for (size_t i = split_point_.output; i < outputs_.size(); ++i)
    if (outputs_[i].value == value) return i;
  outputs_.push_back({value, make(value)});
  return outputs_.size() - 1;
}

void Graph::finish() {
  // The memory is as it was.
  for (auto& [storage, cell] : cells_) cell.whole.storage().version -= cell.writes;
  // In the order the storages were first read, so that equal recordings give equal graphs.
  for (const Input& input : inputs_) {
    if (input.argument >= 0) {
      const int64_t value = input.tensor.storage().value;
      if (value != input.value) writes_.push_back({value, input.tensor, input.argument});
    } else if (auto it = cells_.find(&input.tensor.storage());
               it != cells_.end() && it->second.writes > 0 &&
               it->second.whole.impl() == input.tensor.impl()) {
      writes_.push_back({it->second.value, it->second.whole});
    }
  }
  if (!outer_) return;
  cells_.clear();
  seen_.clear();
  outer_ = nullptr;
}

}  // namespace tinyt
