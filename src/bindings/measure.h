// Programs as reports for Python see them, and what their runs were like.
#pragma once

#include <pybind11/pybind11.h>

#include <span>

#include "core/program/program_profile.h"

namespace tinyt {

pybind11::tuple tuple_of(std::span<const int64_t> numbers);
pybind11::list describe_steps(const Program& program);
pybind11::list describe_places(const Program& program);
void bind_measures(pybind11::class_<Measures>& measures);

}  // namespace tinyt
