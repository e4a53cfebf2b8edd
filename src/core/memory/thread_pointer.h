// A pointer of the thread that is read by every call.
#pragma once

// A shared library otherwise asks a function for the address. The loader keeps room for a few
// such pointers in libraries that are opened late, but only where it is glibc's.
#if defined(__GLIBC__) && defined(__GNUC__)
#define TINYT_THREAD_POINTER __attribute__((tls_model("initial-exec"))) constinit thread_local
#else
#define TINYT_THREAD_POINTER constinit thread_local
#endif
