// Graphs as words, names and tensors, for files of programs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>

#include "casters.h"
#include "core/program/serialized_graph.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

std::tuple<Tensor, std::vector<std::string>, std::vector<Tensor>> serialized(const Graph& graph) {
  SerializedGraph out = serialize(graph);
  const Dims size{std::ssize(out.words)};
  const Tensor words = Tensor::empty(size, DType::Int64);
  std::memcpy(words.host_data(), out.words.data(), out.words.size() * sizeof(int64_t));
  return {words, std::move(out.names), std::move(out.memories)};
}

std::shared_ptr<Graph> deserialized(const Tensor& words, const std::vector<std::string>& names,
                                    const std::vector<Tensor>& memories, int64_t generators) {
  require(words.dtype() == DType::Int64 && words.rank() == 1 && words.is_contiguous() &&
              words.device() == Device{},
          ErrorKind::Value, "deserialized: the words are an int64 tensor of one dimension");
  for (const Tensor& x : memories)
    require(!x.is_recorded() && covers_storage(x), ErrorKind::Value,
            "deserialized: a tensor does not show all of its memory");
  // A copy: whoever has the tensor may write to it meanwhile.
  const std::vector<int64_t> all(words.ptr<int64_t>(), words.ptr<int64_t>() + words.numel());
  return deserialize(all, names, memories, generators);
}

// What has a tensor's geometry, and no memory.
Tensor stand_in(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int dtype,
                int64_t device) {
  require(dtype >= 0 && dtype < kDTypeCount && device >= 0 && device < kDeviceCodes &&
              strides.size() == shape.size(),
          ErrorKind::Value, "stand_in: there is no such tensor");
  for (int64_t size : shape)
    require(size >= 0, ErrorKind::Value, "stand_in: sizes must not be negative");
  numel_of(shape);
  return Tensor::from_storage(Storage::without_memory(0, device_of(device)), shape, strides, 0,
                              static_cast<DType>(dtype));
}

}  // namespace

void bind_serialized(py::module_& m) {
  using py::arg;
  m.def("serialized", serialized, arg("graph"),
        "(words, names, memories) of a finished recording (serialized_graph.h): an int64 tensor, "
        "what "
        "its words number, and the captured memory, each one a tensor that shows all of it. "
        "NotImplementedError where a step is code of Python's.");
  m.def("deserialized", deserialized, arg("words"), arg("names"), arg("memories"),
        arg("generators"),
        "The graph of such words over these memories, drawing from so many generators. An error "
        "where "
        "they are no graph.");
  m.def("stand_in", stand_in, arg("shape"), arg("strides"), arg("dtype"), arg("device"),
        "What has a tensor's geometry, and no memory: nothing but that may be asked of it.");
}

}  // namespace tinyt
