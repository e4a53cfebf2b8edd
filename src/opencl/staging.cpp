#include "opencl/staging.h"

#include "opencl/library.h"

namespace tinyt::opencl {

std::optional<Piece> PieceSource::make() const {
  constexpr size_t kBytes = Staging::kPiece;
  Int status = kSuccess;
  const Memory memory = api.clCreateBuffer(context, kReadWrite | kOfHost, kBytes, nullptr, &status);
  if (status != kSuccess) return std::nullopt;
  void* host = api.clEnqueueMapBuffer(queue, memory, kTrue, kMapWrite, 0, kBytes, 0, nullptr,
                                      nullptr, &status);
  if (status == kSuccess) return Piece{static_cast<char*>(host)};
  api.clReleaseMemObject(memory);
  return std::nullopt;
}

// The status of what has ended, or failed, is not above 0.
bool PieceSource::is_read(Piece& piece) const {
  if (piece.read == nullptr) return true;
  Int status = 0;
  check(api.clGetEventInfo(piece.read, kEventStatus, sizeof status, &status, nullptr),
        "clGetEventInfo");
  if (status <= 0) wait(piece);
  return status <= 0;
}

void PieceSource::wait(Piece& piece) const {
  const Event read = piece.read;
  piece.read = nullptr;
  check(api.clWaitForEvents(1, &read), "clWaitForEvents");
  check(api.clReleaseEvent(read), "clReleaseEvent");
}

}  // namespace tinyt::opencl
