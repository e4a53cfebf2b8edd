// Errors from below the operations.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace tinyt {

// Of memory and drivers, which do not know the operation that they work for: whoever runs one puts
// its name in front.
class BackendError : public Error {
 public:
  using Error::Error;
  // In the place of one that is there: what the user has called is the last to be named. Nothing
  // for a name that is empty.
  void name_op(std::string_view op) {
    if (!op.empty()) named_ = std::string(op) + ": " + Error::what();
  }
  const char* what() const noexcept override {
    return named_.empty() ? Error::what() : named_.c_str();
  }

 private:
  std::string named_;
};

// As `fail`.
template <class... Parts>
[[noreturn]] void fail_in_backend(ErrorKind kind, const Parts&... parts) {
  std::ostringstream os;
  (os << ... << parts);
  throw BackendError(kind, os.str());
}

}  // namespace tinyt
