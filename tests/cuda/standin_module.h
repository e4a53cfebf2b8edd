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

struct StandinModule {
  // threadIdx, blockIdx, blockDim, gridDim: the driver sets them before it runs a thread.
  StandinDim *thread, *block, *block_dim, *grid_dim;
  void (**barrier)(int line);  // what __syncthreads() calls, set by the driver
  char *shared_begin, *shared_end;
  const StandinKernel* kernels;
  unsigned kernel_count;
  bool has_barriers;
};
