// What the verification of programs needs of the core: memory put back as it was, and a run that is
// watched step by step.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <unordered_set>

#include "casters.h"
#include "core/ops/to_device.h"
#include "core/program/program.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

// The bytes and versions of tensors' memory at one time.
class Snapshot {
 public:
  explicit Snapshot(const std::vector<Tensor>& tensors) {
    std::unordered_set<const Storage*> known;
    for (const Tensor& t : tensors) {
      if (t.is_recorded() || !known.insert(&t.storage()).second) continue;
      kept_.push_back({t, bytes_of(t.storage()), t.storage().version, t.storage().data_writes});
    }
  }

  // Puts them back; those who saw the memory between do not see that it was written.
  void restore() const {
    for (const Kept& kept : kept_) {
      Storage& storage = kept.tensor.storage();
      if (storage.version == kept.version) continue;
      if (!kept.bytes.empty()) {
        const Buffer from{.host = const_cast<char*>(kept.bytes.data()), .bytes = kept.bytes.size()};
        copy_bytes(storage.buffer, from, from.bytes);
      }
      storage.version = kept.version;
      storage.data_writes = kept.data_writes;
    }
  }

  // Of each memory the first of the tensors that lie there, and whether it holds something else
  // now.
  std::vector<Tensor> written() const {
    std::vector<Tensor> out;
    for (const Kept& kept : kept_) {
      const Storage& storage = kept.tensor.storage();
      if (storage.version != kept.version && bytes_of(storage) != kept.bytes)
        out.push_back(kept.tensor);
    }
    return out;
  }

 private:
  static std::vector<char> bytes_of(const Storage& storage) {
    std::vector<char> bytes(storage.buffer.bytes);
    copy_bytes({.host = bytes.data(), .bytes = bytes.size()}, storage.buffer, bytes.size());
    return bytes;
  }

  struct Kept {
    Tensor tensor;
    std::vector<char> bytes;
    uint64_t version, data_writes;
  };
  std::vector<Kept> kept_;
};

// Lets a Python function look at the steps of a run.
class Watcher final : public RunObserver {
 public:
  Watcher(const Program& program, const py::object& observer)
      : observer_(observer), seen_(2 * program.plan().steps.size()) {
    for (const Plan::ValueAccess& touch : program.plan().accesses) {
      const auto at = static_cast<size_t>(2 * touch.step + (touch.made ? 1 : 0));
      if (touch.step >= 0 && at < seen_.size()) seen_[at].push_back(&touch);
    }
  }
  void begin() override {}
  void before(size_t step) override { show(step, false); }
  void after(size_t step) override { show(step, true); }
  void end(bool) noexcept override {}

 private:
  void show(size_t step, bool done) const {
    const PythonLocked locked;
    py::list values;
    for (const Plan::ValueAccess* touch : seen_[2 * step + (done ? 1 : 0)])
      values.append(py::make_tuple(touch->value, touch->tensor));
    const py::tuple given = py::make_tuple(step, done, values);
    PyObject* const result =
        call_or_sleep([&] { return PyObject_CallObject(observer_.ptr(), given.ptr()); });
    if (!result) throw py::error_already_set();
    Py_DECREF(result);
  }

  const py::object& observer_;
  std::vector<std::vector<const Plan::ValueAccess*>> seen_;  // what each step reads, then makes
};

// A run whose steps are looked at: observer(step, done, what it reads or has made).
std::optional<std::vector<Tensor>> watch(Program& program,
                                         const std::vector<std::optional<Tensor>>& given_arguments,
                                         const std::vector<double>& given, const RngOffsets& draws,
                                         const py::object& observer) {
  std::vector<Tensor> arguments;
  for (const std::optional<Tensor>& x : given_arguments) arguments.push_back(x.value_or(Tensor()));
  Watcher watcher(program, observer);
  const PythonUnlocked unlocked;
  return program.run(arguments, given, draws, &watcher);
}

}  // namespace

void bind_verify(py::module_& m) {
  using py::arg;
  py::class_<Snapshot> snapshot(m, "Snapshot", "The bytes and versions of memory at one time.");
  forbid_bare_new(snapshot);
  snapshot.def(py::init<const std::vector<Tensor>&>(), arg("tensors"))
      .def("restore", &Snapshot::restore, "Puts them back.")
      .def("written", &Snapshot::written, "A tensor of each memory that holds something else now.");
  m.def("watch", watch, arg("program"), arg("arguments"), arg("given"), arg("draws"),
        arg("observer"),
        "The outputs of a run, None where the numbers make the program stale; before and after "
        "each step observer(step, done, [(value, tensor)]) sees "
        "what the step reads, and what it has made.");
}

}  // namespace tinyt
