// The source's lines are copied, zeros around them; a tap of a band of output rows reads one
// contiguous run of the copy.
#include "cpu/conv/conv_direct.h"

#include <algorithm>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/padded_lines.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kBand = 4096;     // elements of a band, about
constexpr int64_t kRowsAtOnce = 4;  // computed side by side

// How a plane of the output is cut into bands of rows, and what its sums read.
class Layout {
 public:
  explicit Layout(const ConvProblem& d)
      : c_(d.columns),
        ins_(d.ins),
        rows_(std::clamp<int64_t>(kBand / PaddedLines::pitch_of(c_, c_.positions[2]), 1,
                                  c_.positions[1])),
        lines_(c_, rows_, c_.positions[2]) {
    for (int64_t i = 0; i < ins_; ++i) {
      for (int64_t t = 0; t < product(c_.kernel); ++t) offsets_.push_back(offset_of(i, t));
      for (int64_t z = 0; z < c_.kernel[0]; ++z) add_columns(i, z);
    }
    in_rows_ = rows_pay(d.dtype);
  }
  int64_t pitch() const { return lines_.pitch(); }
  int64_t rows() const { return rows_; }  // of a band
  int64_t bands() const { return (c_.positions[1] + rows_ - 1) / rows_; }
  int64_t band_size() const { return rows_ * pitch(); }
  int64_t size() const { return ins_ * lines_.size() + kMaxLanes; }
  // Of (in, tap) in the packed lines, for the first element of a band.
  const int64_t* offsets() const { return offsets_.data(); }
  // Whether several rows are computed side by side; else a band is one line.
  bool in_rows() const { return in_rows_; }
  // What all rows of a plane have in common.
  DirectRows columns() const {
    return {.in = nullptr,
            .pitch = pitch(),
            .column = columns_.data(),
            .columns = static_cast<int64_t>(columns_.size()),
            .step = c_.multiply[1] / c_.tap_step[1] * c_.kernel[2],
            .weight = nullptr,
            .out = nullptr,
            .rows = 0,
            .n = c_.positions[2],
            .out_row = c_.positions[2]};
  }

  // Packs what the output rows from y on of plane z read of the group's channels, where the zeros
  // beside the lines are already.
  template <class T>
  void pack(DType dtype, const T* channels, int64_t z, int64_t y, T* to) const {
    copy_channels(lines_, c_, dtype, ins_, z, y, 0, reinterpret_cast<const char*>(channels),
                  reinterpret_cast<char*>(to));
  }

 private:
  // Measured, in cycles. Four rows load all their lines, each with some two cycles more, and take
  // two fma a cycle. Lines by themselves take a load for each fma, which crosses a cache line the
  // more often the longer registers are, and a copy of the band.
  bool rows_pay(DType dtype) const {
    const int64_t lanes = kernels().gemm->tile[static_cast<int>(dtype)].cols / 2;
    const int64_t bytes = lanes * static_cast<int64_t>(size_of(dtype)), n = c_.positions[2];
    const int64_t registers = std::min(ceil_div(n, lanes), bytes / 16);  // of a row, at once
    const int64_t taps = ins_ * product(c_.kernel);
    int64_t lines = 0;
    for (const DirectColumn& column : columns_) lines += column.count + kRowsAtOnce - 1;
    const auto in_rows = static_cast<double>(lines * (registers + 2) + taps * registers / 2);
    const auto in_lines = static_cast<double>(kRowsAtOnce * registers * (taps + 3) * pitch()) /
                          static_cast<double>(round_up(n, lanes));
    return c_.positions[1] >= kRowsAtOnce && lines > 0 &&
           in_rows < in_lines * static_cast<double>(64 + bytes) / 128;
  }

  int64_t offset_of(int64_t in, int64_t tap) const {
    return in * lines_.size() + lines_.offset_of(tap);
  }

  // The taps of channel `in` and plane tap z: a column for each part along y and tap along x. None
  // where lines that no tap reads lie between.
  void add_columns(int64_t in, int64_t z) {
    if (c_.multiply[1] % c_.tap_step[1] != 0) return;
    const int64_t first = (in * c_.kernel[0] + z) * c_.kernel[1] * c_.kernel[2];
    for (int64_t part = 0; part < c_.multiply[1]; ++part) {
      for (int64_t x = 0; x < c_.kernel[2]; ++x) {
        DirectColumn column = {};
        for (int64_t k = 0; k < c_.kernel[1]; ++k) {
          const PaddedLines::Place y = lines_.place_of(k, 1);
          if (y.part != part) continue;
          if (y.at == 0) column.tap = first + k * c_.kernel[2] + x;
          ++column.count;
        }
        if (column.count == 0) continue;
        column.offset = offset_of(in, column.tap - in * product(c_.kernel));
        columns_.push_back(column);
      }
    }
  }

  Columns c_;
  int64_t ins_, rows_;
  PaddedLines lines_;
  bool in_rows_;
  std::vector<int64_t> offsets_;
  std::vector<DirectColumn> columns_;
};

// Units of a task that each do so much.
int64_t grain_of(int64_t work) {
  return std::max<int64_t>(1, kTaskProducts / std::max<int64_t>(1, work));
}

// Units of work for threads, with room for a band and what it reads.
struct Units {
  int64_t count, work, grain, threads, bytes;

  // Of the output, each with `work` multiplications.
  Units(const ConvProblem& d, const Layout& layout, int64_t count_, int64_t work_)
      : count(count_),
        work(work_),
        grain(grain_of(work)),
        threads(count > grain ? num_threads() : 1) {
    constexpr auto kAlign = static_cast<int64_t>(memory::kAlignment);
    const int64_t elements = layout.size() + layout.band_size();
    bytes = (elements * static_cast<int64_t>(size_of(d.dtype)) / kAlign + 1) * kAlign;
  }
  int64_t workspace() const { return bytes * threads; }
  bool tells(const ConvProblem& d, Epilogue* tail) const {
    return tail && tail->begin(d.positions(), count / grain);
  }
};

Units units_of_product(const ConvProblem& d, const Layout& layout) {
  return {d, layout, d.images * d.groups * d.columns.positions[0] * layout.bands(),
          layout.band_size() * d.ins * d.taps() * d.outs};
}

Units units_of_weights(const ConvProblem& d, const Layout& layout, int64_t per_block) {
  return {d, layout, ceil_div(d.images, per_block) * d.groups,
          d.positions() * d.ins * d.taps() * d.outs * per_block};
}

// Runs body(unit, scratch); the first `zeros` elements are zero at the start of a task.
template <class T, class F>
void for_units(const Units& units, int64_t zeros, F&& body) {
  const Workspace memory(units.workspace());
  Slots slots(memory.data(), units.bytes, units.threads);
  parallel_ranges(units.count, units.grain, [&](int64_t begin, int64_t end) {
    slots.with_one([&](char* scratch) {
      std::fill_n(reinterpret_cast<T*>(scratch), zeros, T{0});
      for (int64_t i = begin; i < end; ++i) body(i, reinterpret_cast<T*>(scratch));
    });
  });
}

// Of one group in one image.
template <class T>
const T* channels_of(const ConvProblem& d, int64_t image, int64_t group) {
  return reinterpret_cast<const T*>(d.columns.data) + image * d.columns.image_stride +
         group * d.ins * d.columns.channel_stride;
}

// Output rows [top, top + rows) of one channel, from the packed lines.
template <class T>
void rows_of(const ConvProblem& d, const Layout& layout, const T* packed, T* band, const T* weight,
             int64_t rows, T* to) {
  const int64_t depth = d.ins * d.taps(), pitch = layout.pitch(), n = d.columns.positions[2];
  const auto type = static_cast<int>(d.dtype);
  if (layout.in_rows()) {
    DirectRows args = layout.columns();
    args.in = packed;
    args.weight = weight;
    args.out = to;
    args.rows = rows;
    return kernels().direct->rows[type](args);
  }
  T* out = pitch == n ? to : band;
  kernels().direct->correlate[type](packed, layout.offsets(), weight, depth, (rows - 1) * pitch + n,
                                    out);
  if (out == to) return;
  for (int64_t r = 0; r < rows; ++r) copy_run(band + r * pitch, to + r * n, n);
}

template <class T>
void product_of(const ConvProblem& d, const T* lines, T* y, Epilogue* tail) {
  const Layout layout(d);
  const Sizes& out = d.columns.positions;
  const int64_t depth = d.ins * d.taps();
  const Units units = units_of_product(d, layout);
  const bool tells = units.tells(d, tail);
  for_units<T>(units, layout.size(), [&](int64_t unit, T* packed) {
    const int64_t top = unit % layout.bands() * layout.rows();
    const int64_t z = unit / layout.bands() % out[0];
    const int64_t plane = unit / layout.bands() / out[0];  // image and group
    const int64_t group = plane % d.groups;
    const int64_t rows = std::min(layout.rows(), out[1] - top);
    layout.pack(d.dtype, channels_of<T>(d, plane / d.groups, group), z, top, packed);
    for (int64_t o = 0; o < d.outs; ++o) {
      T* to = y + ((plane * d.outs + o) * out[0] + z) * out[1] * out[2] + top * out[2];
      rows_of(d, layout, packed, packed + layout.size(), lines + (group * d.outs + o) * depth, rows,
              to);
    }
    if (tells) tail->run(plane * d.outs, d.outs, (z * out[1] + top) * out[2], rows * out[2]);
  });
}

template <class T>
void weights_of(const ConvProblem& d, const T* grad, int64_t per_block, T* parts) {
  const Layout layout(d);
  const auto dots = kernels().direct->dots[static_cast<int>(d.dtype)];
  const Sizes& out = d.columns.positions;
  const int64_t depth = d.ins * d.taps(), pitch = layout.pitch();
  for_units<T>(units_of_weights(d, layout, per_block), layout.size(), [&](int64_t unit, T* packed) {
    const int64_t group = unit % d.groups, first = unit / d.groups * per_block;
    T* sums = parts + unit * d.outs * depth;
    T* band = packed + layout.size();
    std::fill_n(sums, d.outs * depth, T{0});
    std::fill_n(band, layout.band_size(), T{0});
    for (int64_t image = first; image < std::min(first + per_block, d.images); ++image) {
      for (int64_t at = 0; at < out[0] * layout.bands(); ++at) {
        const int64_t z = at / layout.bands(), top = at % layout.bands() * layout.rows();
        const int64_t rows = std::min(layout.rows(), out[1] - top);
        layout.pack(d.dtype, channels_of<T>(d, image, group), z, top, packed);
        for (int64_t o = 0; o < d.outs; ++o) {
          const T* from =
              grad + (((image * d.groups + group) * d.outs + o) * out[0] + z) * out[1] * out[2] +
              top * out[2];
          for (int64_t r = 0; r < rows; ++r) {
            copy_run(from + r * out[2], band + r * pitch, out[2]);
          }
          dots(band, packed, layout.offsets(), depth, (rows - 1) * pitch + out[2],
               sums + o * depth);
        }
      }
    }
  });
}

}  // namespace

double direct_packed(const ConvProblem& d) {
  const Sizes& n = d.columns.positions;
  return static_cast<double>(d.ins) * PaddedLines::elements(d.columns, std::min(n[1], kBand), n[2]);
}

void direct_product(const ConvProblem& d, const Tensor& lines, const Tensor& y, Epilogue* tail) {
  if (d.dtype == DType::Float32) return product_of(d, lines.ptr<float>(), y.ptr<float>(), tail);
  if (d.dtype == DType::Float64) return product_of(d, lines.ptr<double>(), y.ptr<double>(), tail);
  product_of(d, lines.ptr<uint64_t>(), y.ptr<uint64_t>(), tail);
}

void direct_weights(const ConvProblem& d, const Tensor& grad, int64_t per_block,
                    const Tensor& parts) {
  if (d.dtype == DType::Float32) {
    return weights_of(d, grad.ptr<float>(), per_block, parts.ptr<float>());
  }
  if (d.dtype == DType::Float64) {
    return weights_of(d, grad.ptr<double>(), per_block, parts.ptr<double>());
  }
  weights_of(d, grad.ptr<uint64_t>(), per_block, parts.ptr<uint64_t>());
}

int64_t direct_workspace(const ConvProblem& d, Epilogue* tail) {
  const Units units = units_of_product(d, Layout(d));
  units.tells(d, tail);
  return units.workspace();
}

int64_t direct_weights_workspace(const ConvProblem& d, int64_t per_block) {
  return units_of_weights(d, Layout(d), per_block).workspace();
}

}  // namespace tinyt::cpu
