// Pieces of the host's memory for gpu::Staging, as OpenCL has them.
#pragma once

#include <optional>

#include "gpu/staging.h"
#include "opencl/api.h"

namespace tinyt::opencl {

struct Piece {
  char* host = nullptr;  // where the host may write as long as it lives
  Event read = nullptr;  // null: nobody reads it
};
using Staging = gpu::Staging<Piece>;

struct PieceSource {
  const Api& api;
  Context context;
  Queue queue;  // without kernels, for which maps would wait

  std::optional<Piece> make() const;
  bool is_read(Piece& piece) const;
  void wait(Piece& piece) const;
};

}  // namespace tinyt::opencl
