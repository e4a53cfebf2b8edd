#include "opencl/build.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "core/base/backend_error.h"
#include "gpu/kernel_cache.h"
#include "opencl/library.h"

namespace tinyt::opencl {

namespace {

// Each edge of a graph rounds, and no operation is left out: nothing that relaxes arithmetic.
constexpr const char* kBuildOptions = "-cl-std=CL1.2";
constexpr Int kBuildFailure = -11;

// PoCL compiles a kernel once more, in 0.26 s, when it is asked for a binary: it is asked for so
// many a process, so that none takes much longer than without a cache (benchmarks/notes/opencl.md).
constexpr int kMostAskedOfCpu = 16;

using OwnedProgram = std::unique_ptr<ProgramTag, Int (*)(Program)>;

// Null where the driver refuses the binary.
Kernel kernel_of_binary(const Api& api, const BuildTarget& target, const std::string& binary,
                        const std::string& name) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t count = binary.size();
  Int taken = kSuccess, status = kSuccess;
  const OwnedProgram program(
      api.clCreateProgramWithBinary(target.context, 1, &target.id, &count, &bytes, &taken, &status),
      api.clReleaseProgram);
  if (!program || status != kSuccess || taken != kSuccess) return nullptr;
  status = api.clBuildProgram(program.get(), 1, &target.id, kBuildOptions, nullptr, nullptr);
  if (status != kSuccess) return nullptr;
  const Kernel kernel = api.clCreateKernel(program.get(), name.c_str(), &status);
  return status == kSuccess ? kernel : nullptr;
}

// Empty where the driver has none.
std::string binary_of(const Api& api, Program program) {
  size_t bytes = 0;
  if (api.clGetProgramInfo(program, kBinarySizes, sizeof bytes, &bytes, nullptr) != kSuccess)
    return "";
  std::string binary(bytes, '\0');
  char* to = binary.data();
  if (bytes == 0 || api.clGetProgramInfo(program, kBinaries, sizeof to, &to, nullptr) != kSuccess)
    return "";
  return binary;
}

std::string build_log(const Api& api, const BuildTarget& target, Program program) {
  size_t bytes = 0;
  if (api.clGetProgramBuildInfo(program, target.id, kBuildLog, 0, nullptr, &bytes) != kSuccess)
    return "";
  std::string log(bytes, '\0');
  api.clGetProgramBuildInfo(program, target.id, kBuildLog, bytes, log.data(), nullptr);
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

}  // namespace

Kernel build_kernel(const Api& api, const BuildTarget& target, const std::string& source,
                    const std::string& name) {
  gpu::KernelCache& cache = gpu::KernelCache::instance();
  const std::string key = gpu::kernel_key({{"language", "OpenCL C"},
                                           {"device", target.identity},
                                           {"options", kBuildOptions},
                                           {"source", source}});
  if (const auto binary = cache.find(key))
    if (const Kernel kernel = kernel_of_binary(api, target, *binary, name)) return kernel;
  Int status = kSuccess;
  const char* text = source.c_str();
  const OwnedProgram program(
      api.clCreateProgramWithSource(target.context, 1, &text, nullptr, &status),
      api.clReleaseProgram);
  check(status, "clCreateProgramWithSource");
  status = api.clBuildProgram(program.get(), 1, &target.id, kBuildOptions, nullptr, nullptr);
  if (status == kBuildFailure)
    fail_in_backend(ErrorKind::Runtime, "opencl: ", target.name, " does not compile a kernel (",
                    status, "):\n", build_log(api, target, program.get()), "\n", source);
  check(status, "clBuildProgram");
  const Kernel kernel = api.clCreateKernel(program.get(), name.c_str(), &status);
  check(status, "clCreateKernel");
  static std::atomic<int> asked{0};
  if (cache.refusal().empty() && (!target.is_cpu || asked.fetch_add(1) < kMostAskedOfCpu))
    cache.keep(key, binary_of(api, program.get()));
  return kernel;
}

}  // namespace tinyt::opencl
