// Typed errors. The bindings map each kind to one Python exception class.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <utility>

namespace tinyt {

enum class ErrorKind : uint8_t {
  Runtime,
  Shape,        // sizes that do not fit together
  DType,        // a dtype an op does not take
  Device,       // operands on different or unknown devices
  Dim,          // a dimension number out of range
  Index,        // an element index out of range
  Value,        // an argument outside its domain
  Type,         // an argument of the wrong Python type
  OutOfMemory,  // the limit or the machine refused
  Capture,      // something that cannot be recorded
  NotImplemented,
  Count,
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const noexcept { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

// Prints sizes the way Python prints a tuple: (2, 3), (4,), ().
inline std::ostream& operator<<(std::ostream& os, std::span<const int64_t> dims) {
  os << '(';
  for (size_t i = 0; i < dims.size(); ++i) os << (i ? ", " : "") << dims[i];
  return os << (dims.size() == 1 ? ",)" : ")");
}

// fail(ErrorKind::Shape, "matmul: inner dimensions must agree, got ", a, " @ ", b)
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream os;
  (os << ... << parts);
  throw Error(kind, os.str());
}

template <class... Parts>
void require(bool ok, ErrorKind kind, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(kind, parts...);
}

}  // namespace tinyt
