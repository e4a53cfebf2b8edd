#include "core/graph/graph_words.h"

#include "core/base/error.h"
#include "core/device/device.h"

namespace tinyt {

int64_t Words::next() {
  check_graph(at_ < all_.size(), "the array ends too early");
  return all_[at_++];
}

int64_t Words::below(int64_t limit, std::string_view what) {
  const int64_t v = next();
  check_graph(v >= 0 && v < limit, what, " ", v, " is not one of ", limit);
  return v;
}

std::span<const int64_t> Words::list() {
  const size_t n = count();
  at_ += n;
  return all_.subspan(at_ - n, n);
}

size_t Words::count() {
  const auto n = static_cast<size_t>(below(INT64_MAX, "count"));
  check_graph(n <= all_.size() - at_, "the array ends too early");
  return n;
}

void check_attrs(OpId op, const Attrs& attrs) {
  std::string_view row = info(op).attributes;
  size_t ints = 0, floats = 0;
  const auto has = [&](size_t n) { return n <= attrs.ints.size() - ints; };
  for (size_t colon; (colon = row.find(':')) != std::string_view::npos;) {
    const char kind = row[colon + 1];
    row.remove_prefix(colon + 2);
    if (kind == 'f') {
      ++floats;
      continue;
    }
    check_graph(has(1), name_of(op), ": an attribute is missing");
    const int64_t v = attrs.ints[ints++];
    if (kind == 't')
      check_graph(v >= 0 && v < kDTypeCount, name_of(op), ": no dtype has number ", v);
    if (kind == 'd')
      check_graph(v >= 0 && v < kDeviceCodes, name_of(op), ": no device has number ", v);
    if (kind != 'I') continue;
    check_graph(v >= 0 && has(static_cast<size_t>(v)), name_of(op), ": an attribute is missing");
    ints += static_cast<size_t>(v);
  }
  check_graph(ints == attrs.ints.size() && floats == attrs.floats.size(), name_of(op),
              ": its attributes are ", info(op).attributes);
}

}  // namespace tinyt
