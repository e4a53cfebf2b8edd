// Sizes, strides and the rules on them: broadcasting, contiguity, views.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"

namespace tinyt {

// A vector of trivially copyable values that keeps the first N in place.
template <class T, int N>
class SmallVec {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVec() = default;
  explicit SmallVec(size_t n, T fill = T{}) { resize(n, fill); }
  SmallVec(std::initializer_list<T> v) { assign(v.begin(), v.end()); }
  SmallVec(std::span<const T> v) { assign(v.data(), v.data() + v.size()); }
  SmallVec(const SmallVec& o) { assign(o.begin(), o.end()); }
  SmallVec(SmallVec&& o) noexcept : heap_(std::move(o.heap_)), size_(o.size_), cap_(o.cap_) {
    if (!heap_) std::memcpy(inline_, o.inline_, sizeof(T) * size_);
    o.size_ = 0;
    o.cap_ = N;
  }
  SmallVec& operator=(const SmallVec& o) {
    if (this != &o) assign(o.begin(), o.end());
    return *this;
  }
  SmallVec& operator=(SmallVec&& o) noexcept {
    if (this != &o) {
      heap_ = std::move(o.heap_);
      size_ = o.size_;
      cap_ = o.cap_;
      if (!heap_) std::memcpy(inline_, o.inline_, sizeof(T) * size_);
      o.size_ = 0;
      o.cap_ = N;
    }
    return *this;
  }

  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  operator std::span<const T>() const { return {data(), size_}; }

  void clear() { size_ = 0; }
  void reserve(size_t n) {
    if (n <= cap_) return;
    const size_t cap = std::max(n, cap_ * 2);
    auto grown = std::make_unique<T[]>(cap);
    std::memcpy(grown.get(), data(), sizeof(T) * size_);
    heap_ = std::move(grown);
    cap_ = cap;
  }
  void push_back(T v) {
    reserve(size_ + 1);
    data()[size_++] = v;
  }
  void pop_back() { --size_; }
  void resize(size_t n, T fill = T{}) {
    reserve(n);
    for (size_t i = size_; i < n; ++i) data()[i] = fill;
    size_ = n;
  }
  void insert(size_t at, T v) {
    push_back(v);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  template <class It>
  void assign(It first, It last) {
    const size_t n = static_cast<size_t>(last - first);
    reserve(n);
    std::copy(first, last, data());
    size_ = n;
  }
  bool operator==(const SmallVec& o) const {
    if (size_ != o.size_) return false;
    const T *a = data(), *b = o.data();
    for (size_t i = 0; i < size_; ++i)  // few: no call of memcmp
      if (!(a[i] == b[i])) return false;
    return true;
  }

 private:
  T inline_[N];
  std::unique_ptr<T[]> heap_;
  size_t size_ = 0;
  size_t cap_ = N;
};

using Dims = SmallVec<int64_t, 6>;

inline std::ostream& operator<<(std::ostream& os, const Dims& d) {
  return os << std::span<const int64_t>(d);
}

// Number of elements; fails with ShapeError when it does not fit in int64.
int64_t numel_of(std::span<const int64_t> shape);

// Row-major strides, in elements.
Dims contiguous_strides(std::span<const int64_t> shape);

bool is_contiguous(std::span<const int64_t> shape, std::span<const int64_t> strides);

// True when two indices may reach the same element (stride 0, or strides that interleave).
bool may_self_overlap(std::span<const int64_t> shape, std::span<const int64_t> strides);

// The broadcast shape of a and b; fails with ShapeError that names `op`.
Dims broadcast(std::string_view op, std::span<const int64_t> a, std::span<const int64_t> b);

// Strides of `shape` seen at the larger `to` (0 where the size-1 or missing dimension repeats).
Dims broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> strides,
                       std::span<const int64_t> to);

// A dimension number in [-rank, rank) as one in [0, rank); 0-d counts as rank 1.
int64_t wrap_dim(std::string_view op, int64_t dim, int64_t rank);

// Wraps and checks a list of dimensions: sorted, no repeats; empty means all where `empty_is_all`.
// At rank 0 the list is checked and comes back empty, as there is no dimension to visit.
Dims wrap_dims(std::string_view op, std::span<const int64_t> dims, int64_t rank, bool empty_is_all);

// Replaces one -1 in `shape` so that it holds `numel` elements.
Dims resolve_reshape(std::string_view op, std::span<const int64_t> shape, int64_t numel);

// Strides that show (shape, strides) as `to` without a copy, or nothing when that needs one.
std::optional<Dims> view_strides(std::span<const int64_t> shape, std::span<const int64_t> strides,
                                 std::span<const int64_t> to);

}  // namespace tinyt
