// Memory of the host that a device reads later, so that copies to it wait for nobody.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>

#include "opencl/api.h"

namespace tinyt::opencl {

// Of one device. Its pieces are kept, at most kMostStaged bytes of them. Safe from any thread.
class Staging {
 public:
  static constexpr size_t kPiece = size_t{1} << 20, kMostStaged = size_t{32} << 20;

  struct Piece {
    Memory memory = nullptr;
    char* host = nullptr;
    Event read = nullptr;  // null: nobody reads it
  };

  // Calls write(piece), which asks the device to read the piece and gives the event of that; waits
  // for the oldest one where all are to be read yet. False, and nothing is called, where the driver
  // gives no such memory. `queue` is one without kernels.
  template <class F>
  bool use(const Api& api, Context context, Queue queue, const F& write) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Piece* piece = next(api, context, queue);
    if (piece != nullptr) piece->read = write(*piece);
    return piece != nullptr;
  }

 private:
  Piece* next(const Api& api, Context context, Queue queue);

  std::mutex mutex_;          // of what follows
  std::deque<Piece> pieces_;  // the one that was taken longest ago first
};

}  // namespace tinyt::opencl
