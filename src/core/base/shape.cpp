#include "core/base/shape.h"

#include <compare>
#include <cstdlib>

namespace tinyt {
namespace {

using SizeSpan = std::span<const int64_t>;

// The product of the sizes above zero, so that strides of an empty shape fit as well.
bool positive_product(SizeSpan shape, int64_t* product) {
  *product = 1;
  for (const int64_t n : shape) {
    if (n > 0 && __builtin_mul_overflow(*product, n, product)) return false;
  }
  return true;
}

bool has_zero(SizeSpan shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

struct Axis {
  int64_t stride;  // its absolute value
  int64_t size;
  auto operator<=>(const Axis&) const = default;
};

}  // namespace

int64_t numel_of(SizeSpan shape) {
  int64_t product = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    require(shape[i] >= 0, ErrorKind::Shape, "shape: sizes must not be negative, got ", shape[i],
            " at dimension ", i, " of ", shape);
  }
  require(positive_product(shape, &product), ErrorKind::Shape,
          "shape: the number of elements must fit in 64 bits, got ", shape);
  return has_zero(shape) ? 0 : product;
}

Dims contiguous_strides(SizeSpan shape) {
  Dims strides(shape.size());
  // Unsigned: shapes that never passed numel_of may wrap here, which must not be undefined.
  uint64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

bool is_contiguous(SizeSpan shape, SizeSpan strides) {
  int64_t step = 1;
  bool dense = true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;  // nothing to reach: any stride will do
    if (shape[i] == 1) continue;
    dense = dense && strides[i] == step;
    if (dense) step *= shape[i];
  }
  return dense;
}

bool may_self_overlap(SizeSpan shape, SizeSpan strides) {
  if (has_zero(shape)) return false;
  SmallVec<Axis, 6> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (strides[i] == 0) return true;
    axes.push_back({std::abs(strides[i]), shape[i]});
  }
  std::sort(axes.begin(), axes.end());
  // No overlap when every stride steps over all that the smaller strides can reach.
  int64_t reach = 0;
  for (const auto [stride, size] : axes) {
    int64_t extent = 0;
    if (stride <= reach || __builtin_mul_overflow(stride, size - 1, &extent) ||
        __builtin_add_overflow(reach, extent, &reach)) {
      return true;
    }
  }
  return false;
}

Dims broadcast(std::string_view op, SizeSpan a, SizeSpan b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) [[unlikely]] {
      fail(ErrorKind::Shape, op, ": shapes ", a, " and ", b, " do not broadcast at dimension ", i,
           ": ", x, " and ", y);
    }
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Dims broadcast_strides(SizeSpan shape, SizeSpan strides, SizeSpan to) {
  require(shape.size() <= to.size(), ErrorKind::Shape, "expand: shape ", shape,
          " has more dimensions than ", to);
  const size_t lead = to.size() - shape.size();
  Dims out(to.size());
  for (size_t i = to.size(); i-- > 0;) {
    const int64_t size = i < lead ? 1 : shape[i - lead];
    if (size != to[i]) {
      require(size == 1, ErrorKind::Shape, "expand: shape ", shape, " does not expand to ", to,
              " at dimension ", i, ": ", size, " and ", to[i]);
      out[i] = 0;
    } else if (i >= lead) {
      out[i] = strides[i - lead];
    } else {  // a new size-1 dimension gets the stride that PyTorch reports
      // Unsigned: of an empty tensor it may wrap.
      out[i] = i + 1 < to.size() ? static_cast<int64_t>(static_cast<uint64_t>(to[i + 1]) *
                                                        static_cast<uint64_t>(out[i + 1]))
                                 : 0;
    }
  }
  return out;
}

int64_t wrap_dim(std::string_view op, int64_t dim, int64_t rank) {
  const int64_t n = std::max<int64_t>(rank, 1);
  if (dim < -n || dim >= n) [[unlikely]] {
    fail(ErrorKind::Dim, op, ": dim ", dim, " is out of range [", -n, ", ", n - 1, "]");
  }
  return dim < 0 ? dim + n : dim;
}

Dims wrap_dims(std::string_view op, SizeSpan dims, int64_t rank, bool empty_is_all) {
  Dims out;
  if (dims.empty() && empty_is_all) {
    for (int64_t i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (const int64_t dim : dims) out.push_back(wrap_dim(op, dim, rank));
  std::sort(out.begin(), out.end());
  const int64_t* twice = std::adjacent_find(out.begin(), out.end());
  require(twice == out.end(), ErrorKind::Runtime, op, ": dim ", twice == out.end() ? 0 : *twice,
          " appears more than once in ", dims);
  if (rank == 0) out.clear();  // a 0-d tensor has no dimension to visit
  return out;
}

Dims resolve_reshape(std::string_view op, SizeSpan shape, int64_t numel) {
  Dims out(shape);
  std::optional<size_t> inferred;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      require(!inferred, ErrorKind::Shape, op, ": only one size may be -1, got ", shape);
      inferred = i;
    }
    require(shape[i] >= -1, ErrorKind::Shape, op, ": invalid size ", shape[i], " at dimension ", i,
            " of ", shape);
  }
  int64_t known = 1;
  const bool fits = positive_product(shape, &known);
  if (has_zero(shape)) {
    require(!inferred, ErrorKind::Shape, op, ": the -1 in ", shape,
            " can be any size for a tensor of ", numel, " elements");
    known = 0;
  }
  if (inferred && fits && numel % known == 0) {
    out[*inferred] = numel / known;
    return out;
  }
  require(!inferred && fits && known == numel, ErrorKind::Shape, op, ": shape ", shape,
          " does not hold ", numel, " elements");
  return out;
}

std::optional<Dims> view_strides(SizeSpan shape, SizeSpan strides, SizeSpan to) {
  if (std::equal(shape.begin(), shape.end(), to.begin(), to.end())) return Dims(strides);
  if (has_zero(shape)) return contiguous_strides(to);
  Dims out(to.size(), 1);
  // Walks runs of dimensions that are contiguous among themselves, innermost first; each must be
  // made up of whole dimensions of `to`.
  size_t left = to.size();
  int64_t base = shape.empty() ? 1 : strides.back();
  int64_t run = 1;
  int64_t placed = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    run *= shape[i];
    if (i > 0 && (shape[i - 1] == 1 || strides[i - 1] == run * base)) continue;
    while (left > 0 && (placed < run || to[left - 1] == 1)) {
      --left;
      out[left] = placed * base;
      placed *= to[left];
    }
    if (placed != run) return std::nullopt;
    if (i > 0) {
      base = strides[i - 1];
      run = placed = 1;
    }
  }
  if (left > 0 && !shape.empty()) return std::nullopt;
  return out;
}

}  // namespace tinyt
