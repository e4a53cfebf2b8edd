// Pieces of pinned memory of the host for gpu::Staging.
#pragma once

#include <optional>

#include "cuda/api.h"
#include "gpu/staging.h"

namespace tinyt::cuda {

struct Piece {
  char* host = nullptr;
  Event read = nullptr;     // happens when the device has read it
  bool is_pending = false;  // whether that was asked for
};
using Staging = gpu::Staging<Piece>;

// Of the device whose context is this thread's.
struct PieceSource {
  const Api& api;

  std::optional<Piece> make() const;
  bool is_read(Piece& piece) const;
  void wait(Piece& piece) const;
};

}  // namespace tinyt::cuda
