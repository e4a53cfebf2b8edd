#include "c/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "c/json.h"
#include "core/base/checked.h"
#include "core/ops/dispatch.h"

namespace tinyt {

namespace {

constexpr size_t kMostHeader = 100'000'000;
constexpr size_t kMostRankInFile = 64;
constexpr std::string_view kMetadata = "__metadata__", kPairs = "tinyt.complex128";
static_assert(std::endian::native == std::endian::little, "values of the format are little-endian");

[[noreturn]] void fail_with_errno(std::string_view what, const std::string& path) {
  fail(ErrorKind::Runtime, what, " ", path, ": ", std::strerror(errno));
}

// An open file.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool close_now() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

void read_all(int fd, void* to, size_t bytes, const std::string& path) {
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t done = read(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno("load: cannot read", path);
    check_file(done > 0, path, " ends too early");
    at += done;
    bytes -= static_cast<size_t>(done);
  }
}

void write_all(int fd, const void* from, size_t bytes, const std::string& path) {
  for (const char* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t done = write(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno("save: cannot write", path);
    at += done;
    bytes -= static_cast<size_t>(done);
  }
}

// The format's name of a dtype; complex128, which it lacks, is stored as pairs of F64.
std::string name_in_file(DType t) {
  const std::string bits = std::to_string(8 * size_of(t));
  if (is_bool(t)) return "BOOL";
  if (t == DType::UInt8) return "U8";
  if (t == DType::BFloat16) return "BF16";
  return (is_complex(t) ? "C" : is_float(t) ? "F" : "I") + bits;
}

DType dtype_in_file(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (t != DType::Complex128 && name_in_file(t) == name) return t;
  }
  fail(ErrorKind::Runtime, "load: a tensor has the dtype ", name.substr(0, 20));
}

struct Entry {
  std::string name;
  DType dtype;
  Dims shape;
  int64_t begin, end;
};

Entry entry_of(const std::string& name, const Json& row) {
  check_file(row.members().size() == 3, "an entry has dtype, shape and data_offsets alone");
  const std::vector<int64_t> shape = row["shape"].integers();
  const std::vector<int64_t> offsets = row["data_offsets"].integers();
  check_file(shape.size() <= kMostRankInFile, "a tensor has ", shape.size(), " dimensions");
  check_file(offsets.size() == 2 && offsets[0] >= 0 && offsets[0] <= offsets[1],
             "the data_offsets of a tensor are [begin, end]");
  for (int64_t size : shape) check_file(size >= 0, "a size is ", size);
  Entry out{name, dtype_in_file(row["dtype"].text()), Dims(shape), offsets[0], offsets[1]};
  check_file(bytes_of("load", out.shape, out.dtype) == static_cast<size_t>(out.end - out.begin),
             "the data of a tensor has another length than its shape");
  return out;
}

std::vector<Entry> entries_of(const Json& header, TensorFile& file) {
  std::vector<Entry> out;
  for (const auto& [name, row] : header.members()) {
    if (name != kMetadata) {
      out.push_back(entry_of(name, row));
      continue;
    }
    for (const auto& [key, text] : row.members()) file.metadata.emplace_back(key, text.text());
  }
  std::ranges::sort(out, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (const std::string* pairs = file.find_metadata(kPairs)) {
    std::unordered_map<std::string, Entry*> by_name;
    for (Entry& entry : out) by_name.emplace(entry.name, &entry);
    for (const Json& name : Json::parse(*pairs).items()) {
      const auto at = by_name.find(name.text());
      check_file(at != by_name.end() && at->second->dtype == DType::Float64 &&
                     !at->second->shape.empty() && at->second->shape.back() == 2,
                 "a tensor of pairs is none");
      at->second->dtype = DType::Complex128;
      at->second->shape.pop_back();
    }
  }
  return out;
}

}  // namespace

const Tensor* TensorFile::find(const std::string& name) const {
  const auto at = places.find(name);
  return at == places.end() ? nullptr : &tensors[at->second].second;
}

const std::string* TensorFile::find_metadata(std::string_view name) const {
  for (const auto& [known, text] : metadata)
    if (known == name) return &text;
  return nullptr;
}

TensorFile read_tensors(const std::string& path) {
  // Not waiting for a FIFO's writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_with_errno("load: cannot open", path);
  struct stat facts{};
  if (fstat(file.get(), &facts) != 0) fail_with_errno("load: cannot open", path);
  check_file(S_ISREG(facts.st_mode), path, " is no regular file");
  const auto size = static_cast<uint64_t>(facts.st_size);
  uint64_t length = 0;
  check_file(size >= sizeof(length), "a file needs at least 8 bytes, this one has ", size);
  read_all(file.get(), &length, sizeof(length), path);
  check_file(length <= kMostHeader && length <= size - sizeof(length), "the header claims ", length,
             " bytes, the file has ", size);
  TensorFile out;
  out.header.resize(length);
  read_all(file.get(), out.header.data(), length, path);
  check_file(out.header.starts_with('{'), "the header does not start with '{'");
  const std::vector<Entry> entries = entries_of(Json::parse(out.header), out);
  int64_t at = 0;
  for (const Entry& entry : entries) {
    check_file(entry.begin == at, "the data of tensors overlaps or has gaps");
    at = entry.end;
  }
  check_file(static_cast<uint64_t>(at) == size - sizeof(length) - length, "the tensors take ", at,
             " bytes, the file has others");
  for (const Entry& entry : entries) {
    const Tensor x = Tensor::empty(entry.shape, entry.dtype);
    if (x.numel() > 0)
      read_all(file.get(), x.host_data(), static_cast<size_t>(entry.end - entry.begin), path);
    out.places.emplace(entry.name, out.tensors.size());
    out.tensors.emplace_back(entry.name, x);
  }
  return out;
}

void write_tensors(const std::string& path, const TensorFile& file) {
  const std::string beside = path + ".part" + std::to_string(getpid());
  struct Remove {
    const std::string& path;
    bool is_done = false;
    ~Remove() {
      if (!is_done) unlink(path.c_str());
    }
  };
  Descriptor made(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (made.get() < 0) fail_with_errno("save: cannot write", beside);
  Remove remove{beside};
  const uint64_t length = file.header.size();
  write_all(made.get(), &length, sizeof(length), beside);
  write_all(made.get(), file.header.data(), length, beside);
  for (const auto& [name, x] : file.tensors) {
    const Tensor dense = contiguous(x);
    const size_t bytes = static_cast<size_t>(dense.numel()) * dense.itemsize();
    if (bytes > 0) write_all(made.get(), dense.host_data(), bytes, beside);
  }
  if (fsync(made.get()) != 0 || !made.close_now()) fail_with_errno("save: cannot write", beside);
  if (rename(beside.c_str(), path.c_str()) != 0) fail_with_errno("save: cannot write", path);
  remove.is_done = true;
}

}  // namespace tinyt
