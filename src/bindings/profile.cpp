// The profile of eager operations.
#include "core/ops/op_profile.h"

#include <pybind11/pybind11.h>

#include "casters.h"
#include "measure.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

py::tuple tuple_of_event(const OpEvent& event) {
  py::tuple shapes(event.shapes.size());
  py::tuple dtypes(event.dtypes.size());
  for (size_t i = 0; i < event.shapes.size(); ++i) {
    shapes[i] = tuple_of(event.shapes[i]);
    dtypes[i] = static_cast<int>(event.dtypes[i]);
  }
  return py::make_tuple(py::str(event.name.data(), event.name.size()), event.begin, event.end,
                        event.thread, event.bytes, shapes, dtypes);
}

}  // namespace

void bind_profile(py::module_& m) {
  m.def("profile_clock", profile_clock, "Nanoseconds of the clock that events are in.");
  m.def("profile_thread", profile_thread, "The number of this thread in events, from 1 on.");
  m.def("start_profile", start_profile, py::arg("with_shapes"),
        "Begins to note the operations of all threads; RuntimeError where that is on already.");
  m.def(
      "stop_profile",
      [] {
        py::list out;
        for (const OpEvent& event : stop_profile()) out.append(tuple_of_event(event));
        return out;
      },
      "Ends it: (name, begin, end, thread, bytes, shapes, dtypes) per operation, as they ended.");
}

}  // namespace tinyt
