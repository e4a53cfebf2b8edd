#include "core/graph/trace.h"

#include <bit>
#include <cmath>
#include <utility>

namespace tinyt {

namespace {

constexpr int64_t kExactReal = int64_t{1} << 53;  // whole numbers up to here are doubles

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.strides() == b.strides() && a.offset() == b.offset() &&
         a.dtype() == b.dtype();
}

bool share(const Tensor& a, const Tensor& b) { return &a.storage() == &b.storage(); }

// Whether a result is one; nothing where what is computed is beyond exact numbers.
bool compute(Trace::Op op, int64_t a, int64_t b, int64_t& out) {
  using Op = Trace::Op;
  const double left = std::bit_cast<double>(a), right = std::bit_cast<double>(b);
  double real;
  switch (op) {
    case Op::Add:
      return compute(Sizes::Op::Add, a, b, out);
    case Op::Sub:
      return compute(Sizes::Op::Sub, a, b, out);
    case Op::Mul:
      return compute(Sizes::Op::Mul, a, b, out);
    case Op::FloorDiv:
      return compute(Sizes::Op::FloorDiv, a, b, out);
    case Op::Mod:
      return compute(Sizes::Op::Mod, a, b, out);
    case Op::Real:
      if (a > kExactReal || a < -kExactReal) return false;
      real = static_cast<double>(a);
      break;
    case Op::RealAdd:
      real = left + right;
      break;
    case Op::RealSub:
      real = left - right;
      break;
    case Op::RealMul:
      real = left * right;
      break;
    default:
      if (right == 0) return false;
      real = left / right;
  }
  out = std::bit_cast<int64_t>(real);
  return true;
}

int64_t geometry(Trace::Op op, const Tensor& x, int64_t dim) {
  switch (op) {
    case Trace::Op::Size:
      return x.size(static_cast<size_t>(dim));
    case Trace::Op::Stride:
      return x.stride(static_cast<size_t>(dim));
    case Trace::Op::Offset:
      return x.offset();
    default:
      return x.is_contiguous();
  }
}

}  // namespace

void note_seen(const Tensor& x) {
  if (Trace* trace = tracing()) trace->hold(x);
}

Trace::Trace(const Graph& graph) : graph_(graph.id()) {
  if (graph_ >> 31) fail("too many recordings");
}

void Trace::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

int64_t Trace::of(Op op, const Tensor& x, int64_t dim) {
  const int64_t number = number_of(x);
  if (number < 0) {
    if (x.is_recorded()) fail("a tensor comes from where it is not followed");
    return constant(geometry(op, x, dim));
  }
  return of(op, number, dim, geometry(op, x, dim));
}

int64_t Trace::of(Op op, int64_t made, int64_t dim, int64_t value) {
  const auto [at, is_new] = known_.try_emplace(row_key(static_cast<uint8_t>(op), made, dim),
                                               static_cast<int64_t>(rows_.size()));
  if (is_new) add({op, made, dim, value});
  return at->second;
}

void Trace::add(Row row) {
  require(std::ssize(rows_) < kMostRows, ErrorKind::Runtime, "trace: more than ", kMostRows,
          " numbers");
  rows_.push_back(row);
}

int64_t Trace::apply(Op op, int64_t left, int64_t right) {
  const auto number = static_cast<int64_t>(rows_.size());
  if (op == Op::Constant) {
    const auto [at, is_new] = constants_.try_emplace(left, number);
    if (is_new) add({op, -1, -1, left});
    return at->second;
  }
  const auto [at, is_new] =
      known_.try_emplace(row_key(static_cast<uint8_t>(op), left, right), number);
  if (is_new) {
    int64_t value = 0;
    const int64_t b = right < 0 ? 0 : rows_[right].value;
    require(compute(op, rows_[left].value, b, value), ErrorKind::Runtime,
            "sizes: ", rows_[left].value, " and ", b, " are beyond 64 bits");
    add({op, left, right, value});
  }
  return at->second;
}

bool Trace::test(Test test, int64_t left, int64_t right) {
  const bool outcome = compare(test, rows_[left].value, rows_[right].value);
  if (left == right || (rows_[left].op == Op::Constant && rows_[right].op == Op::Constant))
    return outcome;
  if (asked_.try_emplace(row_key(static_cast<uint8_t>(test), left, right), true).second) {
    Event event{.kind = Kind::Test, .rows = rows_.size()};
    event.test = test;
    event.outcome = outcome;
    event.left = left;
    event.right = right;
    events_.push_back(std::move(event));
    ++tests_;
    if (on_test) on_test(owner);
  }
  return outcome;
}

void Trace::hold(const Tensor& x) {
  for (int64_t d = 0; d < x.rank(); ++d) {
    hold(of(Op::Size, x, d));
    hold(of(Op::Stride, x, d));
  }
  hold(of(Op::Offset, x));
}

Trace::Scope::Scope(Graph* graph) {
  if (!graph || !graph->trace || graph->trace->busy_) return;
  trace_ = graph->trace;
  trace_->busy_ = true;
}

Trace::Scope::~Scope() {
  if (!trace_) return;
  trace_->busy_ = false;
  if (!is_done_) trace_->fail("an operation raises an error");
}

Trace* Trace::Scope::done() {
  is_done_ = true;
  return trace_;
}

Trace::Event& Trace::add(Kind kind, std::span<const Tensor> operands) {
  Event event{.kind = kind, .rows = rows_.size()};
  for (const Tensor& t : operands) {
    const int64_t number = number_of(t);
    if (number < 0 && t.is_recorded()) fail("a tensor comes from where it is not followed");
    if (number >= 0 && t.impl()->is_scalar && !t.is_recorded()) {
      event.operands.push_back({.row = number, .fixed = t});
    } else if (number >= 0) {
      event.operands.push_back({.made = number});
    } else {
      event.operands.push_back({.fixed = t});
    }
  }
  events_.push_back(std::move(event));
  return events_.back();
}

void Trace::made(Event& event, const Tensor& x) {
  require(made_ < kMostRows, ErrorKind::Runtime, "trace: more than ", kMostRows, " tensors");
  mark(x, made_++);
  event.geometries.push_back(geometry_of(x));
}

// With the rows of this trace for formulas.
Attrs Trace::own(const Attrs& attrs) const {
  Attrs out = attrs;
  out.formulas.clear();
  for (const auto& [place, code] : attrs.formulas)
    if (const int64_t row = decoded(code); row >= 0) out.formulas.emplace_back(place, row);
  return out;
}

void Trace::argument(const Tensor& like, const Tensor& x) {
  Event& event = add(Kind::Argument, {});
  made(event, x);
  event.geometries[0] = geometry_of(like);
}

void Trace::call(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Outputs& out,
                 Attrs* normalised) {
  Event& event = add(Kind::Call, inputs);
  event.op = op;
  event.attrs = own(attrs);
  event.outcome = !inputs.empty() && share(out.first, inputs[0]);
  for (int i = 0; i < info(op).outputs; ++i) made(event, out[i]);
  if (!normalised) return;
  normalised->formulas.clear();
  const auto number = static_cast<int64_t>(events_.size()) - 1;
  for_each_integer(op, *normalised, [&](size_t place) {
    normalised->formulas.emplace_back(place, coded(static_cast<int64_t>(rows_.size())));
    add({Op::Attribute, number, static_cast<int64_t>(place), normalised->ints[place]});
  });
}

void Trace::into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Tensor& out) {
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  all.push_back(out);
  Event& event = add(Kind::Into, all);
  event.op = op;
  event.attrs = own(attrs);
}

void Trace::assign(const Tensor& to, const Tensor& from) {
  const Tensor both[] = {to, from};
  add(Kind::Assign, both);
}

void Trace::step(std::shared_ptr<const ExternalOp> opaque, std::span<const Tensor> inputs,
                 size_t written) {
  Event& event = add(Kind::Step, inputs);
  event.opaque = std::move(opaque);
  event.written = written;
  for (const Tensor& t : inputs) event.geometries.push_back(geometry_of(t));
}

void Trace::cell(int64_t number) {
  if (!busy_) add(Kind::Cell, {}).left = number;
}

void Trace::output(const Tensor& x) { add(Kind::Output, {&x, 1}); }

// One repetition.
class Trace::Replay {
 public:
  // Into a graph, or (null) as calls that nobody follows, on a device.
  Replay(const Trace& trace, std::span<const Tensor> arguments, Graph* graph, Device device = {})
      : trace_(trace), arguments_(arguments), graph_(graph), device_(device) {}

  // Why it cannot be; nothing where it is done.
  std::string run() {
    attrs_.resize(trace_.events_.size());
    for (size_t i = 0; i < trace_.events_.size(); ++i) {
      const Event& event = trace_.events_[i];
      if (!evaluate(event.rows)) return "a size is beyond 64 bits";
      test_ += event.kind == Kind::Test;
      const std::string why = event.kind == Kind::Test ? asked(event) : repeat(event, attrs_[i]);
      if (!why.empty()) return why;
    }
    test_ = -1;
    return evaluate(trace_.rows_.size()) ? "" : "a size is beyond 64 bits";
  }
  std::vector<int64_t> take_values() { return std::move(values_); }
  std::vector<Tensor> take_outputs() { return std::move(outputs_); }
  int64_t test() const { return test_; }

 private:
  bool evaluate(size_t end) {
    for (size_t i = values_.size(); i < end; ++i) {
      const Row& row = trace_.rows_[i];
      int64_t value = row.value;
      if (row.op == Op::Attribute) {
        const auto& ints = attrs_[row.left].ints;
        if (static_cast<size_t>(row.right) >= ints.size()) return false;
        value = ints[row.right];
      } else if (row.op >= Op::Add) {
        const int64_t right = row.right < 0 ? 0 : values_[row.right];
        if (!compute(row.op, values_[row.left], right, value)) return false;
      } else if (row.op != Op::Constant) {
        value = geometry(row.op, made_[row.left], row.right);
      }
      values_.push_back(value);
    }
    return true;
  }

  std::string asked(const Event& event) {
    const int64_t left = values_[event.left], right = values_[event.right];
    if (compare(event.test, left, right) == event.outcome) return "";
    const Row& was = trace_.rows_[event.left];
    if (was.op >= Op::Real)
      return std::to_string(std::bit_cast<double>(was.value)) + " before, now " +
             std::to_string(std::bit_cast<double>(left));
    return relation(was.value, trace_.rows_[event.right].value) + " before, now " +
           relation(left, right);
  }

  Tensor operand(const Operand& from) {
    if (from.made >= 0) return made_[from.made];
    if (from.row < 0) return from.fixed;
    Tensor& number = numbers_[from.fixed.impl()];  // one for each: it is one input
    const int64_t value = values_[from.row];
    if (!number)
      number = from.fixed.dtype() == DType::Float64 ? Tensor::scalar(std::bit_cast<double>(value))
                                                    : Tensor::scalar(value);
    return number;
  }

  Attrs attrs(const Event& event) {
    Attrs out = event.attrs;
    for (const auto& [place, row] : out.formulas) out.ints[place] = values_[row];
    out.formulas.clear();
    if (!graph_ && has_flag(event.op, op_flags::on_device))
      out.ints[device_place(event.op, out)] = code_of(device_);
    return out;
  }

  Tensor argument(const Tensor& was) {
    const size_t number = arguments_seen_++;
    const bool is_given = number < arguments_.size() && arguments_[number];
    if (!graph_) return arguments_[number];
    return graph_->add_argument(is_given ? arguments_[number] : was);
  }

  // What a call has made: of the rank and dtype that it was.
  bool keep(const Tensor& x, const Tensor& was) {
    made_.push_back(x);
    return x.rank() == was.rank() && x.dtype() == was.dtype();
  }

  std::string repeat(const Event& event, Attrs& normalised) {
    std::vector<Tensor> inputs;
    for (const Operand& x : event.operands) inputs.push_back(operand(x));
    switch (event.kind) {
      case Kind::Argument:
        return keep(argument(event.geometries[0]), event.geometries[0]) ? "" : "another argument";
      case Kind::Cell:
        graph_->cell(event.left);
        return "";
      case Kind::Call: {
        const Outputs out = dispatch(event.op, inputs, attrs(event), &normalised);
        // Where nobody follows, nothing is written into.
        bool same = !graph_ || inputs.empty() || share(out.first, inputs[0]) == event.outcome;
        for (int i = 0; i < info(event.op).outputs; ++i)
          same = keep(out[i], event.geometries[static_cast<size_t>(i)]) && same;
        return same ? "" : std::string(name_of(event.op)) + " is a view in one case alone";
      }
      case Kind::Into: {
        const Tensor out = inputs.back();
        inputs.pop_back();
        dispatch_into(event.op, inputs, attrs(event), out);
        return "";
      }
      case Kind::Assign:
        tinyt::assign(inputs[0], inputs[1]);
        return "";
      case Kind::Step:
        for (size_t i = 0; i < inputs.size(); ++i)
          if (!same_geometry(inputs[i], event.geometries[i]))
            return std::string(event.opaque->name()) + " takes a tensor of another size";
        graph_->record(event.opaque, inputs, event.written);
        return "";
      default:
        if (graph_) graph_->add_output(inputs[0]);
        outputs_.push_back(std::move(inputs[0]));
        return "";
    }
  }

  const Trace& trace_;
  std::span<const Tensor> arguments_;
  Graph* graph_;
  Device device_;
  size_t arguments_seen_ = 0;
  std::vector<Tensor> made_, outputs_;
  std::vector<Attrs> attrs_;  // of calls, normalised
  std::vector<int64_t> values_;
  std::unordered_map<const TensorImpl*, Tensor> numbers_;
  int64_t test_ = -1;
};

std::optional<std::vector<int64_t>> Trace::replay(std::span<const Tensor> arguments, Graph& out,
                                                  std::string& why, int64_t& test) const {
  Graph* const before = set_recording(&out);
  Replay replay(*this, arguments, &out);
  try {
    why = failure_.empty() ? replay.run() : failure_;
  } catch (const std::exception& error) {
    why = error.what();
  }
  set_recording(before);
  out.finish();
  test = replay.test();
  if (!why.empty()) return std::nullopt;
  return replay.take_values();
}

std::optional<std::vector<Tensor>> Trace::run(std::span<const Tensor> arguments,
                                              Device device) const {
  Replay replay(*this, arguments, nullptr, device);
  if (!failure_.empty() || !replay.run().empty()) return std::nullopt;
  return replay.take_outputs();
}

}  // namespace tinyt
