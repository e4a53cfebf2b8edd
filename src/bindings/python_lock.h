// The interpreter's lock, taken and given back. While the interpreter ends, Python before 3.14 ends
// every other thread that asks for the lock by unwinding its stack (pthread_exit). That may not
// pass C++ destructors and handlers: std::terminate would abort the process. Here such a thread
// sleeps until the process is gone, as in Python 3.14.
#pragma once

#include <Python.h>

#include <chrono>
#include <thread>

namespace tinyt {

// Calls a function of Python's that may take the lock and throws no C++ exception. The frame has
// nothing to destroy: objects that need the lock belong outside of it.
template <class F>
auto call_or_sleep(const F& function) noexcept {
  try {
    return function();
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Has the lock for its lifetime.
class PythonLocked {
 public:
  PythonLocked() : state_(call_or_sleep([] { return PyGILState_Ensure(); })) {}
  ~PythonLocked() { PyGILState_Release(state_); }
  PythonLocked(const PythonLocked&) = delete;
  PythonLocked& operator=(const PythonLocked&) = delete;

 private:
  PyGILState_STATE state_;
};

inline void take_python_lock(PyThreadState* state) {
  call_or_sleep([state] { PyEval_RestoreThread(state); });
}

// Has given the lock up for its lifetime.
class PythonUnlocked {
 public:
  PythonUnlocked() : state_(PyEval_SaveThread()) {}
  ~PythonUnlocked() { take_python_lock(state_); }
  PythonUnlocked(const PythonUnlocked&) = delete;
  PythonUnlocked& operator=(const PythonUnlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace tinyt
