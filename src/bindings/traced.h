// Sizes as the hot module reads them: where a capture log is kept, what it does with them is noted.
#pragma once

#include <Python.h>

#include "core/graph/capture_log.h"
#include "core/ops/seam.h"
#include "errors.h"
#include "node.h"

namespace tinyt {

// The row of a live symbolic int, or -1.
inline int64_t symbol_row(PyObject* object) { return python_seam().symbol_row(object); }
// A symbolic int of a row: a new reference.
inline PyObject* symbol_of_row(int64_t row) {
  return static_cast<PyObject*>(python_seam().symbol_of_row(row));
}
// Notes the user's line of a guard; -1 with a Python exception set, as that of an interrupt.
inline int (*note_guard)(void* owner) = nullptr;
inline void note_guard_or_throw(void* owner) {
  if (note_guard(owner) < 0) throw_python_error();
}

inline bool is_tracing() { return tracing() != nullptr; }

// Which tensor of the log it is; -1: it was there before.
inline int64_t traced_of(const Tensor& x) {
  CaptureLog* log = x.impl()->traced >= 0 || x.is_recorded() ? tracing() : nullptr;
  if (!log) return -1;
  const int64_t number = log->number_of(x);
  if (number < 0) log->guard_on(x);
  return number;
}

// The same as a node keeps it.
inline int64_t traced_code(const Tensor& x) {
  const int64_t number = traced_of(x);
  return number < 0 ? -1 : tracing()->coded(number);
}
inline int64_t number_of_code(int64_t code) {
  CaptureLog* log = code < 0 ? nullptr : tracing();
  return log ? log->decoded(code) : -1;
}

// A tensor's sizes, and which one of the log it is.
struct Sized {
  const Dims& shape;
  int64_t traced;

  Sized(const Tensor& x) : shape(x.shape()), traced(traced_of(x)) {}  // NOLINT: as in a call
  Sized(const InputMeta& x) : shape(x.shape), traced(number_of_code(x.traced)) {}  // NOLINT
  Sized(const NodeData& x)
      : shape(x.out_shape), traced(number_of_code(x.out_traced)) {}  // NOLINT: its output
  int64_t row(CaptureLog& log, size_t d) const {
    return traced < 0 ? log.table().constant(shape[d])
                      : log.of(CaptureLog::Op::Size, traced, static_cast<int64_t>(d), shape[d]);
  }
};

inline bool size_is(const Sized& x, size_t d, int64_t value) {
  if (CaptureLog* log = tracing())
    return log->table().test(CaptureLog::Test::Eq, x.row(*log, d), log->table().constant(value));
  return x.shape[d] == value;
}

inline bool same_size(const Sized& a, size_t i, const Sized& b, size_t k) {
  if (CaptureLog* log = tracing())
    return log->table().test(CaptureLog::Test::Eq, a.row(*log, i), b.row(*log, k));
  return a.shape[i] == b.shape[k];
}

inline bool same_sizes(const Sized& a, const Sized& b) {
  CaptureLog* log = tracing();
  if (!log || a.shape.size() != b.shape.size()) return a.shape == b.shape;
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (!log->table().test(CaptureLog::Test::Eq, a.row(*log, d), b.row(*log, d))) return false;
  return true;
}

// The rows of all sizes; none where no log follows them.
inline std::vector<int64_t> size_rows(const Sized& x) {
  std::vector<int64_t> rows;
  if (CaptureLog* log = tracing(); log && x.traced >= 0)
    for (size_t d = 0; d < x.shape.size(); ++d) rows.push_back(x.row(*log, d));
  return rows;
}

// The row of the product of some sizes.
inline int64_t product_row(CaptureLog& log, const Sized& x, size_t first, size_t end) {
  int64_t row = first < end ? x.row(log, first) : log.table().constant(1);
  for (size_t d = first + 1; d < end; ++d)
    row = log.table().apply(CaptureLog::Op::Mul, row, x.row(log, d));
  return row;
}

// Adds the product of some sizes, or one of them.
inline void add_sizes_of(Attrs& attrs, const Sized& x, size_t first, size_t end) {
  int64_t product = 1;
  for (size_t d = first; d < end; ++d) product *= x.shape[d];
  if (CaptureLog* log = tracing(); log && x.traced >= 0)
    attrs.formulas.emplace_back(attrs.ints.size(), log->coded(product_row(*log, x, first, end)));
  attrs.add(product);
}

// All sizes, as an attribute.
inline Attrs sizes_attr(const Sized& x) {
  Attrs attrs;
  attrs.add(static_cast<int64_t>(x.shape.size()));
  for (size_t d = 0; d < x.shape.size(); ++d) add_sizes_of(attrs, x, d, d + 1);
  return attrs;
}

inline void add_row(Attrs& attrs, int64_t row) {
  attrs.formulas.emplace_back(attrs.ints.size(), tracing()->coded(row));
  attrs.add(tracing()->table().value(row));
}

inline Tensor of_row(Tensor scalar, int64_t row) {
  tracing()->mark(scalar, row);
  return scalar;
}

// The product of some sizes as a float of Python's.
inline Tensor count_of(const Tensor& x, size_t first, size_t end) {
  int64_t count = 1;
  for (size_t d = first; d < end; ++d) count *= x.size(d);
  Tensor number = Tensor::scalar(static_cast<double>(count));
  CaptureLog* log = tracing();
  if (!log) return number;
  const int64_t row = product_row(*log, x, first, end);
  return of_row(std::move(number), log->table().apply(CaptureLog::Op::ToReal, row, -1));
}

inline bool is_dense(const Tensor& x) {
  CaptureLog* log = traced_of(x) < 0 ? nullptr : tracing();
  if (!log) return x.is_contiguous();
  return log->table().test(CaptureLog::Test::Ne, log->of(CaptureLog::Op::Contiguous, x),
                           log->table().constant(0));
}

}  // namespace tinyt
