/* A device from outside of tinyt: this header, in C, is all that its library needs.

   The library exports `tinyt_backend` (TinytEntry), which tinyt calls once when the library is
   loaded. What it returns lives as long as the process. Functions are called from any thread, and
   none of them throws. Versions: one that the entry does not know is refused, by either side.

   tests/host2 is a whole backend, docs/adding-a-backend.md goes through it. */
#ifndef TINYT_BACKEND_API_H
#define TINYT_BACKEND_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TINYT_BACKEND_VERSION 1

/* What functions return. For all but the first the text that the thread gave to
   TinytHost.set_error is what the exception says. */
enum {
  TINYT_OK = 0,
  TINYT_FAILED = 1,          /* RuntimeError */
  TINYT_OUT_OF_MEMORY = 2,   /* of `allocate`: asked again after tinyt gave back what it keeps */
  TINYT_NOT_IMPLEMENTED = 3, /* NotImplementedError */
  TINYT_BAD_VALUE = 4,       /* ValueError */
  TINYT_BAD_INDEX = 5        /* IndexError */
};

/* Memory of a device, or of the host, which has no handle. */
typedef struct TinytMemory {
  void* handle;  /* what `allocate` has given */
  void* host;    /* where the host reads and writes it; NULL: nowhere */
  size_t bytes;  /* of a tensor's own; `release` gets what `allocate` was asked for */
  int32_t index; /* of the device */
} TinytMemory;

/* Some of its bytes, from `offset` on. */
typedef struct TinytPlace {
  TinytMemory memory;
  size_t offset;
} TinytPlace;

typedef struct TinytTensor {
  TinytMemory memory; /* numbers and 0-d tensors of the CPU may be operands: in host memory */
  int64_t offset;     /* of the first element, in elements */
  int32_t dtype;      /* TinytHost.dtype_name */
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* in elements; 0 and less are possible */
} TinytTensor;

/* A call that is checked. Operations, their attributes and the order of these: the table
   src/core/ops/ops.def. Elementwise operations broadcast their inputs, which may have other dtypes
   than `compute`, and outputs may have any strides and may be an input; all others write fresh
   contiguous memory, but for the steps of optimisers ("adam_step", ...): contiguous tensors, and
   result i lies where input i does. Their counters and numbers are in host memory. */
typedef struct TinytCall {
  const char* op;
  int32_t compute; /* the inputs' dtype, promoted */
  int32_t input_count;
  int32_t output_count;
  const TinytTensor* inputs;
  const TinytTensor* outputs;
  const int64_t* ints; /* attributes: integers, flags, dtypes, lists (their length first) */
  size_t int_count;
  const double* floats; /* attributes that are floats */
  size_t float_count;
} TinytCall;

typedef int (*TinytKernel)(void* context, const TinytCall* call);

/* An operation of a fused kernel: elementwise, "cast" or "copy" (to the dtype of its value), or a
   reduction of each row. It does what its call does: operands are converted as the row of the table
   says, the result is rounded to its dtype. */
typedef struct TinytFusedOp {
  const char* op;
  int32_t compute; /* as in TinytCall */
  int32_t dtype;   /* of the value that it makes */
  int32_t per_row; /* not 0: that has one element a row, which others take along the row */
  int32_t input_count;
  const int32_t* inputs;  /* values: the operands of the kernel first, then those that operations
                             make, in their order */
  const int32_t* singles; /* of each input, not 0: it has one element, which is converted as that of
                             a number: at once, not by way of `compute` (integers wrap there) */
} TinytFusedOp;

/* Operations over one space. Rows are its last `reduced` dimensions. */
typedef struct TinytFusedKernel {
  int32_t rank;
  int32_t reduced;
  const int64_t* shape;
  int32_t load_count;
  int32_t op_count;
  const int32_t* loads; /* dtypes */
  const TinytFusedOp* ops;
  int32_t store_count;
  const int32_t* stores; /* values that operations make */
} TinytFusedKernel;

/* What a device fuses, for which it has all four functions. */
typedef struct TinytFusion {
  size_t ops;         /* of a kernel, at most */
  int32_t reductions; /* not 0: it takes them */
  int64_t row_bytes;  /* of a row whose reductions are used again, at most */
  /* Not 0: a kernel may hold that operation, computed in that dtype. */
  int (*takes)(void* context, const char* op, int32_t compute);
  /* Prepares a kernel, which stays where it is until `release`. */
  int (*compile)(void* context, const TinytFusedKernel* kernel, void** out);
  /* One operand for each load, of any strides, that broadcasts to the space; stores are dense, each
     in memory apart from all else. The same geometry at each run. */
  int (*run)(void* context, void* compiled, const TinytTensor* operands, const TinytTensor* stores);
  void (*release)(void* context, void* compiled);
} TinytFusion;

typedef struct TinytProperties {
  const char* name;    /* of the hardware */
  size_t memory_bytes; /* 0: not known */
  size_t alignment;    /* of allocations, in bytes; a power of two */
} TinytProperties;

typedef struct TinytBackend {
  uint32_t version;           /* TINYT_BACKEND_VERSION */
  const char* name;           /* of the kind of device: "name:0" are tensors' devices */
  const char* const* aliases; /* names that mean the same, then NULL; or NULL */
  void* context;              /* first argument of all that follows */
  size_t most_buffers;        /* that a kernel binds at once, at least 3; 0: any number */

  int32_t (*device_count)(void* context);
  int (*properties)(void* context, int32_t index, TinytProperties* out);

  /* Sets handle and host; not both are NULL. `bytes` is not 0. */
  int (*allocate)(void* context, int32_t index, size_t bytes, TinytMemory* out);
  void (*release)(void* context, const TinytMemory* memory);

  /* Of this kind's memory, or the host's, to such memory; the two do not overlap. What runs on a
     device runs in the order of the calls, maybe after they have returned: copies from and to the
     host's memory, and synchronise, return when all before them and they themselves are done. */
  int (*copy)(void* context, const TinytPlace* to, const TinytPlace* from, size_t bytes);
  int (*fill)(void* context, const TinytPlace* to, size_t bytes, uint8_t value);
  int (*synchronise)(void* context, int32_t index);

  /* The kernel of an operation, or NULL. Asked once for each (but `to_device`, which is `copy`),
     and for two more:
     "copy_into" writes its input, broadcast and converted, into its output, any strides on both
     sides, no overlap; "count_nonzero" writes how many elements of its input are not 0 into an
     int64 in host memory. */
  TinytKernel (*kernel)(void* context, const char* op);
  /* Not 0: that kernel does not compute in a dtype (TinytCall.compute). Asked once for each of an
     operation that has one. NULL: it does in all. */
  int (*lacks)(void* context, const char* op, int32_t dtype);
  /* NULL: operations of programs run one by one. */
  const TinytFusion* fusion;
} TinytBackend;

/* What the library may ask of tinyt. */
typedef struct TinytHost {
  uint32_t version;
  void (*set_error)(const char* text); /* of this thread's next return that is not TINYT_OK */
  const char* (*dtype_name)(int32_t dtype);
  size_t (*dtype_bytes)(int32_t dtype);
  /* The CPU's kernel for a call of which all memory has host addresses: for a device whose memory
     the host reads, and for operations that it has no kernel for. */
  int (*run_on_cpu)(const TinytCall* call);
  /* The same of a fused kernel, one operation after another: slow, and what it means. */
  int (*run_fused_on_cpu)(const TinytFusedKernel* kernel, const TinytTensor* operands,
                          const TinytTensor* stores);
} TinytHost;

/* NULL, and an error set, where there is no such device or the version is another one. */
typedef const TinytBackend* (*TinytEntry)(uint32_t version, const TinytHost* host);

#ifdef __cplusplus
}
#endif

#endif
