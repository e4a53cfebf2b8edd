#include "core/base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tinyt {

namespace {

// Version 2 has "max 100000" or "150000 100000" in one file; version 1 has two, -1 without a quota.
std::optional<int> quota_in(const std::string& folder, bool unified) {
  double quota = 0, period = 0;
  if (unified) {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return std::nullopt;
  } else {
    std::ifstream first(folder + "/cpu.cfs_quota_us"), second(folder + "/cpu.cfs_period_us");
    if (!(first >> quota) || !(second >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0 || quota / period > 1e6) return std::nullopt;
  const double cores = quota / period;
  const int whole = static_cast<int>(cores);
  return std::max(1, whole + (cores > whole));
}

// The least from a group's folder up to where the hierarchy is mounted. In a container the path may
// be the host's, of which only the mount itself is there.
void lower(std::optional<int>& least, const std::string& mount, std::string path, bool unified) {
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    if (const auto found = quota_in(mount + path, unified))
      least = std::min(least.value_or(*found), *found);
    const size_t cut = path.rfind('/');
    if (path.empty() || cut == std::string::npos) return;
    path.resize(cut);
  }
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

std::optional<int> cpu_quota(const std::string& root) {
  std::optional<int> least;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names.empty()) {
      lower(least, mounts, path, true);
    } else if (lists_cpu(names)) {
      for (const std::string& folder : {names, std::string("cpu")})
        lower(least, mounts + "/" + folder, path, false);
    }
  }
  return least;
}

}  // namespace tinyt
