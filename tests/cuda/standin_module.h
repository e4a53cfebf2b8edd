// Interface between a compiled kernel library and the stand-in driver that loads it. The library
// exports one StandinModule, `standin_module`. Included by runner.h, so no standard headers.
#pragma once

struct StandinDim {
  unsigned x, y, z;
};

struct StandinArgument {
  unsigned bytes;
  bool is_pointer;
};

struct StandinKernel {
  const char* name;
  void (*run_thread)(void* const* values);  // with the address of each argument's value
  const StandinArgument* arguments;
  unsigned argument_count;
};

// What a lane brings to an operation of its warp. All lanes of the mask have to bring the same.
struct StandinWarpCall {
  const char* name;
  int line;
  unsigned mask;
  // Runs once, when they are there, with the operand of each lane; null: not one of the mask.
  void (*combine)(void* const* operands);
  void* operand;
};

// What the driver does for kernels that use twins.h. Errors end the launch.
struct StandinServices {
  void (*wait_for_warp)(const StandinWarpCall* call);
  // To shared memory, the first `read` bytes; the others become zeros.
  void (*copy)(void* to, const void* from, unsigned bytes, unsigned read);
  void (*end_copies)();
  void (*wait_for_copies)(unsigned later);
  // That bytes lie in shared memory, at a multiple of their count.
  void (*check_shared)(const void* place, unsigned bytes);
  char* shared;  // the dynamic shared memory of a block
};

struct StandinModule {
  // threadIdx, blockIdx, blockDim, gridDim: the driver sets them before it runs a thread.
  StandinDim *thread, *block, *block_dim, *grid_dim;
  void (**barrier)(int line);  // what __syncthreads() calls, set by the driver
  StandinServices* services;   // set by the driver; null: the kernels do not use twins.h
  char *shared_begin, *shared_end;
  const StandinKernel* kernels;
  unsigned kernel_count;
  bool has_barriers;
};
