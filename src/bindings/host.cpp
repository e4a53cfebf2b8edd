// Operations of the user's: functions of Python or C, run at once or as steps of a program.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "casters.h"
#include "core/graph/graph.h"
#include "core/ops/fallback.h"
#include "core/ops/kernels.h"
#include "in_python.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

using Tensors = std::vector<Tensor>;

// What a function of C gets of a tensor: its elements lie in row-major order without gaps.
struct Array {
  void* data;
  int64_t dtype;
  int64_t rank;
  const int64_t* shape;
};
// Not 0: it has failed.
using CFunction = int (*)(const Array* arrays, int64_t count, const double* numbers,
                          int64_t number_count);

// What is called: Python's function (which gets the list of tensors) or C's.
struct Callee {
  std::string name;
  py::object python;
  CFunction c = nullptr;
  std::vector<double> numbers;

  void operator()(std::span<const Tensor> tensors) const {
    if (c) {
      call_c(tensors);
    } else {
      call_python(tensors);
    }
  }

 private:
  void call_c(std::span<const Tensor> tensors) const {
    std::vector<Array> arrays;
    for (const Tensor& t : tensors)
      arrays.push_back(
          {t.host_data(), static_cast<int64_t>(t.dtype()), t.rank(), t.shape().data()});
    const int status = c(arrays.data(), static_cast<int64_t>(arrays.size()), numbers.data(),
                         static_cast<int64_t>(numbers.size()));
    require(status == 0, ErrorKind::Runtime, name, ": the C function returned ", status);
  }

  void call_python(std::span<const Tensor> tensors) const {
    in_python([&] {
      py::list list;
      for (const Tensor& t : tensors) list.append(py::cast(t));
      PyObject* const result =
          call_or_sleep([&] { return PyObject_CallOneArg(python.ptr(), list.ptr()); });
      if (!result) throw py::error_already_set();
      Py_DECREF(result);
    });
  }
};

class BoundHost : public ExternalOp::Executable {
 public:
  BoundHost(const Callee& callee, std::span<const Tensor> inputs, std::span<const Tensor> outputs)
      : callee_(callee), tensors_(outputs.begin(), outputs.end()) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (inputs[i].impl() != outputs[i].impl()) copies_.emplace_back(inputs[i], outputs[i]);
    tensors_.insert(tensors_.end(), inputs.begin() + static_cast<int64_t>(outputs.size()),
                    inputs.end());
  }

  void run(const RngOffsets&) const override {
    for (const auto& [from, to] : copies_) copy_into(callee_.name, from, to);
    const memory::Substitute none(nullptr);  // what it makes may outlive the step
    callee_(tensors_);
  }
  size_t scratch_bytes() const override { return 0; }

 private:
  const Callee& callee_;
  Tensors tensors_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

class HostStep : public ExternalOp, public std::enable_shared_from_this<HostStep> {
 public:
  HostStep(Callee callee, Effect effect) : callee_(std::move(callee)), effect_(effect) {}
  std::string_view name() const override { return callee_.name; }
  Effect effect() const override { return effect_; }
  bool may_fail() const override { return true; }
  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    return std::make_unique<OwningHost>(shared_from_this(), callee_, inputs, outputs);
  }

 private:
  // A program may outlive its graph.
  class OwningHost : public BoundHost {
   public:
    OwningHost(std::shared_ptr<const HostStep> step, const Callee& callee,
               std::span<const Tensor> inputs, std::span<const Tensor> outputs)
        : BoundHost(callee, inputs, outputs), step_(std::move(step)) {}

   private:
    std::shared_ptr<const HostStep> step_;
  };
  Callee callee_;
  Effect effect_;
};

// Runs a function on tensors, the first of which it writes; where a graph is recorded, adds it.
void run_host(std::string name, const py::object& function, size_t address, Tensors tensors,
              size_t written, std::vector<double> numbers, bool ordered) {
  require(written >= 1 && written <= tensors.size(), ErrorKind::Value, name,
          ": a function must write a tensor, got ", written, " of ", tensors.size());
  Callee callee{std::move(name), function, reinterpret_cast<CFunction>(address),
                std::move(numbers)};
  if (Graph* graph = recording()) {
    using Effect = ExternalOp::Effect;
    const Effect effect = ordered ? Effect::Ordered : Effect::None;
    graph->record(std::make_shared<HostStep>(std::move(callee), effect), tensors, written);
    return;
  }
  settle_all();
  const PausedRecording at_once;
  const Tensors given = tensors;
  for (Tensor& t : tensors) t = contiguous(t);
  {
    const PythonUnlocked unlocked;
    callee(tensors);
  }
  for (size_t i = 0; i < written; ++i) {
    if (tensors[i].impl() != given[i].impl()) copy_into(callee.name, tensors[i], given[i]);
    given[i].count_write();
  }
}

}  // namespace

void bind_host(py::module_& m) {
  using py::arg;
  m.def("run_host", run_host, arg("name"), arg("function"), arg("address"), arg("tensors"),
        arg("written"), arg("numbers"), arg("ordered"),
        "Calls a function of Python (with the list of tensors), or that of C at an address, of "
        "which the first tensors are written; ordered: it has an effect beside.");
}

}  // namespace tinyt
