// The CPU time that the control groups of a process grant it.
#pragma once

#include <optional>
#include <string>

namespace tinyt {

// In cores, rounded up: the smallest quota of the process's control group and those around it
// (version 1 or 2); nothing where none is set. `root`: what stands before /proc and /sys.
std::optional<int> cpu_quota(const std::string& root = "");

}  // namespace tinyt
