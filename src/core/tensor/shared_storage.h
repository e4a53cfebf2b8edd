// Storages in memory that several processes map.
//
// A segment has no name: a descriptor of it is all there is, and what a process sends to another.
// The system frees it with the last mapping and descriptor, however the processes end.
#pragma once

#include "core/tensor/tensor.h"

namespace tinyt {

// Moves the bytes of a tensor's storage into a segment; all tensors that see it see it there.
// CaptureError for recorded values, RuntimeError where an array uses the memory; nothing for what
// is in a segment already.
void move_to_shared(const Tensor& x);
// The descriptor of its storage's segment, which stays the storage's; -1 where it has none.
int shared_descriptor(const Tensor& x);
// `bytes` of a segment as uint8, in the storage that this process has of the segment, or in a new
// one. Takes over the descriptor in any case.
Tensor map_shared(int descriptor, size_t bytes);

}  // namespace tinyt
