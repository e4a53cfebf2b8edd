// Planted bug: the chunks of a parallel loop add to one plain variable.
#include <atomic>
#include <cstdio>
#include <thread>

#include "core/base/parallel.h"

int main() {
  tinyt::set_num_threads(2);
  long long total = 0;
  std::atomic<int> arrived{0};
  tinyt::parallel_for(2, [&](int64_t c) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // two threads, whatever the machine's load
    for (int i = 0; i < 1000; ++i) total += c;
  });
  std::printf("total %lld\n", total);
  return 0;
}
