#include "cpu/matmul/lstm.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "core/base/parallel.h"
#include "cpu/copy/copy.h"
#include "cpu/matmul/matmul.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// Rows of a matrix.
struct GateLines {
  char* at;
  int64_t row;  // bytes
};

// The sizes of one call. `saved` holds for each time the gates, [N, 4 H] after their functions,
// and then the memory [N, H].
struct Sequence {
  DType dtype;
  int64_t times, batch, hidden;
  bool reverse;
  int64_t size;

  Sequence(DType of, int64_t times_, const Tensor& state, const Attrs& attrs)
      : dtype(of),
        times(times_),
        batch(state.size(0)),
        hidden(state.size(1)),
        reverse(AttrReader(attrs).flag()),
        size(static_cast<int64_t>(size_of(of))) {}

  int64_t time(int64_t step) const { return reverse ? times - 1 - step : step; }
  int64_t row() const { return hidden * size; }
  int64_t state() const { return batch * row(); }
  Tensor matrix(const Tensor& x, int64_t first, int64_t cols) const {
    return x.view(Dims{batch, cols}, Dims{cols, 1}, x.offset() + first);
  }
  char* gates(const Tensor& saved, int64_t t) const { return saved.host_data() + 5 * t * state(); }
  char* memory(const Tensor& saved, int64_t t) const { return gates(saved, t) + 4 * state(); }
};

// Elementwise kernels on some rows of the states: out = op(inputs).
struct Rows {
  DType dtype;
  int64_t rows, cols;
  void operator()(OpId op, GateLines out, std::initializer_list<GateLines> inputs) const {
    char* ptr[kMaxOperands] = {out.at};
    int64_t row[kMaxOperands] = {out.row};
    uint8_t inner[kMaxOperands] = {1};
    int k = 0;
    for (const GateLines& x : inputs) {
      ptr[++k] = x.at;
      row[k] = x.row;
      inner[k] = 1;
    }
    const auto& kernel = kernels().elementwise->kernel[static_cast<int>(op)];
    kernel[static_cast<int>(dtype)]({ptr, rows, cols, row, inner});
  }
};

// Calls body(rows, first row) for all rows.
template <class Body>
void by_rows(const Sequence& s, Body body) {
  const int64_t grain = std::max<int64_t>(1, kHeavyChunk / s.hidden);
  parallel_ranges(s.batch, grain, [&](int64_t begin, int64_t end) {
    body(Rows{s.dtype, end - begin, s.hidden}, begin);
  });
}

// The four gates of some rows.
struct Gates {
  GateLines entry, forget, cell, output;
  Gates(const Sequence& s, char* at, int64_t first) {
    const int64_t row = 4 * s.row();
    at += first * row;
    entry = {at, row};
    forget = {at + s.row(), row};
    cell = {at + 2 * s.row(), row};
    output = {at + 3 * s.row(), row};
  }
};

// From the sums of the gates: their functions, the new memory and the new hidden state.
void step(const Sequence& s, char* sums, const char* before, char* memory, char* hidden) {
  by_rows(s, [&](const Rows& run, int64_t first) {
    const Gates g(s, sums, first);
    const int64_t skip = first * s.row();
    const GateLines old = {const_cast<char*>(before) + skip, s.row()};
    const GateLines c = {memory + skip, s.row()}, h = {hidden + skip, s.row()};
    run(OpId::sigmoid, g.entry, {g.entry});
    run(OpId::sigmoid, g.forget, {g.forget});
    run(OpId::tanh, g.cell, {g.cell});
    run(OpId::sigmoid, g.output, {g.output});
    run(OpId::mul, c, {g.forget, old});
    run(OpId::mul, h, {g.entry, g.cell});
    run(OpId::add, c, {c, h});
    run(OpId::tanh, h, {c});
    run(OpId::mul, h, {h, g.output});
  });
}

// The gradients of the sums of the gates, and of the memory before: dh becomes its sum with `grad`.
struct Slopes {
  char *dh, *dc, *grad, *gates, *memory, *before, *out;
};
void step_back(const Sequence& s, const Slopes& at) {
  by_rows(s, [&](const Rows& run, int64_t first) {
    const Gates g(s, at.gates, first), d(s, at.out, first);
    const auto lines = [&](char* p) { return GateLines{p + first * s.row(), s.row()}; };
    const GateLines dh = lines(at.dh), dc = lines(at.dc), old = lines(at.before);
    run(OpId::add, dh, {dh, lines(at.grad)});
    run(OpId::tanh, d.output, {lines(at.memory)});
    run(OpId::mul, d.entry, {dh, g.output});
    run(OpId::tanh_backward, d.entry, {d.entry, d.output});
    run(OpId::add, dc, {dc, d.entry});
    run(OpId::mul, d.output, {d.output, dh});
    run(OpId::sigmoid_backward, d.output, {d.output, g.output});
    run(OpId::mul, d.entry, {dc, g.cell});
    run(OpId::sigmoid_backward, d.entry, {d.entry, g.entry});
    run(OpId::mul, d.forget, {dc, old});
    run(OpId::sigmoid_backward, d.forget, {d.forget, g.forget});
    run(OpId::mul, d.cell, {dc, g.entry});
    run(OpId::tanh_backward, d.cell, {d.cell, g.cell});
    run(OpId::mul, dc, {dc, g.forget});
  });
}

Tensor columns_of(const Tensor& weight) {
  return weight.view(Dims{weight.size(1), weight.size(0)}, Dims{weight.stride(1), weight.stride(0)},
                     weight.offset());
}

// The product of a time: hidden state, weights turned, and what is added.
int64_t forward_product(const Sequence& s, const Attrs& attrs, const Tensor& hidden,
                        const Tensor& columns, const Tensor& sums, const Tensor& saved) {
  const Tensor operands[] = {hidden, columns, s.matrix(sums, 0, 4 * s.hidden)};
  const Tensor result = s.matrix(saved, 0, 4 * s.hidden);
  return workspace_matmul_add({OpId::matmul_add, operands, std::span(&result, 1), attrs, s.dtype});
}

}  // namespace

int64_t workspace_lstm(const KernelCall& call) {
  const Tensor &gates = call.inputs[0], &out = call.outputs[0], &saved = call.outputs[2];
  const auto dense = [](const Tensor& x) { return dense_geometry(x, x.dtype()); };
  const Tensor first = dense(call.inputs[1]), columns = columns_of(call.inputs[3]);
  const Sequence s(out.dtype(), gates.size(0), first, call.attrs);
  int64_t bytes = dense_bytes(call.inputs[1]) + dense_bytes(call.inputs[2]);
  if (s.state() == 0) return bytes;
  bytes += dense_bytes(columns) + dense_bytes(gates);
  if (s.times == 0) return bytes;
  const auto product = [&](const Tensor& hidden) {
    return forward_product(s, call.attrs, hidden, dense(columns), dense(gates), saved);
  };
  return bytes + std::max(product(first), product(s.matrix(out, 0, s.hidden)));
}

int64_t workspace_lstm_backward(const KernelCall& call) {
  const Tensor &memory = call.inputs[3], &out = call.outputs[0], &dh = call.outputs[1];
  const Sequence s(call.inputs[0].dtype(), out.size(0), memory, call.attrs);
  int64_t bytes = 0;
  for (const Tensor& x : call.inputs.first(4)) bytes += dense_bytes(x);
  if (s.state() == 0 || s.times == 0) return bytes;
  const Tensor operands[] = {s.matrix(out, 0, 4 * s.hidden), call.inputs[4]};
  return bytes + workspace_matmul({OpId::matmul, operands, std::span(&dh, 1), call.attrs, s.dtype});
}

void kernel_lstm(const KernelCall& call) {
  const Tensor &gates = call.inputs[0], &weight = call.inputs[3];
  const Tensor &out = call.outputs[0], &last = call.outputs[1], &saved = call.outputs[2];
  const Tensor first = as_contiguous(call.inputs[1]), memory = as_contiguous(call.inputs[2]);
  const Sequence s(out.dtype(), gates.size(0), first, call.attrs);
  if (s.state() == 0) return;
  // Turned once for all times, it is read where it lies.
  const Tensor columns = as_contiguous(columns_of(weight));
  const Tensor sums = as_contiguous(gates);
  const int64_t of_state = s.batch * s.hidden;
  Tensor hidden = first;
  const char* before = memory.host_data();
  for (int64_t i = 0; i < s.times; ++i) {
    const int64_t t = s.time(i);
    const Tensor operands[] = {hidden, columns, s.matrix(sums, 4 * t * of_state, 4 * s.hidden)};
    const Tensor result = s.matrix(saved, 5 * t * of_state, 4 * s.hidden);
    kernel_matmul_add({OpId::matmul_add, operands, std::span(&result, 1), call.attrs, s.dtype});
    hidden = s.matrix(out, t * of_state, s.hidden);
    step(s, s.gates(saved, t), before, s.memory(saved, t), hidden.host_data());
    before = s.memory(saved, t);
  }
  std::memcpy(last.host_data(), before, static_cast<size_t>(s.state()));
}

void kernel_lstm_backward(const KernelCall& call) {
  const Tensor grad = as_contiguous(call.inputs[0]), of_last = as_contiguous(call.inputs[1]);
  const Tensor saved = as_contiguous(call.inputs[2]), memory = as_contiguous(call.inputs[3]);
  const Tensor &weight = call.inputs[4], &out = call.outputs[0];
  const Tensor &dh = call.outputs[1], &dc = call.outputs[2];
  const Sequence s(grad.dtype(), out.size(0), memory, call.attrs);
  if (s.state() == 0) return;
  const int64_t of_state = s.batch * s.hidden;
  std::memset(dh.host_data(), 0, static_cast<size_t>(s.state()));
  std::memcpy(dc.host_data(), of_last.host_data(), static_cast<size_t>(s.state()));
  for (int64_t i = s.times - 1; i >= 0; --i) {
    const int64_t t = s.time(i);
    step_back(s, {.dh = dh.host_data(),
                  .dc = dc.host_data(),
                  .grad = grad.host_data() + t * s.state(),
                  .gates = s.gates(saved, t),
                  .memory = s.memory(saved, t),
                  .before = i == 0 ? memory.host_data() : s.memory(saved, s.time(i - 1)),
                  .out = out.host_data() + 4 * t * s.state()});
    const Tensor operands[] = {s.matrix(out, 4 * t * of_state, 4 * s.hidden), weight};
    kernel_matmul({OpId::matmul, operands, std::span(&dh, 1), call.attrs, s.dtype});
  }
}

}  // namespace tinyt::cpu
