#include "gpu/fused_loops.h"

#include <algorithm>

#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

const std::string kLanes = std::to_string(kReduceLanes);

}  // namespace

// Where column `j` of a load lies behind its row's first one.
std::string FusedLoops::column(int k) const {
  const Inner inner = form_.loads[static_cast<size_t>(k)];
  if (columns_ == 0) return "0";
  if (columns_ == 1 && inner != Inner::Strided) return inner == Inner::Dense ? "j" : "0";
  if (columns_ == 1) return "j * " + stride(k, rows());
  std::string at, below = "1";
  for (size_t d = rows() + columns_; d-- > rows();) {
    at += (at.empty() ? "" : " + ") + digit("j", below, d == rows() ? "" : size(d)) + " * " +
          stride(k, d);
    below = below == "1" ? size(d) : below + " * " + size(d);
  }
  return at;
}

void FusedLoops::print_load(int k, const std::string& name, const std::string& column) {
  if (is_number(k)) {
    const size_t word = words_.load(static_cast<size_t>(k));
    return write().constant(held(value(k).dtype), name,
                            of_word(value(k).dtype, write().word(word), write().word(word + 1)));
  }
  const std::string place = numbered("first", k) + (column == "0" ? "" : " + " + column);
  const DType dtype = value(k).dtype;
  write().constant(held(dtype), name, unpacked(k, write().element(dtype, numbered("a", k), place)));
}

void FusedLoops::print_target(const Target& target, const std::string& value) {
  if (target.own) return write().assign(at(target.memory, target.place), value);
  const auto half = [&] {
    return ValueSource::packed(target.dtype, call_cast(value, DType::Float32, target.dtype));
  };
  write().set_element(target.dtype, target.memory, target.place, target.halves ? half() : value);
}

// A whole group.
void FusedLoops::print_vectors(const Target& target, const std::string& array) {
  const int64_t lanes = dialect().lanes;
  write().open_for(ScalarType::I32, "l", "0", "l < " + kLanes, "l += " + std::to_string(lanes));
  write().constant(dialect().index, "j",
                   "group + " + write().cast(write().type(dialect().index), "l"));
  write().line(
      filled(target.vectors, {{'T', target.type},
                              {'C', filled(dialect().vector_load, {{'N', array}, {'E', "l"}})},
                              {'N', target.memory},
                              {'E', target.place}}));
  write().close();
}

void FusedLoops::print_values(const std::vector<int>& values, Form form) {
  for (const int v : values) {
    if (is_load(v)) {
      print_load(v, name_of_value(v), column(v));
    } else if (is_kept(v)) {
      write().constant(held(value(v).dtype), name_of_value(v),
                       at(numbered("kept", v), "j - kept_from"));
    } else if (!reduces(op_of(v))) {
      write().constant(held(value(v).dtype), name_of_value(v), result_of(v, form));
    }
  }
}

// ---- values of a row

void FusedLoops::print_row_loads() {
  std::vector<bool> read(kernel().values.size(), false);
  for (size_t i = 0; i < kernel().ops.size(); ++i) {
    const int v = kernel().made_by(i);
    if (!is_live(v) || !value(v).per_row || reduces(op_of(v))) continue;
    for (const Operand& in : op_of(v).in) read[static_cast<size_t>(in.value)] = true;
  }
  for (int k = 0; k < kernel().loads; ++k)
    if (read[static_cast<size_t>(k)]) print_load(k, row_load(k), "0");
}

void FusedLoops::print_row_values(const std::vector<int>& wanted) {
  for (const int v : needs(wanted, true)) {
    if (is_load(v) || reduces(op_of(v)) || row_done_[static_cast<size_t>(v)]) continue;
    row_done_[static_cast<size_t>(v)] = true;
    const ScalarType type = held(value(v).dtype);
    write().variable(type, name_of_value(v), literal(type, 0, dialect()));
    write().open("");
    std::vector<int> loads;
    for (const Operand& in : op_of(v).in)
      if (is_load(in.value) && std::ranges::find(loads, in.value) == loads.end())
        loads.push_back(in.value);
    for (const int k : loads) write().constant(held(value(k).dtype), name_of_value(k), row_load(k));
    write().assign(name_of_value(v), result_of(v));
    write().close();
  }
}

void FusedLoops::print_row_operands(const std::vector<int>& wanted) {
  std::vector<int> missing;
  const auto add = [&](int v) {
    if (!is_load(v) && value(v).per_row) missing.push_back(v);
  };
  for (const int v : wanted) add(v);
  for (const int v : needs(wanted, false))
    if (!is_load(v) && !reduces(op_of(v)))
      for (const Operand& in : op_of(v).in) add(in.value);
  print_row_values(missing);
}

// ---- loops

bool FusedLoops::any_rare(const std::vector<int>& values) const {
  return std::ranges::any_of(values,
                             [&](int v) { return !is_load(v) && !is_kept(v) && has_rare(v); });
}

std::string FusedLoops::taken(int reduction) {
  const int from = op_of(reduction).in[0].value;
  return call_cast(name_of_value(from), value(from).dtype, info(value(reduction).dtype).compute);
}

void FusedLoops::print_elements(const std::string& first, const std::string& end,
                                const std::vector<int>& wanted,
                                const std::vector<Target>& targets) {
  const std::vector<int> values = needs(wanted, false);
  const bool vectors =
      std::ranges::any_of(targets, [](const Target& t) { return !t.vectors.empty(); });
  if (any_rare(values) || vectors)
    return print_groups(first, end, [&](const std::string& lanes) {
      print_staged_group(lanes, {}, values, targets);
    });
  if (!dialect().independent.empty()) write().line(std::string(dialect().independent));
  open_elements(first, end);
  print_whole({}, values, targets);
}

// Of a thread.
void FusedLoops::open_elements(const std::string& first, const std::string& end) {
  if (!by_lanes()) return write().open_count(dialect().index, "j", first, end);
  write().open_for(dialect().index, "j", first + " + lane", "j < " + end, "j += " + kLanes);
}

// Of element j, whose loop ends with it.
void FusedLoops::print_whole(const std::vector<int>& reductions, const std::vector<int>& values,
                             const std::vector<Target>& targets) {
  print_values(values, Form::Whole);
  for (const int v : reductions) write().assign(lane_of(v), joined_lane(v, taken(v)));
  for (const Target& target : targets) print_target(target, target.value);
  write().close();
}

// Whole groups have a loop of their own where loops become vectors: with a constant end.
template <class F>
void FusedLoops::print_groups(const std::string& first, const std::string& end, const F& group) {
  const ScalarType index = dialect().index, small = ScalarType::I32;
  const auto rest = write().cast(write().type(small), "(" + end + " - group)");
  if (has_vectors()) {
    write().open("");
    write().variable(index, "group", first);
    write().open("for (; " + end + " - group >= " + kLanes + "; group += " + kLanes + ")");
    group(kLanes);
    write().close();
    write().open_if("group < " + end);
    write().constant(small, "lanes", rest);
    group("lanes");
    write().close();
    write().close();
    return;
  }
  write().open_for(index, "group", first, "group < " + end, "group += " + kLanes);
  write().variable(small, "lanes", kLanes);
  write().open_if(end + " - group < " + kLanes);
  write().assign("lanes", rest);
  write().close();
  group("lanes");
  write().close();
}

void FusedLoops::print_lanes(const std::vector<int>& reductions, const std::vector<int>& wanted,
                             const std::vector<Target>& targets) {
  if (by_lanes()) {
    open_elements("begin", "end");
    return print_whole(reductions, needs(wanted, false), targets);
  }
  print_groups("begin", "end",
               [&](const std::string& lanes) { print_group(lanes, reductions, wanted, targets); });
}

void FusedLoops::open_lanes(const std::string& lanes, bool with_column) {
  const ScalarType index = dialect().index;
  write().open_count(ScalarType::I32, "l", "0", lanes);
  if (with_column)
    write().constant(index, "j", "group + " + write().cast(write().type(index), "l"));
}

void FusedLoops::print_group(const std::string& lanes, const std::vector<int>& reductions,
                             const std::vector<int>& wanted, const std::vector<Target>& targets) {
  const std::vector<int> values = needs(wanted, false);
  const bool apart = std::ranges::all_of(targets, [](const Target& t) { return t.own; });
  if (any_rare(values) || (has_vectors() && !apart))
    return print_staged_group(lanes, reductions, values, targets);
  open_lanes(lanes,
             !targets.empty() || std::ranges::any_of(values, [&](int v) { return moves(v); }));
  print_whole(reductions, values, targets);
}

// First into arrays of the group's own: what the kernel writes to may be what it reads.
void FusedLoops::print_staged_group(const std::string& lanes, const std::vector<int>& reductions,
                                    const std::vector<int>& values,
                                    const std::vector<Target>& targets) {
  const bool rare = any_rare(values);
  const auto array = [](size_t k) { return numbered("b", static_cast<int64_t>(k)); };
  const auto item = [&](size_t k) { return at(array(k), "l"); };
  const auto taken_item = [](int v) { return at(numbered("t", v), "l"); };
  for (const int v : reductions) write().array(accumulator(v), numbered("t", v), kReduceLanes);
  for (size_t k = 0; k < targets.size(); ++k)
    write().line(filled(dialect().array, {{'T', targets[k].type}, {'N', array(k)}, {'E', kLanes}}));
  const auto compute = [&](Form form) {
    open_lanes(lanes, std::ranges::any_of(values, [&](int v) { return moves(v) || is_kept(v); }));
    if (form == Form::Common) write().variable(ScalarType::U32, "rare", "0");
    if (rare && form == Form::Whole) {
      write().open_if("flag[l] == 0");
      write().line("continue;");
      write().close();
    }
    print_values(values, form);
    if (form == Form::Common) {
      write().assign("flag[l]", "rare");
      write().line("flags |= rare;");
    }
    for (const int v : reductions) write().assign(taken_item(v), taken(v));
    for (size_t k = 0; k < targets.size(); ++k) write().assign(item(k), targets[k].value);
    write().close();
  };
  if (rare) {
    write().array(ScalarType::U32, "flag", kReduceLanes);
    write().variable(ScalarType::U32, "flags", "0");
  }
  compute(rare ? Form::Common : Form::Whole);
  if (rare) {
    write().open_if("flags != 0");
    compute(Form::Whole);
    write().close();
  }
  const auto by_vectors = [&](const Target& t) { return !t.vectors.empty() && lanes == kLanes; };
  for (size_t k = 0; k < targets.size(); ++k)
    if (by_vectors(targets[k])) print_vectors(targets[k], array(k));
  if (reductions.empty() && std::ranges::all_of(targets, by_vectors)) return;
  open_lanes(lanes, !targets.empty());
  for (const int v : reductions) write().assign(lane_of(v), joined_lane(v, taken_item(v)));
  for (size_t k = 0; k < targets.size(); ++k)
    if (!by_vectors(targets[k])) print_target(targets[k], item(k));
  write().close();
}

}  // namespace tinyt::gpu
