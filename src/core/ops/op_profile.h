// Profile of eager operations: what ran, when, on which thread, over which operands.
//
// Off, it costs nothing: while it is on, calls go through a table of functions that note the time
// around the kernel of the device's own table (eager_kernels_of). Programs are planned with the
// device's own table always.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace tinyt {

struct OpEvent {
  std::string_view name;
  int64_t begin = 0, end = 0;  // nanoseconds, of profile_clock
  int64_t thread = 0;          // of profile_thread
  int64_t bytes = 0;           // of results that the call gave new memory
  std::vector<Dims> shapes;    // of the operands, where these were asked for
  std::vector<DType> dtypes;
};

// Whether a profile is on.
bool is_profiled();
// Notes an event by hand, where a profile is on.
void note_event(OpEvent event) noexcept;

// Nanoseconds of the steady clock that events are in.
int64_t profile_clock();
// A small number of this thread, from 1 on.
int64_t profile_thread();
// Begins to note what all threads call. RuntimeError where a profile is on already.
void start_profile(bool with_shapes);
// Ends it: the events since then, in the order in which they ended. RuntimeError where none is on.
std::vector<OpEvent> stop_profile();

// The time of a block, which may end by an exception.
class ProfileScope {
 public:
  explicit ProfileScope(std::string_view name) : name_(is_profiled() ? name : "") {
    if (!name_.empty()) begin_ = profile_clock();
  }
  ~ProfileScope() {
    if (!name_.empty()) note_event({name_, begin_, profile_clock(), profile_thread(), 0, {}, {}});
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  std::string_view name_;
  int64_t begin_ = 0;
};

}  // namespace tinyt
