#include "core/program/serialized_graph.h"

#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>

#include "core/base/checked.h"
#include "core/device/runtime.h"
#include "core/graph/graph_words.h"
#include "core/graph/step_node.h"
#include "core/program/control_flow.h"

namespace tinyt {

namespace {

constexpr int64_t kWordsFormat = 1;
constexpr int kMostNested = 16;  // parts of control flow in each other
constexpr size_t kMostRank = 64;
constexpr int64_t kMostCounter = int64_t{1} << 62;  // of random numbers
constexpr std::string_view kStepForm = "step ", kFlowForm = "flow ";

enum InputKind : int64_t { kArgument, kMemory, kScalar, kNumber, kInputKinds };
enum OutputKind : int64_t { kOwn, kOfArgument, kOfMemory, kOutputKinds };

std::string name_of_row(OpId op) {
  const std::string_view attributes = info(op).attributes;
  return std::string(name_of(op)).append(attributes.empty() ? "" : " ").append(attributes);
}

class GraphWriter {
 public:
  explicit GraphWriter(SerializedGraph& out) : out_(out) {}

  void write(const Graph& graph) {
    add(kWordsFormat);
    write_scalars(graph.shared_scalars()->restorable());
    write_body(graph);
  }

 private:
  void add(int64_t word) { out_.words.push_back(word); }
  void add(double number) { add(std::bit_cast<int64_t>(number)); }
  template <class List>
  void add_list(const List& list) {
    add(static_cast<int64_t>(list.size()));
    for (const auto v : list) add(v);
  }
  void add_geometry(const Tensor& x) {
    add_list(x.shape());
    add_list(x.strides());
    add(x.offset());
  }

  int64_t number_of_name(const std::string& name) {
    const auto [at, is_new] = names_.try_emplace(name, std::ssize(out_.names));
    if (is_new) out_.names.push_back(name);
    return at->second;
  }

  int64_t memory(const Tensor& x) {
    const auto [at, is_new] = memories_.try_emplace(&x.storage(), std::ssize(out_.memories));
    if (is_new) {
      const Dims all{static_cast<int64_t>(x.storage().buffer.bytes / x.itemsize())}, one{1};
      out_.memories.push_back(covers_storage(x) ? x : x.view(all, one, 0));
    }
    return at->second;
  }

  void write_scalars(const RuntimeScalars::Restorable& scalars) {
    add(scalars.given);
    add(std::ssize(scalars.items));
    for (const Tensor& x : scalars.items) {
      add(memory(x));
      add(static_cast<int64_t>(x.dtype()));
      add(x.offset());
    }
    add(std::ssize(scalars.expressions));
    for (const auto& e : scalars.expressions) {
      add(static_cast<int64_t>(e.op));
      add(e.left);
      add(e.right);
      add(e.value);
    }
    add(std::ssize(scalars.guards));
    for (const auto& guard : scalars.guards) {
      add(static_cast<int64_t>(guard.test));
      add(int64_t{guard.outcome});
      add(guard.left);
      add(guard.right);
    }
  }

  // New numbers of a graph's values; -1: nothing uses it.
  struct Numbers {
    std::vector<int64_t> of;
    int64_t next = 0;
    void take(int64_t v) { of[v] = next++; }
  };

  static std::vector<bool> read_values(const Graph& graph) {
    std::vector<bool> is_read(graph.values().size(), false);
    for (const Graph::Node& node : graph.nodes())
      for (int64_t v : node.inputs) is_read[v] = true;
    for (const Graph::Output& output : graph.outputs()) is_read[output.value] = true;
    for (const Graph::Write& write : graph.writes()) is_read[write.value] = true;
    return is_read;
  }

  void write_body(const Graph& graph) {
    Numbers numbers{std::vector<int64_t>(graph.values().size(), -1)};
    // By their storages, the inputs that are written to.
    std::unordered_map<const Storage*, int64_t> places;
    write_inputs(graph, numbers, places);
    const Graph::SplitPoint& split = graph.split_point();
    add(split.node);
    add(static_cast<int64_t>(split.output));
    add(static_cast<int64_t>(split.argument));
    add(std::ssize(graph.nodes()));
    for (const Graph::Node& node : graph.nodes()) write_node(graph, node, numbers);
    write_outputs(graph, numbers);
    add(std::ssize(graph.writes()));
    for (const Graph::Write& write : graph.writes()) {
      add(numbers.of[write.value]);
      add(places.at(&write.target.storage()));
    }
  }

  void write_inputs(const Graph& graph, Numbers& numbers,
                    std::unordered_map<const Storage*, int64_t>& places) {
    std::vector<bool> is_used = read_values(graph);
    for (const Graph::Write& write : graph.writes())
      for (const Graph::Input& input : graph.inputs())
        if (&input.tensor.storage() == &write.target.storage()) is_used[input.value] = true;
    std::vector<const Graph::Input*> kept;
    for (const Graph::Input& input : graph.inputs())
      if (input.argument >= 0 || is_used[input.value]) kept.push_back(&input);
    add(std::ssize(kept));
    for (const Graph::Input* input : kept) {
      const Tensor& x = input->tensor;
      places.try_emplace(&x.storage(), numbers.next);
      numbers.take(input->value);
      if (input->argument >= 0) {
        const Tensor& placeholder = graph.arguments()[input->argument];
        add(kArgument);
        add(input->argument);
        add(static_cast<int64_t>(x.dtype()));
        add(code_of(x.device()));
        add_geometry(placeholder);
        add(int64_t{placeholder.impl()->is_scalar});
      } else if (input->number) {
        add(kNumber);
        add(graph.shared_scalars()->number_of(x));
      } else if (x.impl()->is_scalar) {
        int64_t bits[2] = {};
        std::memcpy(bits, x.host_data(), x.itemsize());
        add(kScalar);
        add(static_cast<int64_t>(x.dtype()));
        add(bits[0]);
        add(bits[1]);
      } else {
        add(kMemory);
        add(memory(x));
        add(static_cast<int64_t>(x.dtype()));
        add_geometry(x);
      }
    }
  }

  void write_node(const Graph& graph, const Graph::Node& node, Numbers& numbers) {
    std::string name;
    if (node.opaque) {
      const std::string_view form = node.opaque->form();
      require(!form.empty(), ErrorKind::NotImplemented, "save: ", node.name(),
              " is an operation of your own, whose code a file does not hold");
      name = std::string(form).append(" ").append(node.name());
    } else {
      name = name_of_row(node.op);
    }
    add(number_of_name(name));
    add(std::ssize(node.inputs));
    for (int64_t v : node.inputs) add(numbers.of[v]);
    add(std::ssize(node.outputs));
    for (int64_t v : node.outputs) {
      numbers.take(v);
      const Graph::Value& value = graph.values()[v];
      add(static_cast<int64_t>(value.dtype));
      add(code_of(value.device));
      add_list(value.shape);
    }
    if (!node.opaque) {
      add_list(node.attrs.ints);
      add_list(node.attrs.floats);
      return;
    }
    add_list(node.opaque->numbers());
    const ExternalOp::Graphs parts = node.opaque->graphs();
    add(std::ssize(parts));
    for (const auto& part : parts) write_body(*part);
  }

  void write_outputs(const Graph& graph, const Numbers& numbers) {
    std::unordered_map<const Storage*, int64_t> own;  // of memory that results share
    add(std::ssize(graph.outputs()));
    for (const Graph::Output& output : graph.outputs()) {
      const Tensor& x = output.tensor;
      if (output.argument >= 0) {
        add(kOfArgument);
        add(output.argument);
      } else if (!x.is_recorded()) {
        add(kOfMemory);
        add(memory(x));
      } else {
        add(kOwn);
        add(own.try_emplace(&x.storage(), std::ssize(own)).first->second);
      }
      add(numbers.of[output.value]);
      add_geometry(x);
    }
  }

  SerializedGraph& out_;
  std::unordered_map<std::string, int64_t> names_;
  std::unordered_map<const Storage*, int64_t> memories_;
};

// What a name of the file stands for.
struct Named {
  OpId op = OpId::kCount;  // kCount: a step that is no row
  std::string_view step, flow;
};

std::vector<Named> resolved(std::span<const std::string> names) {
  std::unordered_map<std::string, OpId> rows;
  for (int i = 0; i < kCallableCount; ++i)
    rows.emplace(name_of_row(static_cast<OpId>(i)), static_cast<OpId>(i));
  std::vector<Named> out;
  for (const std::string_view name : names) {
    Named found;
    if (name.starts_with(kStepForm)) {
      found.step = name.substr(kStepForm.size());
    } else if (name.starts_with(kFlowForm)) {
      found.flow = name.substr(kFlowForm.size());
    } else {
      const auto at = rows.find(std::string(name));
      check_graph(at != rows.end(), "this version has no operation \"", name.substr(0, 200), "\"");
      found.op = at->second;
    }
    out.push_back(found);
  }
  return out;
}

Dims sizes_of(Words& words) {
  Dims out(words.list());
  check_graph(out.size() <= kMostRank, "a tensor has ", out.size(), " dimensions");
  for (int64_t size : out) check_graph(size >= 0, "a size is ", size);
  numel_of(out);
  return out;
}

DType dtype_of(Words& words) { return static_cast<DType>(words.below(kDTypeCount, "dtype")); }

Device place_of(Words& words) {
  const Device device = device_of(words.below(kDeviceCodes, "device"));
  const Runtime* runtime = find_runtime(device.kind);
  require(runtime && device.index < runtime->device_count(), ErrorKind::Device,
          "load: there is no device ", int{device.index}, " of kind ",
          static_cast<int>(device.kind), " here");
  return device;
}

// Of a tensor in a memory of so many bytes.
struct Place {
  Dims shape, strides;
  int64_t offset = 0;
};

Place place_in(Words& words, DType dtype, size_t bytes) {
  Place out{sizes_of(words), Dims(words.list()), words.next()};
  check_graph(out.strides.size() == out.shape.size(), "a tensor has ", out.shape.size(),
              " sizes, but ", out.strides.size(), " strides");
  const auto elements = static_cast<int64_t>(bytes / size_of(dtype));
  int64_t first = out.offset, last = out.offset;
  const bool is_empty = numel_of(out.shape) == 0;  // nothing of it is ever looked at
  bool is_inside = first >= 0 && first < INT64_MAX / 16;
  for (size_t d = 0; is_inside && !is_empty && d < out.shape.size(); ++d) {
    int64_t reach = 0;
    if (out.shape[d] == 1) continue;
    int64_t& end = out.strides[d] < 0 ? first : last;
    is_inside = !__builtin_mul_overflow(out.strides[d], out.shape[d] - 1, &reach) &&
                !__builtin_add_overflow(end, reach, &end);
  }
  is_inside = is_inside && (is_empty || (first >= 0 && last < elements));
  check_graph(is_inside, "a tensor of shape ", out.shape, " lies outside of its memory");
  return out;
}

}  // namespace

// Makes a graph that has what only a recording has; its nodes come with `Graph::rewritten`, which
// checks them.
class GraphReader {
 public:
  GraphReader(Words& words, const std::vector<Named>& names, std::span<const Tensor> memories,
              int64_t generators, int depth)
      : words_(words), names_(names), memories_(memories), generators_(generators), depth_(depth) {}

  std::shared_ptr<Graph> read(const Graph* outer) {
    if (outer) {
      made_.share_scalars(*outer);
    } else {
      check_graph(words_.next() == kWordsFormat, "the words are of another format");
      made_.set_scalars(std::make_shared<RuntimeScalars>(read_scalars()));
    }
    read_inputs();
    read_nodes();
    read_outputs();
    read_writes();
    check_graph(!outer || (made_.split_point_.node < 0 && made_.writes_.empty()),
                "a part of control flow has a split point or writes");
    return made_.rewritten(flat());
  }

 private:
  RuntimeScalars::Restorable read_scalars() {
    RuntimeScalars::Restorable out;
    out.given = words_.below(INT32_MAX, "count");
    for (size_t n = words_.count(); n > 0; --n) {
      const Tensor& memory = read_memory();
      const DType dtype = dtype_of(words_);
      const int64_t at = words_.next();
      check_graph(
          at >= 0 && at < static_cast<int64_t>(memory.storage().buffer.bytes / size_of(dtype)),
          "a number lies outside of its memory");
      out.items.push_back(memory.view_as(dtype, {}, {}, at));
    }
    for (size_t n = words_.count(); n > 0; --n) {
      const auto op = static_cast<SymbolicScalars::Op>(words_.below(256, "operation"));
      const int64_t left = words_.next(), right = words_.next();
      out.expressions.push_back({op, left, right, words_.next()});
    }
    for (size_t n = words_.count(); n > 0; --n) {
      const auto test = static_cast<SymbolicScalars::Test>(words_.below(256, "test"));
      const bool outcome = words_.flag("outcome");
      const int64_t left = words_.next();
      out.guards.push_back({test, outcome, left, words_.next()});
    }
    return out;
  }

  const Tensor& read_memory() { return memories_[words_.below(std::ssize(memories_), "memory")]; }

  // ---- inputs

  void read_inputs() {
    for (size_t n = words_.count(); n > 0; --n) {
      switch (static_cast<InputKind>(words_.below(kInputKinds, "input"))) {
        case kArgument:
          read_argument();
          break;
        case kMemory:
          read_captured();
          break;
        case kScalar:
          read_scalar();
          break;
        default:
          read_number();
      }
      check_graph(made_.inputs_.size() == made_.values_.size(), "an input is there twice");
    }
    is_written_.assign(made_.inputs_.size(), false);
  }

  void read_argument() {
    check_graph(words_.next() == std::ssize(made_.arguments_), "arguments are not in their order");
    const DType dtype = dtype_of(words_);
    const Device device = place_of(words_);
    const Dims shape = sizes_of(words_), strides(words_.list());
    const int64_t offset = words_.next();
    check_graph(strides.size() == shape.size() && offset >= 0, "an argument has ", strides.size(),
                " strides, and offset ", offset);
    int64_t last = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t reach = 0;
      if (numel_of(shape) == 0 || shape[d] == 1) continue;
      check_graph(strides[d] >= 0 && !__builtin_mul_overflow(strides[d], shape[d] - 1, &reach) &&
                      !__builtin_add_overflow(last, reach, &last) && last < INT64_MAX / 16,
                  "the strides of an argument are ", strides);
    }
    Tensor like =
        Tensor::from_storage(Storage::without_memory(0, device), shape, strides, 0, dtype);
    check_graph(depth_ == 0 || like.is_contiguous(), "an argument of a part is not dense");
    like.impl()->is_scalar = words_.flag("scalar");
    made_.add_argument(like);
  }

  void read_captured() {
    const Tensor& memory = read_memory();
    const DType dtype = dtype_of(words_);
    const Place at = place_in(words_, dtype, memory.storage().buffer.bytes);
    check_graph(inputs_.emplace(&memory.storage()).second, "a memory is there twice");
    const bool is_same = dtype == memory.dtype() && at.shape == memory.shape() &&
                         at.strides == memory.strides() && at.offset == memory.offset();
    const Tensor x = is_same ? memory : memory.view_as(dtype, at.shape, at.strides, at.offset);
    check_graph(covers_storage(x), "a captured tensor does not show all of its memory");
    made_.add_input(x);
  }

  void read_scalar() {
    const DType dtype = dtype_of(words_);
    const int64_t bits[2] = {words_.next(), words_.next()};
    const Tensor x = Tensor::number(dtype);
    std::memcpy(x.host_data(), bits, x.itemsize());
    x.impl()->is_scalar = true;
    made_.add_input(x);
  }

  void read_number() {
    const int64_t number =
        words_.below(static_cast<int64_t>(made_.scalars_->table().size()), "number");
    check_graph(SymbolicScalars::is_real(made_.scalars_->table().at(number).op), "number ", number,
                " is an integer");
    made_.cell(number);
  }

  // ---- nodes

  Graph::Value& value(int64_t v) { return made_.values_[v]; }

  int64_t value_number() {
    return words_.below(static_cast<int64_t>(made_.values_.size()), "value");
  }

  void read_nodes() {
    made_.split_point_.node = words_.next();
    made_.split_point_.output = static_cast<size_t>(words_.below(INT32_MAX, "count"));
    made_.split_point_.argument = static_cast<size_t>(words_.below(INT32_MAX, "count"));
    const size_t count = words_.count();
    check_graph(made_.split_point_.node >= -1 &&
                    made_.split_point_.node <= static_cast<int64_t>(count) &&
                    made_.split_point_.argument <= made_.arguments_.size(),
                "there is no such split point");
    for (size_t n = 0; n < count; ++n) read_node(static_cast<int64_t>(n));
    nodes_ = static_cast<int64_t>(count);
  }

  void read_node(int64_t n) {
    const Named& named = names_[words_.below(std::ssize(names_), "operation")];
    Graph::Node node{named.op, DType::Float32, {}, {}, {}, nullptr};
    for (size_t k = words_.count(); k > 0; --k) node.inputs.push_back(value_number());
    const size_t results = words_.count();
    for (size_t k = 0; k < results; ++k) {
      const DType dtype = dtype_of(words_);
      const Device device = place_of(words_);
      const Dims shape = sizes_of(words_);
      bytes_of("load", shape, dtype);
      node.outputs.push_back(std::ssize(made_.values_) + static_cast<int64_t>(k));
      fresh_.push_back({shape, dtype, n, device});
    }
    int64_t origin = -1;
    if (named.op == OpId::kCount) {
      read_step(node, named);
      origin = keep(node);
    } else {
      for (int64_t word : words_.list()) node.attrs.ints.push_back(word);
      for (int64_t word : words_.list()) node.attrs.floats.push_back(std::bit_cast<double>(word));
      if (has_flag(node.op, op_flags::random)) {
        check_random(node);
        origin = keep(node);
      }
    }
    made_.values_.insert(made_.values_.end(), fresh_.begin(), fresh_.end());
    fresh_.clear();
    add_flat(node, origin);
  }

  // What passes cannot add is of the recording: its number there.
  int64_t keep(const Graph::Node& node) {
    made_.nodes_.push_back(node);
    return std::ssize(made_.nodes_) - 1;
  }

  void add_flat(const Graph::Node& node, int64_t origin) {
    const auto add_list = [&](const auto& list) {
      flat_.push_back(static_cast<int64_t>(list.size()));
      flat_.insert(flat_.end(), list.begin(), list.end());
    };
    flat_.push_back(origin);
    if (origin < 0) {
      flat_.push_back(static_cast<int64_t>(node.op));
      add_list(node.attrs.ints);
      flat_.push_back(static_cast<int64_t>(node.attrs.floats.size()));
      for (double x : node.attrs.floats) flat_.push_back(std::bit_cast<int64_t>(x));
    }
    add_list(node.inputs);
    add_list(node.outputs);
  }

  void check_random(Graph::Node& node) {
    check_attrs(node.op, node.attrs);
    const size_t ints = node.attrs.ints.size();
    check_draw(node.attrs.ints[ints - 2], node.attrs.ints[ints - 1]);
    std::vector<Tensor> standing;
    for (int64_t v : node.inputs)
      standing.push_back(Tensor::from_storage(
          Storage::without_memory(value(v).bytes(), value(v).device), value(v).shape,
          contiguous_strides(value(v).shape), 0, value(v).dtype));
    check_graph(std::ssize(standing) == info(node.op).inputs, name_of(node.op), " takes ",
                int{info(node.op).inputs}, " values");
    Inferred inferred;
    infer(node.op, standing, node.attrs, inferred);
    node.compute = inferred.compute;
  }

  void check_draw(int64_t generator, int64_t first) const {
    check_graph(generator >= 0 && generator < generators_ && first >= 0 && first < kMostCounter,
                "draws from generator ", generator, " of ", generators_, " at counter ", first);
  }

  void read_step(Graph::Node& node, const Named& named) {
    Words numbers(words_.list());
    ExternalOp::Graphs parts;
    check_graph(depth_ < kMostNested, "control flow is nested more than ", kMostNested, " deep");
    for (size_t k = words_.count(); k > 0; --k)
      parts.push_back(GraphReader(words_, names_, memories_, generators_, depth_ + 1).read(&made_));
    check_graph(!node.inputs.empty() && !node.outputs.empty(), "a step takes or makes nothing");
    node.compute = value(node.inputs[0]).dtype;
    if (!named.flow.empty()) {
      node.opaque = flow_of(named.flow, numbers, parts, [&](int64_t generator, int64_t counter) {
        check_draw(generator, counter);
      });
    } else {
      check_graph(parts.empty(), "a step of an optimiser runs no recordings");
      node.opaque = step_of(named.step, numbers);
    }
    check_graph(numbers.at_end(), node.name(), ": there are more numbers than it has");
    std::vector<ExternalOp::Geometry> inputs, outputs;
    for (int64_t v : node.inputs)
      inputs.push_back({value(v).shape, value(v).dtype, value(v).device});
    for (const Graph::Value& v : fresh_) outputs.push_back({v.shape, v.dtype, v.device});
    node.opaque->check_operands(inputs, outputs);
  }

  // ---- ends

  const Tensor& own(int64_t group, int64_t v) {
    const auto [at, is_new] = own_.try_emplace(group);
    if (is_new) at->second = made_.make(v);
    check_graph(at->second.storage().buffer.bytes == value(v).bytes(),
                "results of one memory have different sizes");
    return at->second;
  }

  void read_outputs() {
    const size_t count = words_.count();
    check_graph(made_.split_point_.output <= count, "there are ", count, " results");
    for (size_t n = 0; n < count; ++n) {
      const auto kind = static_cast<OutputKind>(words_.below(kOutputKinds, "result"));
      const int64_t which = words_.next();
      const int64_t v = value_number();
      const DType dtype = value(v).dtype;
      Tensor memory;
      size_t bytes = 0;
      if (kind == kOwn) {
        memory = own(which, v);
        bytes = value(v).bytes();
      } else if (kind == kOfArgument) {
        check_graph(which >= 0 && which < std::ssize(made_.arguments_), "there is no argument ",
                    which);
        memory = made_.arguments_[which];
        for (const Graph::Input& input : made_.inputs_)
          if (input.argument == which) bytes = value(input.value).bytes();
      } else {
        check_graph(which >= 0 && which < std::ssize(memories_), "there is no memory ", which);
        memory = memories_[which];
        bytes = memory.storage().buffer.bytes;
      }
      check_graph(memory.device() == value(v).device, "a result is on another device");
      const Place at = place_in(words_, dtype, bytes);
      made_.outputs_.push_back({v, memory.view_as(dtype, at.shape, at.strides, at.offset),
                                kind == kOfArgument ? which : -1});
    }
  }

  void read_writes() {
    for (size_t n = words_.count(); n > 0; --n) {
      const int64_t v = value_number();
      const int64_t to = words_.below(std::ssize(made_.inputs_), "input");
      const Graph::Input& input = made_.inputs_[to];
      const Graph::Value &now = value(v), &was = value(input.value);
      check_graph(now.shape == was.shape && now.dtype == was.dtype && now.device == was.device,
                  "what is written has another shape, dtype or device than the memory");
      check_graph(!input.number && !input.tensor.impl()->is_scalar && !is_written_[to], "input ",
                  to, " is written twice, or a number");
      is_written_[to] = true;
      made_.writes_.push_back({v, input.tensor, input.argument});
    }
  }

  std::vector<int64_t> flat() const {
    // Of the format of Graph::rewritten: no new values, no new inputs.
    std::vector<int64_t> out{1, std::ssize(made_.values_), 0, 0, nodes_, made_.split_point_.node};
    out.insert(out.end(), flat_.begin(), flat_.end());
    out.push_back(std::ssize(made_.outputs_));
    for (const Graph::Output& output : made_.outputs_) out.push_back(output.value);
    out.push_back(std::ssize(made_.writes_));
    for (const Graph::Write& write : made_.writes_) out.push_back(write.value);
    return out;
  }

  Words& words_;
  const std::vector<Named>& names_;
  std::span<const Tensor> memories_;
  int64_t generators_;
  int depth_;
  Graph made_;
  std::vector<int64_t> flat_;
  int64_t nodes_ = 0;
  std::vector<Graph::Value> fresh_;  // of the node that is read
  std::unordered_set<const Storage*> inputs_;
  std::vector<bool> is_written_;
  std::map<int64_t, Tensor> own_;  // results' memory
};

SerializedGraph serialize(const Graph& graph) {
  SerializedGraph out;
  GraphWriter(out).write(graph);
  return out;
}

std::shared_ptr<Graph> deserialize(std::span<const int64_t> words,
                                   std::span<const std::string> names,
                                   std::span<const Tensor> memories, int64_t generators) {
  const std::vector<Named> named = resolved(names);
  Words all(words);
  auto graph = GraphReader(all, named, memories, generators, 0).read(nullptr);
  check_graph(all.at_end(), "there are more words than the graph has");
  return graph;
}

}  // namespace tinyt
