#include "measure.h"

#include <pybind11/stl.h>

#include "call.h"
#include "casters.h"
#include "core/program/machine.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

py::tuple tuple_of(std::span<const int64_t> dims) {
  py::tuple out(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) out[i] = dims[i];
  return out;
}

namespace {

py::tuple operands_of(std::span<const Tensor> operands, const Plan::MemoryLayout& layout) {
  py::tuple out(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& x = operands[i];
    out[i] = py::make_tuple(layout.place_of.at(&x.storage()),
                            x.offset() * static_cast<int64_t>(x.itemsize()), tuple_of(x.shape()),
                            tuple_of(x.strides()), static_cast<int>(x.dtype()));
  }
  return out;
}

py::list values_of(const Measures& measures) {
  py::list out;
  for (const Measures::Step& step : measures.steps()) out.append(py::cast(step.values));
  return out;
}

py::list times_of(const Measures& measures) {
  py::list out;
  for (const Measures::Step& s : measures.steps())
    out.append(py::make_tuple(s.begin, s.end, s.held, s.scratch, s.thread));
  return out;
}

}  // namespace

py::list describe_steps(const Program& p) {
  static constexpr const char* kKinds[] = {"op", "region", "copy", "opaque"};
  const Plan::MemoryLayout layout = p.plan().layout();
  py::list out;
  for (const Plan::Step& s : p.plan().steps) {
    py::list names, elements;
    py::object attrs = py::tuple();
    if (s.kind == Plan::Kind::Region) {
      const Plan::Region& region = p.plan().regions[static_cast<size_t>(s.index)];
      const FusedKernel& kernel = region.meaning;
      const int64_t all = numel_of(kernel.shape), rows = all / std::max<int64_t>(1, kernel.cols());
      if (const auto& product = region.product) {
        names.append(name_of(product->op));
        elements.append(all);
        attrs = py::reinterpret_steal<py::object>(
            attrs_tuple(product->op, p.plan().attrs_of(*product)));
      }
      for (size_t i = 0; i < kernel.ops.size(); ++i) {
        const OpId op = kernel.ops[i].op;
        const bool by_row = kernel.values[static_cast<size_t>(kernel.made_by(i))].per_row;
        names.append(name_of(op));
        elements.append(by_row && info(op).kind != OpKind::Reduce ? rows : all);
      }
    } else {
      names.append(p.plan().name(s));
    }
    if (s.kind == Plan::Kind::Op)
      attrs = py::reinterpret_steal<py::object>(attrs_tuple(s.op, p.plan().attrs_of(s)));
    out.append(py::make_tuple(kKinds[static_cast<int>(s.kind)], py::tuple(names),
                              static_cast<int>(s.compute), attrs, py::tuple(elements),
                              operands_of(p.plan().inputs(s), layout),
                              operands_of(p.plan().outputs(s), layout)));
  }
  return out;
}

py::list describe_places(const Program& p) {
  static constexpr const char* kKinds[] = {"arena", "block", "result", "argument", "outside"};
  py::list out;
  for (const Plan::Allocation& place : p.plan().layout().places)
    out.append(py::make_tuple(kKinds[static_cast<int>(place.kind)], place.bytes, place.position,
                              place.first, place.last));
  return out;
}

void bind_measures(py::class_<Measures>& measures) {
  measures.def(py::init<const Program&>(), py::arg("program"), py::keep_alive<1, 2>())
      .def("steps", times_of,
           "(begin, end, bytes held, bytes of scratch, thread) per step; times in nanoseconds "
           "since the run began.")
      .def("values", values_of, "The first elements of each output, per step.")
      .def_property_readonly("complete", &Measures::complete, "Whether a run has been measured.")
      .def_property_readonly("nanoseconds", &Measures::nanoseconds, "Of the whole run.")
      .def_property_readonly("peak_bytes", &Measures::peak_bytes,
                             "The most that the run held, scratch memory of kernels included.")
      .def_property_readonly(
          "address",
          [](Measures& self) { return reinterpret_cast<size_t>(static_cast<RunObserver*>(&self)); },
          "Where the hot module finds it.");
}

void bind_limits(py::module_& m) {
  m.def("copy_rate", copy_rate, py::arg("nbytes"), py::call_guard<PythonUnlocked>(),
        "Bytes a second of a copy that reads and writes so many together.");
  m.def(
      "product_rate", [](int dtype) { return product_rate(static_cast<DType>(dtype)); },
      py::arg("dtype"), py::call_guard<PythonUnlocked>(),
      "Operations a second of a product of large matrices of the dtype with that number.");
}

}  // namespace tinyt
