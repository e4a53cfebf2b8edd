// Products with a vector: memory is read once, along itself, whichever way the matrix lies.
#include <algorithm>

#include "cpu/matmul/matmul.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kVectorTask = kTaskProducts / 2;  // multiplications of a task
constexpr int64_t kLinesAtLeast = 16;
constexpr int64_t kColsAtLeast = 1024;  // of rows: what lies together is read together

template <class T>
void add_in_order(const T* parts, int64_t count, int64_t n, const Addend& add, T* out) {
  const T* from = static_cast<const T*>(add.data);
  parallel_ranges(n, kVectorTask / count + 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      T sum = parts[j];
      for (int64_t i = 1; i < count; ++i) sum += parts[i * n + j];
      out[j] = from == nullptr ? sum : sum + from[j * add.col];
    }
  });
}

// Cuts k into blocks of kRowBlock and the lines into tasks.
class DotBlocks {
 public:
  explicit DotBlocks(const VectorSizes& p)
      : from_(static_cast<int64_t>(size_of(p.from))),
        size_(static_cast<int64_t>(size_of(p.work))),
        blocks_(std::max<int64_t>(1, ceil_div(p.k, kRowBlock))),
        depth_(std::min(p.k, kRowBlock)) {
    const bool same = p.from == p.work;
    const bool direct = same || kernels().gemm->dots[static_cast<int>(p.from)] != nullptr;
    by_rows_ = direct && p.line == 1 && (p.step != 1 || p.n > p.k);
    by_lines_ = direct && (p.step == 1 || p.k == 1) && !by_rows_;
    const int64_t least = by_rows_ ? kColsAtLeast : kLinesAtLeast;
    lines_ = std::clamp(kVectorTask / std::max<int64_t>(1, depth_), least, std::max(least, p.n));
    copy_x_ = !same || (p.x_step != 1 && p.k != 1);
    const bool copies = copy_x_ || !(by_rows_ || by_lines_);
    slot_ = copies ? 2 * depth_ * size_ : 0;
    slots_ = copies ? num_threads() : 1;
    sums_ = blocks_ > 1 || p.adds ? p.count * blocks_ * p.n * size_ : 0;
  }
  int64_t workspace() const { return sums_ + slot_ * slots_; }

 protected:
  int64_t from_, size_;  // bytes of an element
  int64_t blocks_, depth_, lines_;
  bool by_rows_, by_lines_, copy_x_;
  int64_t slot_, slots_;  // bytes of a thread's copies
  int64_t sums_;          // bytes of the blocks' sums, which are not the result
};

class DotProducts : DotBlocks {
 public:
  explicit DotProducts(const VectorMatmul& p) : DotBlocks(p), p_(p) {}

  void run() const {
    const bool parts = sums_ > 0;
    const Workspace memory(workspace());
    Slots buffers(memory.data() + sums_, slot_, slots_);
    char* out = parts ? memory.data() : static_cast<char*>(p_.out);
    const int64_t across = ceil_div(p_.n, lines_);
    const int64_t grain = kVectorTask / (std::min(lines_, p_.n) * std::max<int64_t>(1, depth_)) + 1;
    parallel_ranges(p_.count * blocks_ * across, grain, [&](int64_t begin, int64_t end) {
      buffers.with_one([&](char* buffer) {
        for (int64_t i = begin; i < end; ++i)
          multiply(i / across, i % across * lines_, buffer, out);
      });
    });
    if (parts) finish(memory.data());
  }

 private:
  // Lines [first, first + lines_) in block `block` of all batches' blocks.
  void multiply(int64_t block, int64_t first, char* buffer, char* sums) const {
    const int64_t batch = block / blocks_, k = block % blocks_ * kRowBlock;
    const int64_t depth = std::min(kRowBlock, p_.k - k), cols = std::min(lines_, p_.n - first);
    const char* x = p_.x(batch) + k * p_.x_step * from_;
    if (copy_x_) x = read(x, p_.x_step, depth, buffer);
    const char* b = p_.lines(batch) + (first * p_.line + k * p_.step) * from_;
    DotBlock d = {
        depth, cols, x, b, by_rows_ ? p_.step : p_.line, sums + (block * p_.n + first) * size_};
    const GemmTable& table = *kernels().gemm;
    if (by_rows_) return table.row_sums[static_cast<int>(p_.from)](d);
    if (by_lines_) return table.dots[static_cast<int>(p_.from)](d);
    char* line = buffer + depth_ * size_;
    for (int64_t j = 0; j < cols; ++j) {
      DotBlock one = d;
      one.cols = 1;
      one.b = read(b + j * p_.line * from_, p_.step, depth, line);
      one.sums = static_cast<char*>(d.sums) + j * size_;
      table.dots[static_cast<int>(p_.work)](one);
    }
  }

  // n elements, `step` apart, next to each other in the dtype of the work.
  const char* read(const char* data, int64_t step, int64_t n, char* dense) const {
    for (int64_t i = 0; i < n; i += kTileElements) {
      const Block block = {const_cast<char*>(data) + i * step * from_, 0, step * from_};
      load_tile(block, p_.from, 1, std::min(kTileElements, n - i), p_.work, dense + i * size_);
    }
    return dense;
  }

  void finish(const char* parts) const {
    for (int64_t i = 0; i < p_.count; ++i) {
      sum_parts(p_.work, parts + i * blocks_ * p_.n * size_, blocks_, p_.n, p_.add,
                static_cast<char*>(p_.out) + i * p_.n * size_);
    }
  }

  const VectorMatmul& p_;
};

}  // namespace

void sum_parts(DType dtype, const void* parts, int64_t count, int64_t n, const Addend& add,
               void* out) {
  const auto sum = [&]<class T>(T* to) {
    add_in_order(static_cast<const T*>(parts), count, n, add, to);
  };
  if (dtype == DType::Float32) return sum(static_cast<float*>(out));
  if (dtype == DType::Float64) return sum(static_cast<double*>(out));
  sum(static_cast<uint64_t*>(out));
}

void multiply_vectors(const VectorMatmul& p) { DotProducts(p).run(); }
int64_t vectors_workspace(const VectorSizes& p) { return DotBlocks(p).workspace(); }

}  // namespace tinyt::cpu
