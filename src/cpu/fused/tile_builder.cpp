#include "cpu/fused/tile_builder.h"

#include <algorithm>

#include "cpu/elementwise/elementwise.h"

namespace tinyt::cpu {

namespace {

// From so many operations on halves on, converting in between costs more than it saves.
constexpr int64_t kFewHalves = 3;

// Their kernels for halves look at bits alone, and they round nothing.
bool keeps_bits(OpId op) { return op == OpId::neg || op == OpId::abs || op == OpId::relu; }

}  // namespace

TileBuilder::TileBuilder(const FusedKernel& kernel)
    : kernel_(kernel), is_read_(kernel.values.size()) {
  const auto on_halves = [](const FusedKernel::Op& op) {
    return info(op.op).kind == OpKind::Scalar && is_half(op.compute) && !keeps_bits(op.op);
  };
  widens_ = std::ranges::count_if(kernel.ops, on_halves) >= kFewHalves;
  for (const FusedKernel::Op& op : kernel.ops)
    for (const Operand& in : op.in) is_read_[in.value] = true;
}

void TileBuilder::run() {
  for (size_t i = 0; i < kernel_.ops.size(); ++i) {
    const FusedKernel::Op& op = kernel_.ops[i];
    const int v = kernel_.made_by(i);
    if (info(op.op).kind == OpKind::Scalar) {
      add_scalar(op, v);
    } else if (info(op.op).kind == OpKind::Reduce) {
      add_reduction(op, v);
    } else {
      add_cast(op, v);
    }
    if (std::ranges::find(kernel_.stores, v) != kernel_.stores.end()) add_output(v);
  }
  drop_unused();
  finish();
  place();
}

void TileBuilder::add_output(int v) {
  const auto& [dtype, per_row] = value(v);
  int r = made(v).is;
  if (made(v).wide) r = cast(r, dtype, tiles.registers[r].per_row, dtype);
  // Two results, or a result and an operand, that are the same have memory each.
  if (r < 0 || tiles.registers[r].per_row != per_row ||
      std::ranges::find(tiles.outputs, r) != tiles.outputs.end())
    r = copy(r, per_row);
  tiles.outputs.push_back(r);
}

DType TileBuilder::dtype_of(int r) const {
  return r < 0 ? operands[~r].dtype : tiles.registers[r].dtype;
}

int TileBuilder::input(int load, DType dtype, DType through) {
  if (load == kernel_.front.load) through = dtype;  // one operand, whoever reads it
  for (size_t i = 0; i < operands.size(); ++i) {
    const CompiledKernel::Operand& have = operands[i];
    if (have.load == load && have.dtype == dtype &&
        (have.through == through || !is_integral(through)))
      return ~static_cast<int>(i);
  }
  operands.push_back({load, dtype, through});
  return ~static_cast<int>(operands.size() - 1);
}

int TileBuilder::add(DType dtype, bool per_row) {
  tiles.registers.push_back({dtype, per_row});
  return static_cast<int>(tiles.registers.size()) - 1;
}

int TileBuilder::copy(int from, bool per_row) {
  const int out = add(dtype_of(from), per_row);
  tiles.steps.push_back({OpId::cast, dtype_of(from), out, {from}, 1});
  return out;
}

int TileBuilder::cast(int from, DType to, bool per_row, DType half) {
  if (dtype_of(from) == to && half == DType::Float32) return from;
  // What an operand gives each row is not what it gives all elements.
  for (const LiveBuffer& held : casts_)
    if (held.from == from && held.dtype == to && held.half == half &&
        tiles.registers[held.is].per_row == per_row)
      return held.is;
  const int out = add(to, per_row);
  tiles.steps.push_back({OpId::cast, dtype_of(from), out, {from}, 1, half});
  casts_.push_back({from, to, half, out});
  return out;
}

// The register becomes the value: a half that is read again stays wide.
void TileBuilder::make(int v, int is) {
  const DType dtype = value(v).dtype;
  const bool per_row = is >= 0 ? tiles.registers[is].per_row : value(v).per_row;
  if (is_half(dtype) && dtype_of(is) == DType::Float32 && is_read_[v]) {
    made_.push_back({cast(is, DType::Float32, per_row, dtype), true});
  } else {
    made_.push_back({cast(is, dtype, per_row), false});
  }
}

// Whether an operation on halves runs their own kernel, which gives the bits of float32's, rounded.
bool TileBuilder::stays_half(const FusedKernel::Op& op, DType dtype) const {
  if (dtype != op.compute || (widens_ && !keeps_bits(op.op))) return false;
  return std::ranges::none_of(
      op.in, [&](const Operand& in) { return is_made(in.value) && made(in.value).wide; });
}

// A value as the kernel takes it: converted as the eager call does (cpu/elementwise.cpp).
int TileBuilder::operand(const Operand& in, DType want, DType compute, bool by_row) {
  const DType have = value(in.value).dtype;
  int r = 0;
  bool per_row = by_row;
  if (is_made(in.value)) {
    const Made& m = made(in.value);
    r = m.is;
    per_row = r < 0 ? value(in.value).per_row : tiles.registers[r].per_row;
    if (m.wide && want == have) return cast(r, want, per_row, want);
    if (m.wide && want == DType::Float32) return r;
  } else {
    r = input(in.value, in.single ? want : have, compute);
    if (in.single) return r;
  }
  if (in.single && is_integral(compute) && want != DType::Bool) r = cast(r, compute, per_row);
  if (dtype_of(r) == want) return r;
  r = cast(r, want, per_row);
  if (in.single || have == compute || want == compute || want == DType::Bool) return r;
  return cast(cast(r, compute, per_row), want, per_row);
}

void TileBuilder::add_scalar(const FusedKernel::Op& op, int v) {
  bool mixed = false;
  for (const Operand& in : op.in) mixed |= value(in.value).dtype != op.compute;
  DType dtype = kernel_dtype(op.op, op.compute, mixed);
  if (is_half(dtype) && !stays_half(op, dtype)) dtype = DType::Float32;
  TileProgram::Step step{op.op, dtype, 0, {}, static_cast<int>(op.in.size())};
  for (size_t i = 0; i < op.in.size(); ++i) {
    const DType want = i == 0 && has_flag(op.op, op_flags::predicate_first) ? DType::Bool : dtype;
    step.in[i] = operand(op.in[i], want, op.compute, value(v).per_row);
  }
  const DType result = value(v).dtype;
  step.out = add(result == DType::Bool ? result : dtype, value(v).per_row);
  tiles.steps.push_back(step);
  if (keeps_bits(op.op) && is_half(op.compute) && dtype != op.compute) {
    made_.push_back({step.out, true});
  } else {
    make(v, step.out);
  }
}

void TileBuilder::add_cast(const FusedKernel::Op& op, int v) {
  const Operand& in = op.in[0];
  const DType to = value(v).dtype, from = value(in.value).dtype;
  if (!is_made(in.value)) return make(v, input(in.value, from, from));
  const Made m = made(in.value);
  if (m.wide && to == from) {
    made_.push_back({m.is, true});
  } else {
    make(v, m.wide ? m.is : operand(in, from, from, value(v).per_row));
  }
}

void TileBuilder::add_reduction(const FusedKernel::Op& op, int v) {
  const Operand& in = op.in[0];
  const DType from = value(in.value).dtype, dtype = info(value(v).dtype).compute;
  int r = is_made(in.value)
              ? (made(in.value).wide ? made(in.value).is : operand(in, from, from, false))
              : input(in.value, from, from);
  if (r >= 0 && tiles.registers[r].per_row) r = copy(r, false);  // repeated along the row
  r = cast(r, dtype, false);
  const int out = add(dtype, true);
  tiles.steps.push_back({op.op, dtype, out, {r}, 1});
  make(v, out);
}

// Steps whose results nobody takes.
void TileBuilder::drop_unused() {
  std::vector<bool> used(tiles.registers.size());
  for (const int r : tiles.outputs) used[r] = true;
  std::vector<TileProgram::Step> kept;
  for (size_t s = tiles.steps.size(); s-- > 0;) {
    const TileProgram::Step& step = tiles.steps[s];
    if (!used[step.out]) continue;
    for (int i = 0; i < step.inputs; ++i)
      if (step.in[i] >= 0) used[step.in[i]] = true;
    kept.push_back(step);
  }
  tiles.steps.assign(kept.rbegin(), kept.rend());
}

// Operands that are still read come first, then what is made.
void TileBuilder::finish() {
  std::vector<int> number(operands.size(), -1);
  std::vector<CompiledKernel::Operand> used;
  std::vector<TileProgram::Register> registers;
  for (const TileProgram::Step& step : tiles.steps)
    for (int i = 0; i < step.inputs; ++i)
      if (const int r = step.in[i]; r < 0 && number[~r] < 0) {
        number[~r] = tiles.inputs++;
        used.push_back(operands[~r]);
        registers.push_back({operands[~r].dtype});
      }
  operands = std::move(used);
  registers.insert(registers.end(), tiles.registers.begin(), tiles.registers.end());
  tiles.registers = std::move(registers);
  for (int& r : tiles.outputs) r += tiles.inputs;
  for (TileProgram::Step& step : tiles.steps) {
    step.out += tiles.inputs;
    for (int i = 0; i < step.inputs; ++i)
      step.in[i] = step.in[i] < 0 ? number[~step.in[i]] : step.in[i] + tiles.inputs;
    if (info(step.op).kind == OpKind::Reduce) tiles.reduces = true;
    if (tiles.is_row_step(step)) continue;
    for (int i = 0; i < step.inputs; ++i) tiles.uses_rows |= tiles.registers[step.in[i]].per_row;
  }
}

// Tiles for what is no result: each is free after the last step that reads it. A kernel may write
// over what it reads where that is as large.
void TileBuilder::place() {
  const auto count = tiles.registers.size();
  std::vector<size_t> last(count, 0);
  for (size_t s = 0; s < tiles.steps.size(); ++s)
    for (int i = 0; i < tiles.steps[s].inputs; ++i) last[tiles.steps[s].in[i]] = s;
  std::vector<bool> is_output(count);
  for (size_t o = 0; o < tiles.outputs.size(); ++o) {
    is_output[tiles.outputs[o]] = true;
    tiles.registers[tiles.outputs[o]].place = ~static_cast<int>(o);
  }
  std::vector<int> free;
  const auto in_tile = [&](int r) {
    return r >= tiles.inputs && !is_output[r] && !tiles.registers[r].per_row;
  };
  for (size_t s = 0; s < tiles.steps.size(); ++s) {
    const TileProgram::Step& step = tiles.steps[s];
    TileProgram::Register& out = tiles.registers[step.out];
    const bool rounds = step.op == OpId::cast && step.half != DType::Float32;
    const bool writes_over = info(step.op).kind == OpKind::Scalar || rounds;
    std::vector<int> ending;  // that the result must not take
    for (int i = 0; i < step.inputs; ++i) {
      const int r = step.in[i];
      if (!in_tile(r) || last[r] != s || std::count(step.in, step.in + i, r) != 0) continue;
      const bool may_take = writes_over && size_of(tiles.registers[r].dtype) == size_of(out.dtype);
      (may_take ? free : ending).push_back(tiles.registers[r].place);
    }
    if (is_output[step.out]) {
      // It is written where it stays.
    } else if (out.per_row) {
      out.place = tiles.row_tiles++;
    } else if (free.empty()) {
      out.place = tiles.tiles++;
    } else {
      out.place = free.back();
      free.pop_back();
    }
    free.insert(free.end(), ending.begin(), ending.end());
  }
}

}  // namespace tinyt::cpu
