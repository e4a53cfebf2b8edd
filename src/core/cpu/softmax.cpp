#include "softmax.h"

#include "levels.h"
#include "rows.h"

namespace tinyt::cpu {
namespace {

using RowKernel = void (*)(const void*, int64_t, void*);

void run(const KernelCall& call, RowKernel const (&table)[kDTypeCount]) {
  const Tensor& out = call.outputs[0];
  const DType dtype = info(out.dtype()).compute;
  const RowKernel kernel = table[static_cast<int>(dtype)];
  require(kernel != nullptr, ErrorKind::NotImplemented, name_of(call.op), ": no kernel for ",
          name_of(dtype));
  if (out.numel() == 0) return;
  const Rows rows(call.inputs[0], out, static_cast<size_t>(AttrReader(call.attrs).integer()),
                  dtype);
  rows.run([&](int64_t, const void* from, void* to) { kernel(from, rows.length(), to); });
}

}  // namespace

void kernel_softmax(const KernelCall& call) { run(call, kernels().softmax->softmax); }
void kernel_log_softmax(const KernelCall& call) { run(call, kernels().softmax->log_softmax); }

}  // namespace tinyt::cpu
