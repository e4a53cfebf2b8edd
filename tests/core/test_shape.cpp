#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "check.h"
#include "core/base/checked.h"
#include "core/base/shape.h"

namespace {

using namespace tinyt;

constexpr int64_t kHuge = int64_t{1} << 40;

void test_small_vec() {
  Dims d{1, 2, 3};
  for (int64_t i = 4; i <= 20; ++i) d.push_back(i);
  CHECK_EQ(d.size(), 20u);
  const Dims copy = d;
  Dims moved = std::move(d);
  CHECK_EQ(moved, copy);
  moved.insert(0, 0);
  moved.erase(20);
  CHECK_EQ(moved[0], 0);
  CHECK_EQ(moved.back(), 19);
  Dims small{7};
  moved = std::move(small);
  CHECK_EQ(moved, Dims{7});
}

void test_numel() {
  CHECK_EQ(numel_of(Dims{}), 1);
  CHECK_EQ(numel_of(Dims{2, 3, 4}), 24);
  CHECK_EQ(numel_of(Dims{2, 0, 4}), 0);
  CHECK_EQ(numel_of(Dims{std::numeric_limits<int64_t>::max()}),
           std::numeric_limits<int64_t>::max());
  CHECK_FAILS(Shape, "got (1099511627776, 1099511627776)", numel_of(Dims{kHuge, kHuge}));
  CHECK_FAILS(Shape, "64 bits", numel_of(Dims{kHuge, kHuge, 0}));
  CHECK_FAILS(Shape, "got -3 at dimension 1 of (2, -3)", numel_of(Dims{2, -3}));
}

void test_contiguity() {
  CHECK_EQ(contiguous_strides(Dims{}), Dims{});
  CHECK_EQ(contiguous_strides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  CHECK_EQ(contiguous_strides(Dims{2, 0, 3}), (Dims{3, 3, 1}));
  CHECK(is_contiguous(Dims{}, Dims{}));
  CHECK(is_contiguous(Dims{2, 3}, Dims{3, 1}));
  CHECK(is_contiguous(Dims{2, 1, 3}, Dims{3, 77, 1}));
  CHECK(is_contiguous(Dims{2, 0}, Dims{9, 9}));
  CHECK(is_contiguous(Dims{0, 2}, Dims{9, 9}));
  CHECK(!is_contiguous(Dims{2, 3}, Dims{1, 2}));
  CHECK(!is_contiguous(Dims{3}, Dims{2}));
  CHECK(!is_contiguous(Dims{3}, Dims{-1}));
  CHECK(!is_contiguous(Dims{3}, Dims{0}));
}

bool overlaps_by_search(const Dims& shape, const Dims& strides) {
  std::set<int64_t> seen;
  const int64_t n = numel_of(shape);
  for (int64_t k = 0; k < n; ++k) {
    int64_t at = 0;
    int64_t rest = k;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) at += rest % shape[i] * strides[i];
    if (!seen.insert(at).second) return true;
  }
  return false;
}

void test_self_overlap() {
  CHECK(!may_self_overlap(Dims{}, Dims{}));
  CHECK(!may_self_overlap(Dims{1, 1}, Dims{0, 0}));
  CHECK(!may_self_overlap(Dims{0, 5}, Dims{0, 0}));
  CHECK(may_self_overlap(Dims{3, 2}, Dims{0, 1}));
  CHECK(!may_self_overlap(Dims{3, 4}, Dims{1, 3}));
  CHECK(may_self_overlap(Dims{3, 4}, Dims{1, 2}));
  CHECK(!may_self_overlap(Dims{3, 4}, Dims{-4, 1}));
  CHECK(may_self_overlap(Dims{kHuge, kHuge}, Dims{1, kHuge}));
  // Never misses an overlap, and is exact wherever a stride is 0.
  for (int64_t a = 1; a <= 3; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      for (int64_t s = -5; s <= 5; ++s) {
        for (int64_t t = 0; t <= 5; ++t) {
          const bool truth = overlaps_by_search(Dims{a, b}, Dims{s, t});
          const bool said = may_self_overlap(Dims{a, b}, Dims{s, t});
          CHECK(truth ? said : (s != 0 && t != 0) || !said);
        }
      }
    }
  }
}

void test_broadcast() {
  CHECK_EQ(broadcast("add", Dims{2, 3}, Dims{3}), (Dims{2, 3}));
  CHECK_EQ(broadcast("add", Dims{2, 1}, Dims{1, 3}), (Dims{2, 3}));
  CHECK_EQ(broadcast("add", Dims{2, 1, 0}, Dims{3, 1}), (Dims{2, 3, 0}));
  CHECK_EQ(broadcast("add", Dims{}, Dims{}), Dims{});
  CHECK_EQ(broadcast("add", Dims{}, Dims{4}), Dims{4});
  CHECK_FAILS(Shape, "add: shapes (2, 3) and (4,) do not broadcast at dimension 1: 3 and 4",
              broadcast("add", Dims{2, 3}, Dims{4}));
  CHECK_FAILS(Shape, "mul: shapes (2, 0) and (2, 3) do not broadcast at dimension 1: 0 and 3",
              broadcast("mul", Dims{2, 0}, Dims{2, 3}));

  CHECK_EQ(broadcast_strides(Dims{3}, Dims{2}, Dims{4, 3}), (Dims{0, 2}));
  CHECK_EQ(broadcast_strides(Dims{3, 1}, Dims{1, 1}, Dims{2, 3, 5}), (Dims{0, 1, 0}));
  CHECK_EQ(broadcast_strides(Dims{3, 1}, Dims{1, 1}, Dims{1, 3, 1}), (Dims{3, 1, 1}));
  CHECK_EQ(broadcast_strides(Dims{3, 1}, Dims{1, 1}, Dims{1, 3, 0}), (Dims{3, 1, 0}));
  CHECK_EQ(broadcast_strides(Dims{}, Dims{}, Dims{2, 2}), (Dims{0, 0}));
  CHECK_FAILS(Shape, "expand: shape (3,) does not expand to (4,) at dimension 0: 3 and 4",
              broadcast_strides(Dims{3}, Dims{1}, Dims{4}));
  CHECK_FAILS(Shape, "expand: shape (3, 3) has more dimensions than (3,)",
              broadcast_strides(Dims{3, 3}, Dims{3, 1}, Dims{3}));
}

void test_dims() {
  CHECK_EQ(wrap_dim("sum", -1, 3), 2);
  CHECK_EQ(wrap_dim("sum", 0, 0), 0);
  CHECK_EQ(wrap_dim("sum", -1, 0), 0);
  CHECK_FAILS(Dim, "sum: dim 5 is out of range [-2, 1]", wrap_dim("sum", 5, 2));
  CHECK_FAILS(Dim, "sum: dim 1 is out of range [-1, 0]", wrap_dim("sum", 1, 0));
  CHECK_EQ(wrap_dims("sum", Dims{-1, 0}, 3, true), (Dims{0, 2}));
  CHECK_EQ(wrap_dims("sum", Dims{}, 3, true), (Dims{0, 1, 2}));
  CHECK_EQ(wrap_dims("sum", Dims{}, 3, false), Dims{});
  CHECK_EQ(wrap_dims("sum", Dims{0}, 0, true), Dims{});
  CHECK_FAILS(Runtime, "sum: dim 1 appears more than once in (1, -1)",
              wrap_dims("sum", Dims{1, -1}, 2, true));
  CHECK_FAILS(Runtime, "sum: dim 0 appears", wrap_dims("sum", Dims{0, 0}, 0, true));
}

void test_reshape() {
  CHECK_EQ(resolve_reshape("reshape", Dims{-1}, 6), Dims{6});
  CHECK_EQ(resolve_reshape("reshape", Dims{-1}, 0), Dims{0});
  CHECK_EQ(resolve_reshape("reshape", Dims{}, 1), Dims{});
  CHECK_EQ(resolve_reshape("reshape", Dims{2, -1}, 6), (Dims{2, 3}));
  CHECK_EQ(resolve_reshape("reshape", Dims{5, -1}, 0), (Dims{5, 0}));
  CHECK_EQ(resolve_reshape("reshape", Dims{3, 0}, 0), (Dims{3, 0}));
  CHECK_FAILS(Shape, "reshape: shape (4, -1) does not hold 6 elements",
              resolve_reshape("reshape", Dims{4, -1}, 6));
  CHECK_FAILS(Shape, "view: shape (3, 3) does not hold 6 elements",
              resolve_reshape("view", Dims{3, 3}, 6));
  CHECK_FAILS(Shape, "does not hold", resolve_reshape("view", Dims{0}, 6));
  CHECK_FAILS(Shape, "only one size may be -1, got (-1, -1)",
              resolve_reshape("view", Dims{-1, -1}, 6));
  CHECK_FAILS(Shape, "invalid size -2 at dimension 0 of (-2, 3)",
              resolve_reshape("view", Dims{-2, 3}, 6));
  CHECK_FAILS(Shape, "the -1 in (0, -1) can be any size", resolve_reshape("view", Dims{0, -1}, 0));
  CHECK_FAILS(Shape, "does not hold 6", resolve_reshape("view", Dims{kHuge, kHuge}, 6));
  CHECK_FAILS(Shape, "does not hold 6", resolve_reshape("view", Dims{kHuge, kHuge, -1}, 6));
}

// The offsets of all elements in row-major order.
std::vector<int64_t> offsets(const Dims& shape, const Dims& strides) {
  std::vector<int64_t> out;
  for (int64_t k = 0, n = numel_of(shape); k < n; ++k) {
    int64_t at = 0;
    int64_t rest = k;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) at += rest % shape[i] * strides[i];
    out.push_back(at);
  }
  return out;
}

void test_view_strides() {
  CHECK_EQ(*view_strides(Dims{2, 3, 4}, Dims{12, 4, 1}, Dims{6, 4}), (Dims{4, 1}));
  CHECK_EQ(*view_strides(Dims{3, 2, 4}, Dims{4, 12, 1}, Dims{3, 2, 2, 2}), (Dims{4, 12, 2, 1}));
  CHECK_EQ(*view_strides(Dims{4, 1}, Dims{1, 100}, Dims{2, 2, 1, 1}), (Dims{2, 1, 100, 100}));
  CHECK_EQ(*view_strides(Dims{1, 1}, Dims{7, 9}, Dims{1}), Dims{9});
  CHECK_EQ(*view_strides(Dims{}, Dims{}, Dims{1, 1}), (Dims{1, 1}));
  CHECK_EQ(*view_strides(Dims{1}, Dims{5}, Dims{}), Dims{});
  CHECK_EQ(*view_strides(Dims{2, 0}, Dims{9, 9}, Dims{0, 7}), (Dims{7, 1}));
  CHECK_EQ(*view_strides(Dims{2, 0}, Dims{9, 9}, Dims{2, 0}), (Dims{9, 9}));
  CHECK_EQ(*view_strides(Dims{6}, Dims{-1}, Dims{2, 3}), (Dims{-3, -1}));
  CHECK_EQ(*view_strides(Dims{2, 3}, Dims{0, 0}, Dims{6}), Dims{0});
  CHECK(!view_strides(Dims{3, 2}, Dims{1, 3}, Dims{6}));
  CHECK(!view_strides(Dims{2, 3}, Dims{4, 1}, Dims{3, 2}));
  // Wherever a view is given it shows the same elements in the same order.
  int views = 0;
  for (int64_t s = -4; s <= 12; ++s) {
    for (int64_t t = -4; t <= 12; ++t) {
      const Dims from{3, 4}, strides{s, t};
      for (const Dims& to : {Dims{12}, Dims{2, 6}, Dims{3, 2, 2}, Dims{6, 2}, Dims{1, 3, 1, 4}}) {
        if (const auto got = view_strides(from, strides, to)) {
          ++views;
          CHECK(offsets(to, *got) == offsets(from, strides));
        }
      }
    }
  }
  CHECK(views > 500);
}

void test_checked() {
  constexpr int64_t kTop = std::numeric_limits<int64_t>::max();
  constexpr int64_t kBottom = std::numeric_limits<int64_t>::min();
  CHECK_EQ(checked_add("op", "a size", kTop - 1, 1), kTop);
  CHECK_EQ(checked_add("op", "a size", kBottom, kTop), -1);
  CHECK_FAILS(Shape, "op: a size must fit in 64 bits, got 9223372036854775807 + 1",
              checked_add("op", "a size", kTop, 1));
  CHECK_FAILS(Shape, "64 bits", checked_add("op", "a size", kBottom, -1));
  CHECK_EQ(checked_mul("op", "a size", kTop, -1), -kTop);
  CHECK_FAILS(Shape, "op: a size must fit in 64 bits, got 1099511627776 * 1099511627776",
              checked_mul("op", "a size", kHuge, kHuge));
  CHECK_FAILS(Shape, "64 bits", checked_mul("op", "a size", kBottom, -1));
  CHECK_EQ(bytes_of("op", Dims{kTop / 8}, DType::Float64), static_cast<size_t>(kTop / 8 * 8));
  CHECK_EQ(bytes_of("op", Dims{kTop, 0}, DType::Float64), 0u);
  CHECK_FAILS(OutOfMemory, "op: (1152921504606846976,) elements of float64 do not fit in memory",
              bytes_of("op", Dims{kTop / 8 + 1}, DType::Float64));
  check_span(Dims{kMostElements, 0});
  check_span(Dims{0, 0, 1});
  CHECK_FAILS(Shape, "at most 576460752303423487 elements (sizes of 0 taken as 1), got (0, 576",
              check_span(Dims{0, kMostElements + 1}));
  CHECK_FAILS(Shape, "at most", check_span(Dims{kHuge, kHuge}));
  check_reach("op", Dims{kTop}, Dims{0});
  check_reach("op", Dims{3, 0}, Dims{kHuge, kHuge}, kHuge);
  CHECK_FAILS(Shape, "op: size (2,), stride (9223372036854775807,) and offset 0 reach beyond",
              check_reach("op", Dims{2}, Dims{kTop}));
  CHECK_FAILS(Shape, "beyond 64 bits", check_reach("op", Dims{0}, Dims{kBottom}));
  CHECK_FAILS(Shape, "beyond 64 bits", check_reach("op", Dims{0}, Dims{1}, kTop));
  CHECK_FAILS(Shape, "beyond 64 bits",
              check_reach("op", Dims{2, 2, 2}, Dims{kTop / 40, kTop / 40, kTop / 40}));
}

}  // namespace

int main() {
  test_small_vec();
  test_numel();
  test_contiguity();
  test_self_overlap();
  test_broadcast();
  test_dims();
  test_reshape();
  test_view_strides();
  test_checked();
  return tinyt::test::summary();
}
