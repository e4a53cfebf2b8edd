#include "opencl/staging.h"

#include "opencl/library.h"

namespace tinyt::opencl {

namespace {

bool is_read(const Api& api, Event event) {
  Int status = 0;  // that of what has ended, or failed, is not above 0
  check(api.clGetEventInfo(event, kEventStatus, sizeof status, &status, nullptr), "clGetEventInfo");
  return status <= 0;
}

// Where the host may write as long as it lives; without memory where there is none.
Staging::Piece new_piece(const Api& api, Context context, Queue queue) {
  Staging::Piece made;
  Int status = kSuccess;
  made.memory =
      api.clCreateBuffer(context, kReadWrite | kOfHost, Staging::kPiece, nullptr, &status);
  if (status != kSuccess) return {};
  made.host = static_cast<char*>(api.clEnqueueMapBuffer(
      queue, made.memory, kTrue, kMapWrite, 0, Staging::kPiece, 0, nullptr, nullptr, &status));
  if (status == kSuccess) return made;
  api.clReleaseMemObject(made.memory);
  return {};
}

}  // namespace

Staging::Piece* Staging::next(const Api& api, Context context, Queue queue) {
  const bool is_free =
      !pieces_.empty() && (pieces_[0].read == nullptr || is_read(api, pieces_[0].read));
  if (!is_free && pieces_.size() < kMostStaged / kPiece) {
    const Piece made = new_piece(api, context, queue);
    if (made.memory != nullptr) return &pieces_.emplace_back(made);
  }
  if (pieces_.empty()) return nullptr;
  Piece oldest = pieces_.front();
  if (oldest.read != nullptr) {
    if (!is_free) check(api.clWaitForEvents(1, &oldest.read), "clWaitForEvents");
    check(api.clReleaseEvent(oldest.read), "clReleaseEvent");
    oldest.read = nullptr;
  }
  pieces_.pop_front();
  return &pieces_.emplace_back(oldest);
}

}  // namespace tinyt::opencl
