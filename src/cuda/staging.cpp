#include "cuda/staging.h"

#include "cuda/library.h"

namespace tinyt::cuda {

std::optional<Piece> PieceSource::make() const {
  Piece piece;
  if (api.cuEventCreate(&piece.read, kWithoutTimes) != kSuccess) return std::nullopt;
  void* host = nullptr;
  if (api.cuMemHostAlloc(&host, Staging::kPiece, kPortable) != kSuccess) {
    api.cuEventDestroy(piece.read);
    return std::nullopt;
  }
  piece.host = static_cast<char*>(host);
  return piece;
}

bool PieceSource::is_read(Piece& piece) const {
  if (!piece.is_pending) return true;
  const Status status = api.cuEventQuery(piece.read);
  if (status == kNotReady) return false;
  check(api, status, "cuEventQuery");
  piece.is_pending = false;
  return true;
}

void PieceSource::wait(Piece& piece) const {
  check(api, api.cuEventSynchronize(piece.read), "cuEventSynchronize");
  piece.is_pending = false;
}

}  // namespace tinyt::cuda
