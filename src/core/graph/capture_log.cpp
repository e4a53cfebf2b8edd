#include "core/graph/capture_log.h"

#include <bit>
#include <cmath>
#include <utility>

namespace tinyt {

namespace {

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.strides() == b.strides() && a.offset() == b.offset() &&
         a.dtype() == b.dtype();
}

bool share(const Tensor& a, const Tensor& b) { return &a.storage() == &b.storage(); }

int64_t geometry(CaptureLog::Op op, const Tensor& x, int64_t dim) {
  switch (op) {
    case CaptureLog::Op::Size:
      return x.size(static_cast<size_t>(dim));
    case CaptureLog::Op::Stride:
      return x.stride(static_cast<size_t>(dim));
    case CaptureLog::Op::Offset:
      return x.offset();
    default:
      return x.is_contiguous();
  }
}

}  // namespace

void note_seen(const Tensor& x) {
  if (CaptureLog* log = tracing()) log->guard_on(x);
}

CaptureLog::CaptureLog(const Graph& graph) : graph_(graph.id()) {
  table_.on_guard = add_guard;
  table_.owner = this;
  if (graph_ >> 31) fail("too many recordings");
}

void CaptureLog::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

int64_t CaptureLog::of(Op op, const Tensor& x, int64_t dim) {
  const int64_t number = number_of(x);
  if (number < 0) {
    if (x.is_recorded()) fail("a tensor comes from where it is not followed");
    return table_.constant(geometry(op, x, dim));
  }
  return of(op, number, dim, geometry(op, x, dim));
}

// A guard is looked at where it was met: what comes after it may be possible by it alone.
void CaptureLog::add_guard(void* self) {
  auto& log = *static_cast<CaptureLog*>(self);
  log.add(Kind::Guard, {}).number = std::ssize(log.table_.guards()) - 1;
  if (log.on_guard) log.on_guard(log.owner);
}

void CaptureLog::guard_on(const Tensor& x) {
  for (int64_t d = 0; d < x.rank(); ++d) {
    table_.guard_on(of(Op::Size, x, d));
    table_.guard_on(of(Op::Stride, x, d));
  }
  table_.guard_on(of(Op::Offset, x));
}

CaptureLog::Scope::Scope(Graph* graph) {
  if (!graph || !graph->log || graph->log->busy_) return;
  log_ = graph->log;
  log_->busy_ = true;
}

CaptureLog::Scope::~Scope() {
  if (!log_) return;
  log_->busy_ = false;
  if (!is_done_) log_->fail("an operation raises an error");
}

CaptureLog* CaptureLog::Scope::done() {
  is_done_ = true;
  return log_;
}

CaptureLog::Event& CaptureLog::add(Kind kind, std::span<const Tensor> operands) {
  Event event{.kind = kind, .rows = table_.size()};
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

void CaptureLog::made(Event& event, const Tensor& x) {
  mark(x, made_++);
  event.geometries.push_back(geometry_of(x));
}

// With the rows of this log for formulas.
Attrs CaptureLog::own(const Attrs& attrs) const {
  Attrs out = attrs;
  out.formulas.clear();
  for (const auto& [place, code] : attrs.formulas)
    if (const int64_t row = decoded(code); row >= 0) out.formulas.emplace_back(place, row);
  return out;
}

void CaptureLog::argument(const Tensor& like, const Tensor& x) {
  Event& event = add(Kind::Argument, {});
  made(event, x);
  event.geometries[0] = geometry_of(like);
}

void CaptureLog::call(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                      const Outputs& out, Attrs* normalised) {
  Event& event = add(Kind::Call, inputs);
  event.op = op;
  event.attrs = own(attrs);
  event.is_view = !inputs.empty() && share(out.first, inputs[0]);
  for (int i = 0; i < info(op).outputs; ++i) made(event, out[i]);
  if (!normalised) return;
  normalised->formulas.clear();
  const auto number = static_cast<int64_t>(events_.size()) - 1;
  for_each_integer(op, *normalised, [&](size_t place) {
    const int64_t row = table_.add_source(Op::Attribute, number, static_cast<int64_t>(place),
                                          normalised->ints[place]);
    normalised->formulas.emplace_back(place, coded(row));
  });
}

void CaptureLog::into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                      const Tensor& out) {
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  all.push_back(out);
  Event& event = add(Kind::Into, all);
  event.op = op;
  event.attrs = own(attrs);
}

void CaptureLog::assign(const Tensor& to, const Tensor& from) {
  const Tensor both[] = {to, from};
  add(Kind::Assign, both);
}

void CaptureLog::step(std::shared_ptr<const ExternalOp> opaque, std::span<const Tensor> inputs,
                      size_t written) {
  Event& event = add(Kind::Step, inputs);
  event.opaque = std::move(opaque);
  event.written = written;
  for (const Tensor& t : inputs) event.geometries.push_back(geometry_of(t));
}

void CaptureLog::cell(int64_t number) {
  if (!busy_) add(Kind::Cell, {}).number = number;
}

void CaptureLog::output(const Tensor& x) { add(Kind::Output, {&x, 1}); }

// One repetition.
class CaptureLog::Replay {
 public:
  // Into a graph, or (null) as calls that nobody follows, on a device.
  Replay(const CaptureLog& log, std::span<const Tensor> arguments, Graph* graph, Device device = {})
      : log_(log), arguments_(arguments), graph_(graph), device_(device) {}

  // Why it cannot be; nothing where it is done.
  std::string run() {
    attrs_.resize(log_.events_.size());
    for (size_t i = 0; i < log_.events_.size(); ++i) {
      const Event& event = log_.events_[i];
      if (!evaluate(event.rows)) return "a size is beyond 64 bits";
      if (event.kind == Kind::Guard) guard_ = event.number;
      const std::string why = repeat(event, attrs_[i]);
      if (!why.empty()) return why;
    }
    guard_ = -1;
    return evaluate(log_.table_.size()) ? "" : "a size is beyond 64 bits";
  }
  std::vector<int64_t> take_values() { return std::move(values_); }
  std::vector<Tensor> take_outputs() { return std::move(outputs_); }
  int64_t guard() const { return guard_; }

 private:
  bool evaluate(size_t end) {
    const auto read = [&](const SymbolicScalars::Expression& e, int64_t& value) {
      const auto left = static_cast<size_t>(e.left), right = static_cast<size_t>(e.right);
      if (e.op == Op::Attribute) {
        if (right >= attrs_[left].ints.size()) return false;
        value = attrs_[left].ints[right];
      } else {
        value = geometry(e.op, made_[left], e.right);
      }
      return true;
    };
    return log_.table_.evaluate(end, values_, read);
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
      case Kind::Guard: {
        const SymbolicScalars::Guard& guard = log_.table_.guards()[event.number];
        return log_.table_.holds(guard, values_) ? "" : log_.table_.change(guard, values_);
      }
      case Kind::Argument:
        return keep(argument(event.geometries[0]), event.geometries[0]) ? "" : "another argument";
      case Kind::Cell:
        graph_->cell(event.number);
        return "";
      case Kind::Call: {
        const Outputs out = dispatch(event.op, inputs, attrs(event), &normalised);
        // Where nobody follows, nothing is written into.
        bool same = !graph_ || inputs.empty() || share(out.first, inputs[0]) == event.is_view;
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

  const CaptureLog& log_;
  std::span<const Tensor> arguments_;
  Graph* graph_;
  Device device_;
  size_t arguments_seen_ = 0;
  std::vector<Tensor> made_, outputs_;
  std::vector<Attrs> attrs_;  // of calls, normalised
  std::vector<int64_t> values_;
  std::unordered_map<const TensorImpl*, Tensor> numbers_;
  int64_t guard_ = -1;
};

std::optional<std::vector<int64_t>> CaptureLog::replay(std::span<const Tensor> arguments,
                                                       Graph& out, std::string& why,
                                                       int64_t& guard) const {
  Graph* const before = set_recording(&out);
  Replay replay(*this, arguments, &out);
  try {
    why = failure_.empty() ? replay.run() : failure_;
  } catch (const std::exception& error) {
    why = error.what();
  }
  set_recording(before);
  out.finish();
  guard = replay.guard();
  if (!why.empty()) return std::nullopt;
  return replay.take_values();
}

std::optional<std::vector<Tensor>> CaptureLog::run(std::span<const Tensor> arguments,
                                                   Device device) const {
  Replay replay(*this, arguments, nullptr, device);
  if (!failure_.empty() || !replay.run().empty()) return std::nullopt;
  return replay.take_outputs();
}

}  // namespace tinyt
