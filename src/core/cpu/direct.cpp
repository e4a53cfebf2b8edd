// The source's lines are copied, zeros around them, so that every tap of a band of output rows
// reads one contiguous run: with a stride, a line's elements (and the lines) are dealt to as many
// parts as the stride. Rows of the output then lie `pitch` apart, with a few unused elements
// between them.
#include "direct.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "../parallel.h"
#include "levels.h"
#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kBand = 4096;         // elements of a band, about
constexpr int64_t kMaxPairs = 16;       // of channels in a group
constexpr int64_t kMaxTerms = 256;      // of the sum for one element
constexpr double kMaxPacked = 1 << 24;  // elements
constexpr int64_t kWorkOfTask = int64_t{1} << 18;

class Layout {
 public:
  explicit Layout(const Direct& d) : c_(d.columns), ins_(d.ins) {
    for (int i = 0; i < kSpatial; ++i) {
      span_[i] = (c_.kernel[i] - 1) * std::abs(c_.tap_step[i]);
      before_[i] = std::min<int64_t>(0, (c_.kernel[i] - 1) * c_.tap_step[i]);
    }
    pitch_ = c_.positions[2] + span_[2] / c_.multiply[2];
    rows_ = std::clamp<int64_t>(kBand / pitch_, 1, c_.positions[1]);
    height_ = rows_ + span_[1] / c_.multiply[1];
    for (int64_t i = 0; i < ins_; ++i) {
      for (int64_t t = 0; t < product(c_.kernel); ++t) offsets_.push_back(offset_of(i, t));
    }
  }
  int64_t pitch() const { return pitch_; }
  int64_t rows() const { return rows_; }  // of a band
  int64_t bands() const { return (c_.positions[1] + rows_ - 1) / rows_; }
  int64_t band_size() const { return rows_ * pitch_; }
  int64_t size() const { return ins_ * c_.kernel[0] * parts() * part_size(); }
  // Of (in, tap) in the packed lines, for the first element of a band.
  const int64_t* offsets() const { return offsets_.data(); }

  // Packs what output rows [y, y + rows) of plane z read of the group's channels.
  template <class T>
  void pack(const T* channels, int64_t z, int64_t y, T* to) const {
    const int64_t top = y * c_.multiply[1] + c_.offset[1] + before_[1];
    for (int64_t i = 0; i < ins_; ++i) {
      for (int64_t t = 0; t < c_.kernel[0]; ++t) {
        const int64_t plane = z * c_.multiply[0] + c_.offset[0] + t * c_.tap_step[0];
        const bool there = plane >= 0 && plane < c_.source[0];
        for (int64_t part = 0; part < c_.multiply[1]; ++part) {
          for (int64_t r = 0; r < height_; ++r) {
            const int64_t line = top + r * c_.multiply[1] + part;
            const bool inside = there && line >= 0 && line < c_.source[1];
            const T* from =
                channels + i * c_.channel_stride + (plane * c_.source[1] + line) * c_.source[2];
            pack_line(inside ? from : nullptr, to + r * pitch_);
          }
          to += c_.multiply[2] * part_size();
        }
      }
    }
  }

 private:
  int64_t parts() const { return c_.multiply[1] * c_.multiply[2]; }
  int64_t part_size() const { return height_ * pitch_; }

  int64_t offset_of(int64_t in, int64_t tap) const {
    const int64_t x = tap % c_.kernel[2] * c_.tap_step[2] - before_[2];
    const int64_t y = tap / c_.kernel[2] % c_.kernel[1] * c_.tap_step[1] - before_[1];
    const int64_t z = tap / c_.kernel[2] / c_.kernel[1];  // has lines of its own
    const int64_t part = y % c_.multiply[1] * c_.multiply[2] + x % c_.multiply[2];
    return ((in * c_.kernel[0] + z) * parts() + part) * part_size() + y / c_.multiply[1] * pitch_ +
           x / c_.multiply[2];
  }

  // One line of the source (null: zeros), dealt to the parts along x.
  template <class T>
  void pack_line(const T* line, T* to) const {
    const int64_t step = c_.multiply[2];
    for (int64_t part = 0; part < step; ++part, to += part_size()) {
      const int64_t left = c_.offset[2] + before_[2] + part;  // of the part's first element
      const int64_t begin = left >= 0 ? 0 : std::min(pitch_, (-left + step - 1) / step);
      const int64_t room = c_.source[2] - left;
      const int64_t end = std::clamp(room > 0 ? (room + step - 1) / step : 0, begin, pitch_);
      if (line == nullptr || begin == end) {
        zero_run(to, pitch_);
        continue;
      }
      zero_run(to, begin);
      if (step == 1) {
        copy_run(line + left + begin, to + begin, end - begin);
      } else {
        for (int64_t k = begin; k < end; ++k) to[k] = line[left + k * step];
      }
      zero_run(to + end, pitch_ - end);
    }
  }

  Columns c_;
  int64_t ins_, pitch_, rows_, height_;
  Sizes span_, before_;
  std::vector<int64_t> offsets_;
};

// Runs body(unit, scratch) for units that each do `work` multiplications, with room for `elements`.
template <class T, class F>
void for_units(int64_t units, int64_t work, int64_t elements, F&& body) {
  const int64_t grain = std::max<int64_t>(1, kWorkOfTask / std::max<int64_t>(1, work));
  const int threads = units > grain ? num_threads() : 1;
  constexpr auto kAlign = static_cast<int64_t>(memory::kAlignment);
  const int64_t bytes = (elements * static_cast<int64_t>(sizeof(T)) / kAlign + 1) * kAlign;
  const Scratch memory(bytes * threads);
  Slots slots(memory.data(), bytes, threads);
  parallel_ranges(units, grain, [&](int64_t begin, int64_t end) {
    slots.with_one([&](char* scratch) {
      for (int64_t i = begin; i < end; ++i) body(i, reinterpret_cast<T*>(scratch));
    });
  });
}

// Of one group in one image.
template <class T>
const T* channels_of(const Direct& d, int64_t image, int64_t group) {
  return reinterpret_cast<const T*>(d.columns.data) + image * d.columns.image_stride +
         group * d.ins * d.columns.channel_stride;
}

template <class T>
void product_of(const Direct& d, const T* lines, T* y) {
  const Layout layout(d);
  const auto correlate = kernels().direct->correlate[static_cast<int>(d.dtype)];
  const Sizes& out = d.columns.positions;
  const int64_t depth = d.ins * d.taps(), pitch = layout.pitch();
  const int64_t units = d.images * d.groups * out[0] * layout.bands();
  for_units<T>(units, layout.band_size() * depth * d.outs, layout.size() + layout.band_size(),
               [&](int64_t unit, T* packed) {
                 const int64_t top = unit % layout.bands() * layout.rows();
                 const int64_t z = unit / layout.bands() % out[0];
                 const int64_t plane = unit / layout.bands() / out[0];  // image and group
                 const int64_t group = plane % d.groups;
                 const int64_t rows = std::min(layout.rows(), out[1] - top);
                 layout.pack(channels_of<T>(d, plane / d.groups, group), z, top, packed);
                 for (int64_t o = 0; o < d.outs; ++o) {
                   T* to = y + ((plane * d.outs + o) * out[0] + z) * out[1] * out[2] + top * out[2];
                   T* band = pitch == out[2] ? to : packed + layout.size();
                   correlate(packed, layout.offsets(), lines + (group * d.outs + o) * depth, depth,
                             (rows - 1) * pitch + out[2], band);
                   if (band == to) continue;
                   for (int64_t r = 0; r < rows; ++r) {
                     copy_run(band + r * pitch, to + r * out[2], out[2]);
                   }
                 }
               });
}

template <class T>
void weights_of(const Direct& d, const T* grad, int64_t per_block, T* parts) {
  const Layout layout(d);
  const auto dots = kernels().direct->dots[static_cast<int>(d.dtype)];
  const Sizes& out = d.columns.positions;
  const int64_t depth = d.ins * d.taps(), pitch = layout.pitch();
  const int64_t units = (d.images + per_block - 1) / per_block * d.groups;
  const int64_t work = d.positions() * depth * d.outs * per_block;
  for_units<T>(units, work, layout.size() + layout.band_size(), [&](int64_t unit, T* packed) {
    const int64_t group = unit % d.groups, first = unit / d.groups * per_block;
    T* sums = parts + unit * d.outs * depth;
    T* band = packed + layout.size();
    std::fill_n(sums, d.outs * depth, T{0});
    std::fill_n(band, layout.band_size(), T{0});
    for (int64_t image = first; image < std::min(first + per_block, d.images); ++image) {
      for (int64_t at = 0; at < out[0] * layout.bands(); ++at) {
        const int64_t z = at / layout.bands(), top = at % layout.bands() * layout.rows();
        const int64_t rows = std::min(layout.rows(), out[1] - top);
        layout.pack(channels_of<T>(d, image, group), z, top, packed);
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

bool Direct::pays() const {
  if (images == 0 || taps() == 0 || ins * outs > kMaxPairs || ins * taps() > kMaxTerms)
    return false;
  double packed = static_cast<double>(ins * columns.kernel[0]);  // elements; may be astronomical
  for (int d = 1; d < kSpatial; ++d) {
    const auto step = static_cast<double>(columns.multiply[d]);
    const auto span = static_cast<double>(columns.kernel[d] - 1) *
                      static_cast<double>(std::abs(columns.tap_step[d]));
    const auto size = static_cast<double>(columns.positions[d]);
    packed *= step * ((d == 1 ? std::min(size, static_cast<double>(kBand)) : size) + span / step);
  }
  return packed <= kMaxPacked;
}

void direct_product(const Direct& d, const Tensor& lines, const Tensor& y) {
  if (d.dtype == DType::Float32) return product_of(d, lines.ptr<float>(), y.ptr<float>());
  if (d.dtype == DType::Float64) return product_of(d, lines.ptr<double>(), y.ptr<double>());
  product_of(d, lines.ptr<uint64_t>(), y.ptr<uint64_t>());
}

void direct_weights(const Direct& d, const Tensor& grad, int64_t per_block, const Tensor& parts) {
  if (d.dtype == DType::Float32) {
    return weights_of(d, grad.ptr<float>(), per_block, parts.ptr<float>());
  }
  if (d.dtype == DType::Float64) {
    return weights_of(d, grad.ptr<double>(), per_block, parts.ptr<double>());
  }
  weights_of(d, grad.ptr<uint64_t>(), per_block, parts.ptr<uint64_t>());
}

}  // namespace tinyt::cpu
