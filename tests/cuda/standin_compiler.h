// NVRTC on the host: CUDA C++ compiled by the host's compiler to a library, behind a header that
// stands for a cubin or for PTX.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/api.h"
#include "standin_nvrtc.h"

extern char** environ;

namespace tinyt::cuda {

struct ProgramTag {
  std::string source, name, log;
  std::string cubin, ptx;  // empty: there is none
};

}  // namespace tinyt::cuda

namespace standin {

using tinyt::cuda::CompilerStatus;
using tinyt::cuda::ProgramTag;

inline constexpr CompilerStatus kInvalidInput = 3, kInvalidProgram = 4, kInvalidOption = 5,
                                kNoHostCompiler = 7;  // NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
inline constexpr int kArchitectures[] = {50, 60, 70, 75, 80, 86, 89, 90, 100, 120};

// ---- images: a header, and a library

inline constexpr char kCubinMagic[16] = "tinyt stand-in", kPtxMagic[16] = "tinyt virtual";

struct ImageHeader {
  char magic[16];
  uint32_t architecture, bytes;  // of the library behind it
  uint32_t header_sum, library_sum;
};
static_assert(sizeof(ImageHeader) == 32);

inline uint32_t checksum(const void* data, size_t bytes) {  // FNV-1a
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < bytes; ++i)
    sum = (sum ^ static_cast<const unsigned char*>(data)[i]) * 16777619u;
  return sum;
}

inline std::string image(const char (&magic)[16], int architecture, const std::string& library) {
  ImageHeader header{};
  memcpy(header.magic, magic, sizeof magic);
  header.architecture = static_cast<uint32_t>(architecture);
  header.bytes = static_cast<uint32_t>(library.size());
  header.header_sum = checksum(&header, offsetof(ImageHeader, header_sum));
  header.library_sum = checksum(library.data(), library.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + library;
}

// Whether it is an image that a device of this capability runs.
inline bool is_image(const void* data, int capability) {
  ImageHeader header;
  memcpy(&header, data, sizeof header);
  const bool is_ptx = memcmp(header.magic, kPtxMagic, sizeof kPtxMagic) == 0;
  if (!is_ptx && memcmp(header.magic, kCubinMagic, sizeof kCubinMagic) != 0) return false;
  if (header.header_sum != checksum(&header, offsetof(ImageHeader, header_sum))) return false;
  if (header.library_sum != checksum(static_cast<const char*>(data) + sizeof header, header.bytes))
    return false;
  const int architecture = static_cast<int>(header.architecture);
  return architecture <= capability && (is_ptx || architecture / 10 == capability / 10);
}

// ---- files and processes

// A folder of its own for one compilation or one load, removed with the files named here.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* const parent = getenv("TMPDIR");
    path_ = std::string(parent && *parent ? parent : "/tmp") + "/standin-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    if (is_made()) rmdir(path_.c_str());
  }
  bool is_made() const { return !path_.empty(); }
  std::string file(const char* name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline bool write_file(const std::string& path, const void* data, size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  return static_cast<bool>(file.flush());
}

// A program's exit status, with all that it prints in a file; -1 where it cannot be started. It
// does not get LD_PRELOAD: a sanitizer in this process is not meant for a compiler.
inline int run_program(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> arguments, environment;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (char** entry = environ; *entry; ++entry)
    if (strncmp(*entry, "LD_PRELOAD=", 11) != 0) environment.push_back(*entry);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- compilation

struct CompileOptions {
  int architecture = 0;
  bool is_virtual = false, is_uncontracted = false;
};

// Why options are refused; empty: they are not.
inline std::string read_options(int count, const char* const* given, CompileOptions& options) {
  const std::regex architecture("--gpu-architecture=(sm|compute)_([0-9]{2,3})");
  for (int i = 0; i < count; ++i) {
    const std::string option = given[i];
    std::smatch match;
    if (std::regex_match(option, match, architecture)) {
      options.architecture = std::stoi(match[2]);
      options.is_virtual = match[1] == "compute";
      const int* const end = std::end(kArchitectures);
      if (std::find(kArchitectures, end, options.architecture) == end)
        return "invalid value for --gpu-architecture (-arch): " + option;
    } else if (option == "--fmad=false") {
      options.is_uncontracted = true;
    } else if (option != "--std=c++17") {
      return "unrecognized option " + option + " found";
    }
  }
  if (options.architecture == 0) return "the stand-in needs --gpu-architecture";
  if (!options.is_uncontracted) return "the stand-in needs --fmad=false";
  return {};
}

// The path of runner.h: that in STANDIN_RUNNER, or the one beside this file.
inline std::string runner_path() {
  if (const char* const path = getenv("STANDIN_RUNNER")) return path;
  const std::string here = __FILE__;
  const size_t slash = here.rfind('/');
  return (slash == std::string::npos ? "" : here.substr(0, slash + 1)) + "runner.h";
}

// The source as host C++: runner.h in front, with twins.h for one that has instructions.cuh; a list
// of its kernels behind. Operations of a warp are waited for as barriers are.
inline std::string host_source(const ProgramTag& program, int architecture) {
  const std::string& source = program.source;
  const bool has_twins = source.find("TINYT_TWINS") != std::string::npos;
  const bool has_barriers = has_twins || source.find("__syncthreads") != std::string::npos;
  std::ostringstream text;
  text << "#define STANDIN_PARAMETER_BYTES " << (architecture < 70 ? 4096 : 32764)
       << (has_twins ? "\n#define STANDIN_TWINS" : "") << "\n#include \"" << runner_path()
       << "\"\n#line 1 \"" << program.name << "\"\n"
       << source << "\nSTANDIN_MODULE(" << (has_barriers ? "true" : "false") << ", ";
  static const std::regex& kernel =
      *new std::regex(R"re(extern\s+"C"\s+__global__\s+void\s+)re"
                      R"re((?:__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\s*\()re");
  for (size_t at = 0; (at = source.find("extern", at)) != std::string::npos; at += 6) {
    std::smatch match;
    if (std::regex_search(source.begin() + static_cast<std::ptrdiff_t>(at), source.end(), match,
                          kernel, std::regex_constants::match_continuous))
      text << "STANDIN_KERNEL(" << match[1] << ") ";
  }
  text << ")\n";
  return text.str();
}

inline std::vector<std::string> compiler_words() {
  const char* const name = getenv("CXX");
  std::istringstream text(name && *name ? name : "c++");
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  for (const char* word :
       {"-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-w",
        "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
        "-fno-asynchronous-unwind-tables", "-nostdinc", "-nostdlib"})
    words.push_back(word);
  bool has_fma = false;
#ifdef __x86_64__
  has_fma = __builtin_cpu_supports("fma");
#endif
  words.push_back(has_fma ? "-mfma" : "-lm");  // with it no function of libm is left
  return words;
}

inline CompilerStatus compile(ProgramTag& program, int count, const char* const* given) {
  program.cubin.clear();
  program.ptx.clear();
  CompileOptions options;
  const std::string refused = read_options(count, given, options);
  program.log = refused.empty() ? "" : "nvrtc: error: " + refused + "\n";
  if (!refused.empty()) return kInvalidOption;
  TemporaryFolder folder;
  const std::string text = host_source(program, options.architecture);
  const std::string source = folder.file("kernel.cpp"), library = folder.file("kernel.so"),
                    log = folder.file("log");
  if (!folder.is_made() || !write_file(source, text.data(), text.size())) {
    program.log = "the stand-in cannot write " + source + "\n";
    return kNoHostCompiler;
  }
  std::vector<std::string> words = compiler_words();
  words.insert(words.begin() + 1, {source, "-o", library});
  const int status = run_program(words, log);
  program.log = read_file(log);
  if (status < 0) program.log += "the stand-in cannot run the compiler " + words[0] + "\n";
  if (status != 0) return status < 0 ? kNoHostCompiler : tinyt::cuda::kCompilation;
  program.log = refusal_of_nvrtc(program.source);
  if (program.log.empty()) program.log = refusal_of_hiprtc(program.source);
  if (!program.log.empty()) return tinyt::cuda::kCompilation;
  const std::string bytes = read_file(library);
  program.ptx = image(kPtxMagic, options.architecture, bytes) + '\0';
  if (!options.is_virtual) program.cubin = image(kCubinMagic, options.architecture, bytes);
  return tinyt::cuda::kSuccess;
}

}  // namespace standin
