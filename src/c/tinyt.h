/* tinyt in C: tensors, operations by name, and programs that Python has saved
   (docs/c-interface.md).

   Link with the library `tinyt_core` of an installed tinyt; no Python is needed. Functions that can
   fail return 0 (TINYT_SUCCESS) or another status, whose text `tinyt_error` gives. What they give
   is then untouched. All functions may be called from any thread; one tensor or program may be used
   by several threads at once as long as none writes to it, and runs of one program wait for each
   other.

   Handles (`tinyt_tensor*`, `tinyt_program*`) are the caller's, who frees each once. NULL is none:
   functions with a status say so, of the others those that ask give what each says for NULL, and
   those that do something do nothing. */
#ifndef TINYT_H
#define TINYT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with each change that a compiled caller would notice. */
#define TINYT_C_VERSION 1

typedef enum tinyt_status {
  TINYT_SUCCESS = 0,
  TINYT_RUNTIME_ERROR = 1,
  TINYT_SHAPE_ERROR = 2,  /* sizes that do not fit together */
  TINYT_DTYPE_ERROR = 3,  /* a dtype that an operation does not take */
  TINYT_DEVICE_ERROR = 4, /* a device that is not there, or operands on several */
  TINYT_DIM_ERROR = 5,    /* a number of a dimension out of range */
  TINYT_INDEX_ERROR = 6,  /* an index of an element out of range */
  TINYT_VALUE_ERROR = 7,  /* an argument outside of its domain */
  TINYT_TYPE_ERROR = 8,
  TINYT_MEMORY_ERROR = 9,
  TINYT_CAPTURE_ERROR = 10, /* a number that a program was made for is another one now */
  TINYT_NOT_IMPLEMENTED_ERROR = 11,
  TINYT_FILE_ERROR = 12 /* one that cannot be read or written, or is damaged */
} tinyt_status;

/* Parameters are ints, as any int may come and is checked. */
typedef enum tinyt_dtype {
  TINYT_NO_DTYPE = -1, /* that of NULL */
  TINYT_BOOL,          /* a byte, 0 or 1 */
  TINYT_UINT8,
  TINYT_INT8,
  TINYT_INT16,
  TINYT_INT32,
  TINYT_INT64,
  TINYT_FLOAT16, /* its 16 bits */
  TINYT_BFLOAT16,
  TINYT_FLOAT32,
  TINYT_FLOAT64,
  TINYT_COMPLEX64, /* two floats */
  TINYT_COMPLEX128
} tinyt_dtype;

typedef struct tinyt_tensor tinyt_tensor;
typedef struct tinyt_program tinyt_program;

/* ---- the library */

/* As "0.1.0", and TINYT_C_VERSION of the library that is linked. */
const char* tinyt_version(void);
int tinyt_c_version(void);
/* The text of this thread's last error, until its next one; never NULL. */
const char* tinyt_error(void);
/* How many threads run operations and programs; results do not depend on it. */
int tinyt_num_threads(void);
tinyt_status tinyt_set_num_threads(int threads);
/* "float32", and bytes of an element; NULL and 0 for what is no dtype. */
const char* tinyt_dtype_name(int dtype);
size_t tinyt_dtype_size(int dtype);

/* ---- tensors, in the host's memory */

/* A row-major tensor in memory of its own, with a copy of `data`, or zeros where that is NULL. */
tinyt_status tinyt_tensor_new(int dtype, int rank, const int64_t* shape, const void* data,
                              tinyt_tensor** out);
/* A tensor over memory of the caller's, row-major, aligned for its elements. `release(context)` is
   called once when nothing uses it any more; NULL: it outlives the tensor and all views of it. */
tinyt_status tinyt_tensor_wrap(int dtype, int rank, const int64_t* shape, void* data,
                               void (*release)(void* context), void* context, tinyt_tensor** out);
/* A number without dimensions, which takes the dtype of the tensors beside it as Python's do. */
tinyt_status tinyt_tensor_float(double number, tinyt_tensor** out);
tinyt_status tinyt_tensor_integer(int64_t number, tinyt_tensor** out);
/* The same memory seen otherwise; `stride` and `offset` count elements from the first one of all
   memory that the tensor lies in. */
tinyt_status tinyt_tensor_view(const tinyt_tensor* x, int rank, const int64_t* shape,
                               const int64_t* stride, int64_t offset, tinyt_tensor** out);
/* Another handle of the same tensor. */
tinyt_status tinyt_tensor_share(const tinyt_tensor* x, tinyt_tensor** out);
/* Nothing for NULL. */
void tinyt_tensor_free(tinyt_tensor* x);

/* For NULL: TINYT_NO_DTYPE, -1, -1, and below NULL. */
tinyt_dtype tinyt_tensor_dtype(const tinyt_tensor* x);
int tinyt_tensor_rank(const tinyt_tensor* x);
int64_t tinyt_tensor_numel(const tinyt_tensor* x);
/* As many as the rank; as long as the handle lives. Strides count elements. */
const int64_t* tinyt_tensor_shape(const tinyt_tensor* x);
const int64_t* tinyt_tensor_stride(const tinyt_tensor* x);
/* Where the first element lies. */
void* tinyt_tensor_data(const tinyt_tensor* x);
/* Copies all elements in row-major order; `bytes` must be those of the elements. */
tinyt_status tinyt_tensor_read(const tinyt_tensor* x, void* data, size_t bytes);
tinyt_status tinyt_tensor_write(tinyt_tensor* x, const void* data, size_t bytes);
/* to[...] = from: broadcast and converted. */
tinyt_status tinyt_tensor_assign(tinyt_tensor* to, const tinyt_tensor* from);

/* ---- operations: the rows of the op table (docs/c-interface.md), by name */

/* By its name in the row. Of the others the one counts that the row's kind says: `integer` for
   integers (i), flags (b: 0 or 1), dtypes (t) and devices (d: 0 is the CPU), `real` for floats (f),
   `list` and `count` for lists of integers (I). */
typedef struct tinyt_attribute {
  const char* name;
  int64_t integer;
  double real;
  const int64_t* list;
  size_t count;
} tinyt_attribute;

/* A row: how many operands (-1: any number) and results, and its attributes as "dims:I keepdim:b",
   those with a default as "dim:i=-1". */
typedef struct tinyt_op {
  const char* name;
  const char* attributes;
  int inputs;
  int outputs;
} tinyt_op;

int tinyt_op_count(void);
/* VALUE_ERROR for a number that no row has, or for NULL. */
tinyt_status tinyt_op_at(int number, tinyt_op* out);
/* Calls a row. Attributes with a default may be left out. There must be room for all its results.
 */
tinyt_status tinyt_call(const char* op, const tinyt_tensor* const* inputs, size_t input_count,
                        const tinyt_attribute* attributes, size_t attribute_count,
                        tinyt_tensor** outputs, size_t output_count);

/* ---- programs (docs/programs.md) */

/* Reads a file that `step.save(path)` has written. All of it is checked before it is used. */
tinyt_status tinyt_program_load(const char* path, tinyt_program** out);
/* Writes the programs with their tensors as they are now, whole or not at all. Numbers are written
   as they were in the file that was read. */
tinyt_status tinyt_program_save(tinyt_program* program, const char* path);
/* Nothing for NULL. Tensors that it has given stay. */
void tinyt_program_free(tinyt_program* program);

/* A file has a program for each kind of call that was captured. What program `number` takes and
   gives: "(float32[8, 4], int64[8], float) -> (float32[])"; NULL where there is none. Of NULL
   there are 0. */
int tinyt_program_count(const tinyt_program* program);
const char* tinyt_program_signature(const tinyt_program* program, int number);
/* How many results it gives; -1 where there is none. */
int tinyt_program_result_count(const tinyt_program* program, int number);

/* Runs the program for tensors of these dtypes, shapes and strides: the tensors of the captured
   call, in their order, nested ones too, and its floats. A whole training step includes its
   backward pass and its update. `results` gets one tensor for each tensor or float that the
   function returned and that a run may change; `result_count` must be their number. VALUE_ERROR
   where no program of the file is for such arguments. */
tinyt_status tinyt_program_run(tinyt_program* program, const tinyt_tensor* const* tensors,
                               size_t tensor_count, const double* numbers, size_t number_count,
                               tinyt_tensor** results, size_t result_count);

/* The tensors that programs read and write, by number and by name: the memory itself. Of NULL
   there are 0, as of numbers below. */
int tinyt_program_tensor_count(const tinyt_program* program);
const char* tinyt_program_tensor_name(const tinyt_program* program, int number);
tinyt_status tinyt_program_tensor(tinyt_program* program, const char* name, tinyt_tensor** out);
/* The gradient that the last run left for one; `*out` is NULL where there is none. */
tinyt_status tinyt_program_gradient(tinyt_program* program, const char* name, tinyt_tensor** out);
/* Forgets all gradients, as zero_grad() does. */
void tinyt_program_clear_gradients(tinyt_program* program);
/* The numbers that each run reads, as "lr". */
int tinyt_program_number_count(const tinyt_program* program);
const char* tinyt_program_number_name(const tinyt_program* program, int number);
tinyt_status tinyt_program_number(const tinyt_program* program, const char* name, double* out);
tinyt_status tinyt_program_set_number(tinyt_program* program, const char* name, double number);
/* Starts the random numbers of the default generator from a seed; without, from one of the
   operating system. */
void tinyt_program_seed(tinyt_program* program, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
