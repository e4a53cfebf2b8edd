// What a plan is made of, for whoever writes it down in another language.
#include "core/plan/plan.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "casters.h"
#include "compiled.h"
#include "core/program/program.h"
#include "measure.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

// Which of the operands that an operation's operand was compiled to: one of several of the same
// load where numbers are converted for each dtype that takes them.
int compiled_operand(const std::vector<CompiledKernel::Operand>& operands,
                     const FusedKernel& kernel, const FusedKernel::Op& op, size_t i) {
  const FusedKernel::Operand& in = op.in[i];
  DType want = kernel.values[static_cast<size_t>(in.value)].dtype;
  if (in.single)
    want = i == 0 && has_flag(op.op, op_flags::predicate_first) ? DType::Bool : op.compute;
  int best = -1, best_score = -1;
  for (size_t k = 0; k < operands.size(); ++k) {
    const CompiledKernel::Operand& have = operands[k];
    if (have.load != in.value) continue;
    const int score = (have.dtype == want ? 4 : 0) + (have.dtype == info(want).compute ? 2 : 0) +
                      (have.through == op.compute ? 1 : 0);
    if (score > best_score) best = static_cast<int>(k), best_score = score;
  }
  return best;
}

// The kernel with its compiled form's operands as its loads: numbers are converted beforehand.
FusedKernel over_operands(const FusedKernel& kernel,
                          const std::vector<CompiledKernel::Operand>& operands) {
  FusedKernel out;
  out.shape = kernel.shape;
  out.reduced = kernel.reduced;
  out.loads = static_cast<int>(operands.size());
  for (const CompiledKernel::Operand& operand : operands) out.values.push_back({operand.dtype});
  // Operations on a load that the compiled form has not got have no result that anybody takes.
  std::vector<int> now(kernel.values.size(), -1);
  for (size_t k = 0; k < kernel.ops.size(); ++k) {
    FusedKernel::Op op = kernel.ops[k];
    bool is_there = true;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const int from = kernel.ops[k].in[i].value;
      op.in[i].value = from < kernel.loads ? compiled_operand(operands, kernel, kernel.ops[k], i)
                                           : now[static_cast<size_t>(from)];
      is_there &= op.in[i].value >= 0;
    }
    if (!is_there) continue;
    const auto made = static_cast<size_t>(kernel.made_by(k));
    now[made] = static_cast<int>(out.values.size());
    out.values.push_back(kernel.values[made]);
    out.ops.push_back(op);
  }
  for (const int v : kernel.stores) out.stores.push_back(now[static_cast<size_t>(v)]);
  verify(out);
  return out;
}

using PlaceTuple = std::tuple<int64_t, int64_t, std::vector<int64_t>, std::vector<int64_t>, int>;

// (place or -1, first byte, shape, strides, dtype number).
PlaceTuple place_of(const Tensor& x, const Plan::MemoryLayout& layout) {
  const auto it = layout.place_of.find(&x.storage());
  return {it == layout.place_of.end() ? -1 : static_cast<int64_t>(it->second),
          x.offset() * static_cast<int64_t>(x.itemsize()),
          {x.shape().begin(), x.shape().end()},
          {x.strides().begin(), x.strides().end()},
          static_cast<int>(x.dtype())};
}

const Plan::Region& region_of(const Program& p, size_t step) {
  const Plan::Step& s = p.plan().steps.at(step);
  require(s.kind == Plan::Kind::Region, ErrorKind::Value, "program: step ", step,
          " is no region of fused operations");
  return p.plan().regions[static_cast<size_t>(s.index)];
}

FusedKernel kernel_at(const Program& p, size_t step) {
  const Plan::Region& region = region_of(p, step);
  return over_operands(region.meaning, region.kernel->operands());
}

using ProductTuple = std::tuple<std::string, int, int64_t, int, PlaceTuple>;

// (op, dtype number, its operands, which operand of the kernel its result is or -1, the result).
std::optional<ProductTuple> product_at(const Program& p, size_t step) {
  const auto& product = region_of(p, step).product;
  if (!product) return std::nullopt;
  return ProductTuple{name_of(product->op), static_cast<int>(product->compute),
                      static_cast<int64_t>(product->inputs), product->operand,
                      place_of(product->result, p.plan().layout())};
}

// (place, strides, shape, dtype number, whether it is written) per argument.
std::vector<std::pair<PlaceTuple, bool>> arguments_of(const Program& p) {
  const Plan::MemoryLayout layout = p.plan().layout();
  std::vector<std::pair<PlaceTuple, bool>> out;
  for (const Plan::Argument& argument : p.plan().arguments) {
    PlaceTuple at = place_of(argument.like, layout);
    std::get<0>(at) = static_cast<int64_t>(layout.place_of.at(argument.storage.get()));
    std::get<1>(at) = 0;
    out.emplace_back(at, argument.written);
  }
  return out;
}

std::vector<PlaceTuple> results_of(const Program& p) {
  const Plan::MemoryLayout layout = p.plan().layout();
  std::vector<PlaceTuple> out;
  for (const Plan::Result& result : p.plan().results) {
    PlaceTuple at = place_of(result.tensor, layout);
    const Storage* storage = nullptr;  // that the tensor is given at a run
    if (result.argument >= 0)
      storage = p.plan().arguments[static_cast<size_t>(result.argument)].storage.get();
    if (result.memory >= 0)
      storage = p.plan().memories[static_cast<size_t>(result.memory)].storage.get();
    if (storage) std::get<0>(at) = static_cast<int64_t>(layout.place_of.at(storage));
    out.push_back(at);
  }
  return out;
}

// (place, all of that memory as a tensor) of what is there before a run and after it.
std::vector<std::pair<int64_t, Tensor>> outside_of(const Program& p) {
  const Plan::MemoryLayout layout = p.plan().layout();
  std::vector<bool> seen(layout.places.size());
  std::vector<std::pair<int64_t, Tensor>> out;
  for (const Tensor& x : p.plan().operands) {
    const size_t place = layout.place_of.at(&x.storage());
    if (layout.places[place].kind != Plan::Allocation::Kind::Outside || seen[place]) continue;
    seen[place] = true;
    out.emplace_back(static_cast<int64_t>(place), whole_memory(x));
  }
  return out;
}

// (step, generator, first counter of that generator's run) of every step that draws.
std::vector<std::tuple<int64_t, int64_t, int64_t>> draws_of(const Program& p) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> out;
  for (size_t s = 0; s < p.plan().steps.size(); ++s)
    for (const Plan::Draw& draw : p.plan().draws)
      if (p.plan().steps[s].kind == Plan::Kind::Op && p.plan().steps[s].index == draw.attrs)
        out.emplace_back(static_cast<int64_t>(s), draw.generator, draw.first);
  return out;
}

}  // namespace

void bind_plan_parts(py::class_<Program>& program) {
  using py::arg;
  program
      .def(
          "kernel", kernel_at, arg("step"),
          "What a region computes of its operands, after those of the product that it begins with; "
          "the product's result is one of them. ValueError where the step is no region.")
      .def("product", product_at, arg("step"),
           "(op, dtype number, operands, which operand of the kernel its result is or -1, the "
           "result) of the product that a region begins with, or None.")
      .def("arguments", arguments_of,
           "(operand, whether it is written) per argument; operands as `describe` has them.")
      .def("results", results_of,
           "Per result what it is of which place, as `describe` has operands; place -1: a tensor "
           "that no step uses.")
      .def("outside", outside_of,
           "(place, all of that memory) of what is there before a run and after it.")
      .def("draws", draws_of, "(step, generator, first counter) of every step that draws.");
}

}  // namespace tinyt
