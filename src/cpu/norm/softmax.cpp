#include "cpu/norm/softmax.h"

#include "cpu/reduce/line_iterator.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

using RowKernel = void (*)(const SoftmaxRow&);
using StripKernel = void (*)(const SoftmaxStrip&);

// What both directions share: the dtype of the kernels, and the lines along the call's dimension.
struct SoftmaxCall {
  const Tensor& out;
  size_t dim;
  DType dtype;
  int64_t item;

  explicit SoftmaxCall(const KernelCall& call)
      : out(call.outputs[0]),
        dim(static_cast<size_t>(AttrReader(call.attrs).integer())),
        dtype(info(out.dtype()).compute),
        item(static_cast<int64_t>(size_of(dtype))) {}
  int index() const { return static_cast<int>(dtype); }
};

// The lines of either direction, and the bytes of a tile for each of their elements.
struct ForwardLines : SoftmaxCall {
  LineCut cut;
  Lines from, to;

  explicit ForwardLines(const KernelCall& call)
      : SoftmaxCall(call),
        cut({&call.inputs[0], &out}, dim),
        from(call.inputs[0], dim, dtype, cut),
        to(out, dim, dtype, cut) {}
  bool in_place() const { return from.in_place() && to.in_place() && !to.streams(); }
  int64_t room() const { return !cut.columns() && in_place() ? 0 : item; }
};

struct BackwardLines : SoftmaxCall {
  LineCut cut;
  Lines of_grad, of_y, to;

  explicit BackwardLines(const KernelCall& call)
      : SoftmaxCall(call),
        cut({&call.inputs[0], &call.inputs[1], &out}, dim),
        of_grad(call.inputs[0], dim, dtype, cut),
        of_y(call.inputs[1], dim, dtype, cut),
        to(out, dim, dtype, cut) {}
  // The gradient and the result share a tile: a row is read before it is written.
  int64_t shared() const { return of_grad.in_place() && to.in_place() ? 0 : item; }
  int64_t room() const {
    return cut.columns() ? 2 * item : shared() + (of_y.in_place() ? 0 : item);
  }
};

void forward(const KernelCall& call, RowKernel const (&rows)[kDTypeCount],
             StripKernel const (&strips)[kDTypeCount]) {
  if (call.outputs[0].numel() == 0) return;
  const ForwardLines job(call);
  const LineCut& cut = job.cut;
  const Lines &from = job.from, &to = job.to;
  const int64_t n = cut.length();
  if (cut.columns()) {
    const StripKernel kernel = strips[job.index()];
    cut.run(job.room(), [&](int64_t first, int64_t count, char* tile) {
      const Source in(from, first, count, tile);
      const Target out(to, first, count, tile);
      kernel({.n = n,
              .count = count,
              .in = in.data,
              .step = in.step,
              .work = tile,  // which stays in cache, whatever the step in memory
              .work_step = from.tile_step(count),
              .out = out.data,
              .out_step = out.step,
              .stream = out.stream});
      out.finish();
    });
    return;
  }
  const RowKernel kernel = rows[job.index()];
  cut.run(job.room(), [&](int64_t first, int64_t count, char* tile) {
    const Source in(from, first, count, tile);
    const Target out(to, first, count, tile);
    for (int64_t r = 0; r < count; ++r) {
      char* row = out.data + r * out.step;
      // What is read again stays in a cache: a row of the tile, the same one if it can be.
      char* work = !out.stream ? row : in.data == tile ? tile + r * in.step : tile;
      kernel({.n = n, .in = in.data + r * in.step, .work = work, .out = row, .stream = out.stream});
    }
    out.finish();
  });
}

void backward(const KernelCall& call, RowKernel const (&rows)[kDTypeCount],
              StripKernel const (&strips)[kDTypeCount]) {
  if (call.outputs[0].numel() == 0) return;
  const BackwardLines job(call);
  const LineCut& cut = job.cut;
  const Lines &of_grad = job.of_grad, &of_y = job.of_y, &to = job.to;
  const int64_t n = cut.length();
  if (cut.columns()) {
    const StripKernel kernel = strips[job.index()];
    cut.run(job.room(), [&](int64_t first, int64_t count, char* tile) {
      char* second = tile + n * count * job.item;
      of_y.load(first, count, tile);
      of_grad.load(first, count, second);
      const Target out(to, first, count, tile);
      kernel({.n = n,
              .count = count,
              .in = tile,
              .step = of_y.tile_step(count),
              .grad = second,
              .out = out.data,
              .out_step = out.step,
              .stream = out.stream});
      out.finish();
    });
    return;
  }
  const RowKernel kernel = rows[job.index()];
  const int64_t shared = job.shared();
  cut.run(job.room(), [&](int64_t first, int64_t count, char* tile) {
    const Source g(of_grad, first, count, tile);
    const Source in(of_y, first, count, tile + n * count * shared);
    const Target out(to, first, count, tile);
    for (int64_t r = 0; r < count; ++r) {
      kernel({.n = n,
              .in = in.data + r * in.step,
              .grad = g.data + r * g.step,
              .out = out.data + r * out.step,
              .stream = out.stream});
    }
    out.finish();
  });
}

}  // namespace

void kernel_softmax(const KernelCall& call) {
  forward(call, kernels().softmax->softmax, kernels().softmax->strip_softmax);
}
void kernel_log_softmax(const KernelCall& call) {
  forward(call, kernels().softmax->log_softmax, kernels().softmax->strip_log_softmax);
}
void kernel_softmax_backward(const KernelCall& call) {
  backward(call, kernels().softmax->softmax_backward, kernels().softmax->strip_softmax_backward);
}
void kernel_log_softmax_backward(const KernelCall& call) {
  backward(call, kernels().softmax->log_softmax_backward,
           kernels().softmax->strip_log_softmax_backward);
}

int64_t workspace_softmax(const KernelCall& call) {
  const ForwardLines job(call);
  return job.cut.workspace(job.room());
}
int64_t workspace_softmax_backward(const KernelCall& call) {
  const BackwardLines job(call);
  return job.cut.workspace(job.room());
}

}  // namespace tinyt::cpu
