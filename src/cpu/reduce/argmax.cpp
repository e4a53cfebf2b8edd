// argmax and argmin.
#include <algorithm>
#include <cstring>

#include "core/base/parallel.h"
#include "cpu/copy/gather.h"
#include "cpu/reduce/reduce.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kArgRows = 32;        // results looked for side by side, at most
constexpr int64_t kNeighbours = 8;      // results side by side that are worth a loop of their own
constexpr int64_t kArgmaxAcross = 256;  // of those, at most

class ArgJob {
 public:
  using Find = int64_t (*)(const void*, int64_t);

  ArgJob(const KernelCall& call, Find const (&table)[kDTypeCount],
         ReduceTable::ArgColumns const (&columns)[kDTypeCount]);
  void run();
  // Of the best of each of several chunks: positions and values.
  int64_t workspace() const { return chunks_ > 1 ? found() * (kPosition + item_) : 0; }

 private:
  static constexpr int64_t kPosition = sizeof(int64_t);
  int64_t found() const { return out_.numel() * chunks_; }

  // Finds the best of elements [begin, end) for `count` results from `first` on: its position and
  // its value for each, `step` entries apart.
  struct Search {
    int64_t first, count, begin, end;
    int64_t* positions;
    char* values;  // null when not wanted
    int64_t step;
  };
  void in_place(const Search& search) const;
  void across(const Search& search) const;
  void gathered(const Search& search) const;
  void put(const Search& search, int64_t i, int64_t position, const char* value) const;

  const Tensor& in_;
  const Tensor& out_;
  DType dtype_;
  int64_t item_;
  Find find_;
  ReduceTable::ArgColumns columns_;
  Axes outer_, reduced_;
  int64_t chunks_;
  int64_t at_once_ = 1;
};

ArgJob::ArgJob(const KernelCall& call, Find const (&table)[kDTypeCount],
               ReduceTable::ArgColumns const (&columns)[kDTypeCount])
    : in_(call.inputs[0]), out_(call.outputs[0]) {
  dtype_ = is_bool(in_.dtype()) ? DType::Int64 : info(in_.dtype()).compute;
  item_ = static_cast<int64_t>(size_of(dtype_));
  find_ = table[static_cast<int>(dtype_)];
  columns_ = columns[static_cast<int>(dtype_)];
  require(find_ != nullptr, ErrorKind::NotImplemented, name_of(call.op), ": no kernel for ",
          name_of(dtype_));
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const auto size = static_cast<int64_t>(in_.itemsize());
  for (size_t d = 0; d < in_.shape().size(); ++d) {
    (d == dim ? reduced_ : outer_).add(in_.size(d), in_.stride(d) * size);
  }
  chunks_ = ceil_div(reduced_.size(), kRowChunk);
}

void ArgJob::run() {
  const int64_t results = out_.numel(), n = reduced_.size();
  if (results == 0) return;
  auto search = &ArgJob::gathered;
  at_once_ = rows_at_once(outer_, reduced_);
  if (in_.dtype() == dtype_) {
    const bool neighbours = outer_.stride() == item_ && outer_.run() >= kNeighbours;
    if (at_once_ == kGatherRows) at_once_ = kArgRows;
    if (reduced_.dense(in_.itemsize())) {
      search = &ArgJob::in_place;
      at_once_ = kArgRows;
    } else if (neighbours) {
      search = &ArgJob::across;
      at_once_ = columns_at_once(outer_.run(), kArgmaxAcross);
    }
  }
  const int64_t chunks = chunks_, groups = ceil_div(results, at_once_);
  // The best of every chunk, [result][chunk]; with one chunk that is the output.
  const Workspace best(workspace());
  auto* positions = chunks > 1 ? reinterpret_cast<int64_t*>(best.data()) : out_.ptr<int64_t>();
  char* values = chunks > 1 ? best.data() + found() * kPosition : nullptr;
  const int64_t unit = at_once_ * std::min(n, kRowChunk);
  parallel_ranges(groups * chunks, std::max<int64_t>(1, kChunkElements / unit),
                  [&](int64_t first, int64_t last) {
                    for (int64_t u = first; u < last; ++u) {
                      const int64_t chunk = u % chunks, result = u / chunks * at_once_;
                      const int64_t begin = chunk * kRowChunk, at = result * chunks + chunk;
                      (this->*search)({result, std::min(at_once_, results - result), begin,
                                       std::min(n, begin + kRowChunk), positions + at,
                                       values ? values + at * item_ : nullptr, chunks});
                    }
                  });
  if (chunks == 1) return;
  for (int64_t r = 0; r < results; ++r) {
    const int64_t chunk = find_(values + r * chunks * item_, chunks);
    out_.ptr<int64_t>()[r] = positions[r * chunks + chunk];
  }
}

void ArgJob::put(const Search& search, int64_t i, int64_t position, const char* value) const {
  search.positions[i * search.step] = position;
  if (search.values) std::memcpy(search.values + i * search.step * item_, value, item_);
}

void ArgJob::in_place(const Search& search) const {
  outer_.runs(search.first, search.count, [&](int64_t at, int64_t position, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      const char* row = in_.host_data() + at + i * outer_.stride() + search.begin * item_;
      const int64_t k = find_(row, search.end - search.begin);
      put(search, position + i, search.begin + k, row + k * item_);
    }
  });
}

// Neighbouring results lie side by side, the elements of one far apart.
void ArgJob::across(const Search& search) const {
  alignas(64) char best[kArgmaxAcross * kMaxAccumulator];
  int64_t position[kArgmaxAcross];
  outer_.runs(search.first, search.count, [&](int64_t at, int64_t first, int64_t length) {
    const char* data = in_.host_data() + at + search.begin * reduced_.stride();
    columns_(data, search.end - search.begin, length, reduced_.stride(), best, position);
    for (int64_t i = 0; i < length; ++i) {
      put(search, first + i, search.begin + position[i], best + i * item_);
    }
  });
}

void ArgJob::gathered(const Search& search) const {
  Gathered tile;
  int64_t position[kArgRows];
  alignas(8) char best[kArgRows][2 * kMaxAccumulator];  // so far, and its challenger
  const int64_t width = gather_limit(in_.dtype() != dtype_) / at_once_;
  for (int64_t k = search.begin; k < search.end; k += width) {
    const int64_t n = std::min(width, search.end - k);
    load_patch(in_.host_data(), in_.dtype(), {outer_, search.first, search.count, reduced_, k, n},
               dtype_, tile.bytes);
    for (int64_t r = 0; r < search.count; ++r) {
      const char* row = tile.bytes + r * n * item_;
      const int64_t at = find_(row, n);
      if (k != search.begin) {
        std::memcpy(best[r] + item_, row + at * item_, item_);
        if (find_(best[r], 2) == 0) continue;
      }
      std::memcpy(best[r], row + at * item_, item_);
      position[r] = k + at;
    }
  }
  for (int64_t r = 0; r < search.count; ++r) put(search, r, position[r], best[r]);
}

}  // namespace

void kernel_argmax(const KernelCall& call) {
  const ReduceTable& table = *kernels().reduce;
  ArgJob(call, table.argmax, table.argmax_columns).run();
}
void kernel_argmin(const KernelCall& call) {
  const ReduceTable& table = *kernels().reduce;
  ArgJob(call, table.argmin, table.argmin_columns).run();
}
int64_t workspace_argmax(const KernelCall& call) {
  const ReduceTable& table = *kernels().reduce;
  return ArgJob(call, table.argmax, table.argmax_columns).workspace();
}
int64_t workspace_argmin(const KernelCall& call) {
  const ReduceTable& table = *kernels().reduce;
  return ArgJob(call, table.argmin, table.argmin_columns).workspace();
}

}  // namespace tinyt::cpu
