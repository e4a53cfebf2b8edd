// The failure that fail_nth_allocation() asked for: whoever has another way out where memory is
// short leaves it to the caller.
#pragma once

#include <utility>

#include "core/base/backend_error.h"

namespace tinyt::memory {

class SetToFail : public BackendError {
 public:
  explicit SetToFail(BackendError refusal) : BackendError(std::move(refusal)) {}
};

}  // namespace tinyt::memory
