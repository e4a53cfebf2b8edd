// Memory statistics, limits and arenas for Python.
#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include "core/base/error.h"
#include "core/memory/arena.h"
#include "core/memory/device_cache.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

memory::DeviceCache& cache_of(int64_t code) {
  require(code >= 0 && code < kDeviceCodes, ErrorKind::Value, "device: no device has number ",
          code);
  return memory::cache_of(device_of(code));
}

py::typing::Dict<py::str, int64_t> facts_of(const memory::Statistics& s) {
  return py::dict(py::arg("current_bytes") = s.current_bytes, py::arg("peak_bytes") = s.peak_bytes,
                  py::arg("cached_bytes") = s.cached_bytes,
                  py::arg("reserved_bytes") = s.reserved_bytes,
                  py::arg("allocations") = s.allocations, py::arg("live_blocks") = s.live_blocks,
                  py::arg("system_allocations") = s.system_allocations);
}
py::typing::Dict<py::str, int64_t> device_facts(memory::DeviceCache& cache) {
  const memory::DeviceStatistics s = cache.statistics();
  py::typing::Dict<py::str, int64_t> facts = facts_of(s);
  facts["peak_reserved_bytes"] = s.peak_reserved_bytes;
  facts["system_frees"] = s.system_frees;
  facts["retries"] = s.retries;
  facts["refusals"] = s.refusals;
  return facts;
}

// Each takes the number that stands for a device among attributes; 0 is the CPU.
void bind_statistics(py::module_& m) {
  m.def("memory_statistics", [](int64_t device) {
    return device == 0 ? facts_of(memory::statistics()) : device_facts(cache_of(device));
  });
  m.def("reset_peak", [](int64_t device) {
    if (device == 0) return memory::reset_peak();
    cache_of(device).reset_peak();
    cache_of(device).reset_reserved_peak();
  });
  m.def("set_limit", [](int64_t bytes, int64_t device) {
    device == 0 ? memory::set_limit(bytes) : cache_of(device).set_limit(bytes);
  });
  m.def("limit",
        [](int64_t device) { return device == 0 ? memory::limit() : cache_of(device).limit(); });
  m.def("empty_cache", [](int64_t device) {
    if (device == 0) return memory::empty_cache();
    cache_of(device).empty_cache();
  });
}

}  // namespace

void bind_memory(py::module_& m) {
  using memory::Arena;
  bind_statistics(m);
  m.def("set_cache_limit", memory::set_cache_limit, py::arg("nbytes"));
  m.def("fail_nth_allocation", memory::fail_nth_allocation, py::arg("n"));
  py::class_<Arena> arena(
      m, "Arena",
      "A scope in which allocations are bumped from large chunks and given back together.");
  forbid_bare_new(arena);
  arena.def(py::init<size_t>(), py::arg("chunk_bytes") = size_t{1} << 20)
      .def("__enter__",
           [](py::object self) {
             self.cast<Arena&>().enter();
             return self;
           })
      .def("__exit__", [](Arena& self, const py::args&) { self.exit(); })
      .def("reset", &Arena::reset, "Forgets all chunks; live tensors keep theirs.")
      .def_property_readonly("used_bytes", &Arena::used_bytes, "Bytes bumped since the last reset.")
      .def_property_readonly("peak_bytes", &Arena::peak_bytes, "Most bytes ever in use.")
      .def_property_readonly("capacity_bytes", &Arena::capacity_bytes, "Bytes held.");
}

}  // namespace tinyt
