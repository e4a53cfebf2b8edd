// The failure that fail_nth_allocation() asked for: whoever has another way out where memory is
// short leaves it to the caller.
#pragma once

#include <utility>

#include "core/base/error.h"

namespace tinyt::memory {

class SetToFail : public Error {
 public:
  explicit SetToFail(Error refusal) : Error(std::move(refusal)) {}
};

}  // namespace tinyt::memory
