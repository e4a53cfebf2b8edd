// The operation that a thread launches kernels for, for errors that show later.
#pragma once

#include <utility>

namespace tinyt::gpu {

// Its name, which lives as long as the process; null: none.
inline constinit thread_local const char* t_operation = nullptr;

class OperationScope {
 public:
  explicit OperationScope(const char* name) : outer_(std::exchange(t_operation, name)) {}
  ~OperationScope() { t_operation = outer_; }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  const char* outer_;
};

}  // namespace tinyt::gpu
