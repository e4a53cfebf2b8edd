/* A device whose memory the host cannot read, in C: its kernels are the CPU's, which it lends the
   addresses that it keeps to itself. Whoever reads tensors behind its back gets null.

   HOST2_LACKS, names with commas between: the operations that it has no kernel for, "exp", or
   none in one dtype, "exp.float64"; "*" are all. HOST2_FAILS, the same of kernels that fail.
   HOST2_BYTES: what one device has at most. HOST2_BUFFERS: how many of its buffers a kernel binds
   at most. HOST2_FUSES: how many operations a fused kernel holds, 0 for none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/backend_api.h"

#define DEVICES 2
#define OPERANDS 64

static const TinytHost* g_host;
static size_t g_most, g_most_buffers;
static size_t g_used[DEVICES]; /* of one test at a time: no lock */

/* What a handle points to. */
typedef struct Memory {
  char* bytes;
} Memory;

static int32_t device_count(void* context) {
  (void)context;
  return DEVICES;
}

static int properties(void* context, int32_t index, TinytProperties* out) {
  (void)context;
  (void)index;
  out->name = "memory of the host, hidden";
  out->memory_bytes = g_most;
  out->alignment = 64;
  return TINYT_OK;
}

static int allocate(void* context, int32_t index, size_t bytes, TinytMemory* out) {
  (void)context;
  const size_t whole = (bytes + 63) / 64 * 64;
  if (g_most != 0 && whole > g_most - g_used[index]) return TINYT_OUT_OF_MEMORY;
  Memory* memory = malloc(sizeof(Memory));
  if (memory == NULL || (memory->bytes = aligned_alloc(64, whole)) == NULL) {
    free(memory);
    return TINYT_OUT_OF_MEMORY;
  }
  g_used[index] += whole;
  out->handle = memory;
  out->host = NULL;
  return TINYT_OK;
}

static void release(void* context, const TinytMemory* memory) {
  (void)context;
  Memory* own = memory->handle;
  g_used[memory->index] -= (memory->bytes + 63) / 64 * 64;
  free(own->bytes);
  free(own);
}

/* The address of what may be this device's or the host's. */
static char* address_of(const TinytMemory* memory) {
  return memory->handle != NULL ? ((Memory*)memory->handle)->bytes : memory->host;
}

static int copy(void* context, const TinytPlace* to, const TinytPlace* from, size_t bytes) {
  (void)context;
  if (bytes > 0)
    memcpy(address_of(&to->memory) + to->offset, address_of(&from->memory) + from->offset, bytes);
  return TINYT_OK;
}

static int fill(void* context, const TinytPlace* to, size_t bytes, uint8_t value) {
  (void)context;
  if (bytes > 0) memset(address_of(&to->memory) + to->offset, value, bytes);
  return TINYT_OK;
}

static int synchronise(void* context, int32_t index) {
  (void)context;
  (void)index;
  return TINYT_OK;
}

static void uncover(TinytTensor* to, const TinytTensor* from, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    to[i] = from[i];
    to[i].memory.host = address_of(&from[i].memory);
    to[i].memory.handle = NULL;
  }
}

static int is_seen(const void* handle, const TinytTensor* tensors, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (tensors[i].memory.handle == handle) return 1;
  return 0;
}

static int binds_too_many(const TinytCall* call) {
  size_t buffers = 0;
  if (g_most_buffers == 0) return 0;
  for (int32_t i = 0; i < call->input_count; ++i) {
    const void* handle = call->inputs[i].memory.handle;
    buffers += handle != NULL && !is_seen(handle, call->inputs, i);
  }
  for (int32_t i = 0; i < call->output_count; ++i) {
    const void* handle = call->outputs[i].memory.handle;
    buffers += handle != NULL && !is_seen(handle, call->inputs, call->input_count) &&
               !is_seen(handle, call->outputs, i);
  }
  return buffers > g_most_buffers;
}

/* Whether a name is one of those in a variable of the environment. */
static int is_named(const char* variable, const char* op) {
  const char* names = getenv(variable);
  const size_t length = strlen(op);
  if (names != NULL && strcmp(names, "*") == 0) return 1;
  while (names != NULL && *names != '\0') {
    const char* end = strchr(names, ',');
    const size_t own = end != NULL ? (size_t)(end - names) : strlen(names);
    if (own == length && strncmp(names, op, length) == 0) return 1;
    names += own + (end != NULL);
  }
  return 0;
}

static int run(void* context, const TinytCall* call) {
  (void)context;
  TinytTensor few[OPERANDS], *inputs = few, *outputs;
  const int32_t count = call->input_count + call->output_count;
  if (is_named("HOST2_FAILS", call->op)) {
    g_host->set_error("it fails, as was asked for");
    return TINYT_FAILED;
  }
  if (binds_too_many(call)) {
    g_host->set_error("it binds too many buffers");
    return TINYT_FAILED;
  }
  if (count > OPERANDS) {
    inputs = malloc((size_t)count * sizeof(TinytTensor));
    if (inputs == NULL) return TINYT_OUT_OF_MEMORY;
  }
  outputs = inputs + call->input_count;
  uncover(inputs, call->inputs, call->input_count);
  uncover(outputs, call->outputs, call->output_count);
  TinytCall on_cpu = *call;
  on_cpu.inputs = inputs;
  on_cpu.outputs = outputs;
  const int status = g_host->run_on_cpu(&on_cpu);
  if (inputs != few) free(inputs);
  return status;
}

static TinytKernel kernel(void* context, const char* op) {
  (void)context;
  return is_named("HOST2_LACKS", op) ? NULL : run;
}

static int lacks(void* context, const char* op, int32_t dtype) {
  (void)context;
  char name[64];
  snprintf(name, sizeof(name), "%s.%s", op, g_host->dtype_name(dtype));
  return is_named("HOST2_LACKS", name);
}

/* ---- fused kernels: the CPU runs them, too, one operation after another */

static int takes(void* context, const char* op, int32_t compute) {
  return !is_named("HOST2_LACKS", op) && !lacks(context, op, compute);
}

static int compile(void* context, const TinytFusedKernel* kernel, void** out) {
  (void)context;
  *out = (void*)kernel;
  return TINYT_OK;
}

static int run_fused(void* context, void* compiled, const TinytTensor* operands,
                     const TinytTensor* stores) {
  (void)context;
  const TinytFusedKernel* kernel = compiled;
  const int32_t loads = kernel->load_count, count = loads + kernel->store_count;
  const TinytCall call = {"fused", 0,    loads, kernel->store_count, operands, stores, NULL,
                          0,       NULL, 0};
  if (is_named("HOST2_FAILS", call.op) || binds_too_many(&call)) {
    g_host->set_error("it fails, as was asked for, or binds too many buffers");
    return TINYT_FAILED;
  }
  TinytTensor* all = malloc((size_t)count * sizeof(TinytTensor));
  if (all == NULL) return TINYT_OUT_OF_MEMORY;
  uncover(all, operands, loads);
  uncover(all + loads, stores, kernel->store_count);
  const int status = g_host->run_fused_on_cpu(kernel, all, all + loads);
  free(all);
  return status;
}

static void release_fused(void* context, void* compiled) {
  (void)context;
  (void)compiled;
}

static TinytFusion g_fusion = {64, 1, 1 << 17, takes, compile, run_fused, release_fused};

static const char* const kAliases[] = {"hidden", NULL};

static TinytBackend g_backend = {
    TINYT_BACKEND_VERSION,
    "host2",
    kAliases,
    NULL,
    0,
    device_count,
    properties,
    allocate,
    release,
    copy,
    fill,
    synchronise,
    kernel,
    lacks,
    &g_fusion,
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const TinytBackend* tinyt_backend(uint32_t version, const TinytHost* host) {
  const char *most = getenv("HOST2_BYTES"), *buffers = getenv("HOST2_BUFFERS");
  const char* fuses = getenv("HOST2_FUSES");
  if (version != TINYT_BACKEND_VERSION) {
    host->set_error("it is for another version of tinyt");
    return NULL;
  }
  g_host = host;
  g_most = most != NULL ? (size_t)strtoull(most, NULL, 10) : 0;
  g_most_buffers = buffers != NULL ? (size_t)strtoull(buffers, NULL, 10) : 0;
  g_backend.most_buffers = g_most_buffers;
  if (fuses != NULL) g_fusion.ops = (size_t)strtoull(fuses, NULL, 10);
  if (g_fusion.ops == 0) g_backend.fusion = NULL;
  return &g_backend;
}
