// Prints the suffixes of the levels that this machine can run, lowest first, as a CMake list.
#include "../src/cpu/schedule/features.h"

#include <cstdio>

int main() {
  const char* before = "";
  for (const tinyt::cpu::KnownLevel& level : tinyt::cpu::kKnownLevels) {
    if (!level.supported()) continue;
    std::printf("%s%s", before, level.suffix);
    before = ";";
  }
}
