#include "gpu/attention_blocks.h"

#include <algorithm>

#include "gpu/launch.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

constexpr int kPitch = AttentionBlocks::kBlock + 1;  // lines of shared memory: in different banks
constexpr int kFeatureStrip = 16;                    // features between two loads
constexpr int kValueStrip = 8;                       // rows of values between two loads
// So many bytes of a row of results does a thread have at most: with the scores, and what those are
// made of, they stay in 255 registers.
constexpr int kMostOwnBytes = 64;

}  // namespace

int AttentionBlocks::own_columns(DType dtype, int64_t width) {
  const int most = kMostOwnBytes / static_cast<int>(size_of(info(dtype).compute));
  int own = kOwn;
  while (own < most && int64_t{kSide} * own < width) own *= 2;
  return own;
}

int64_t AttentionBlocks::parts_of(DType dtype, int64_t width) {
  return std::max<int64_t>(1, ceil_div(width, int64_t{kSide} * own_columns(dtype, width)));
}

int64_t AttentionBlocks::groups_of(const Tensor& rows, int64_t width) {
  return rows.size(0) * rows.size(1) * ceil_div(rows.size(2), kBlock) *
         parts_of(rows.dtype(), width);
}

std::string AttentionBlocks::key_of(std::string_view name, const Attrs& attrs, const Tensor& mask,
                                    DType dtype, int64_t width) {
  return joined_words(name, text_of(own_columns(dtype, width)),
                      AttrReader(attrs).flag() ? "causal" : "all",
                      mask.rank() > 0 ? "masked" : "plain");
}

AttentionBlocks::AttentionBlocks(MapKernel& kernel, const Attrs& attrs, const Tensor& query,
                                 const Tensor& key, const Tensor& mask, int64_t width, bool by_keys)
    : kernel_(kernel),
      write_(kernel.write()),
      dtype_(info(query.dtype()).compute),
      type_(held_type(dtype_)),
      causal_(AttrReader(attrs).flag()),
      by_keys_(by_keys),
      own_(own_columns(dtype_, width)) {
  const int64_t heads = query.size(1), groups = key.size(1);
  width_ = kernel.word(width);
  scale_ = kernel.number(dtype_, AttrReader(attrs).real());
  batches_ = kernel.word(query.size(0));
  heads_ = kernel.word(heads);
  groups_ = kernel.word(groups);
  of_group_ = kernel.word(std::max<int64_t>(1, heads / std::max<int64_t>(1, groups)));
  queries_ = kernel.word(query.size(2));
  keys_ = kernel.word(key.size(2));
  blocks_ = kernel.word(ceil_div(by_keys ? key.size(2) : query.size(2), kBlock));
  parts_ = kernel.word(parts_of(dtype_, width));
  if (mask.rank() > 0) {
    has_mask_ = true;
    const Dims shape{query.size(0), heads, query.size(2), key.size(2)};
    mask_ = {kernel.reads(mask), {}, "", "mask_place"};
    for (const int64_t step : broadcast_strides(mask.shape(), mask.strides(), shape))
      mask_.steps.push_back(kernel.word(step));
  }
  kernel.share(type_, "rows", kFeatureStrip * kPitch);
  kernel.share(type_, "columns", kFeatureStrip * kPitch);
  kernel.share(type_, "weights", kBlock * kPitch);
  kernel.share(type_, "values", kValueStrip * kSide * own_);
}

AttentionBlocks::Operand AttentionBlocks::operand(const std::string& name, const Tensor& x,
                                                  bool of_keys) {
  Operand found{kernel_.reads(x), {}, kernel_.word(x.size(3)), name + "_place", of_keys};
  for (const int64_t step : x.strides()) found.steps.push_back(kernel_.word(step));
  return found;
}

std::string AttentionBlocks::zero() const { return literal(type_, 0, kernel_.dialect()); }

std::string AttentionBlocks::item(const MapKernel::View& view, const std::string& place) {
  const std::string x = write_.element(view.dtype, view.name, place);
  return kernel_.call_cast(kernel_.unpacked(view.dtype, x), view.dtype, dtype_);
}

void AttentionBlocks::set(const MapKernel::View& view, const std::string& place,
                          const std::string& value) {
  kernel_.set(view, place, kernel_.call_cast(value, dtype_, view.dtype));
}

// ---- loops

void AttentionBlocks::print_places(std::span<const Operand* const> operands, bool of_keys) {
  const auto print = [&](const Operand& x) {
    write_.constant(index(), x.place,
                    x.view.first + " + batch * " + x.steps[0] + " + " +
                        (x.of_keys ? "key_head" : "query_head") + " * " + x.steps[1]);
  };
  for (const Operand* x : operands)
    if (x->of_keys == of_keys) print(*x);
  if (has_mask_ && !of_keys) print(mask_);
}

void AttentionBlocks::open_group(std::span<const Operand* const> operands) {
  write_.constant(index(), "part", "group % " + parts_);
  write_.constant(index(), "block", "group / " + parts_ + " % " + blocks_);
  write_.constant(index(), "head", "group / " + parts_ + " / " + blocks_ + " % " + row_heads());
  write_.constant(index(), "batch", "group / " + parts_ + " / " + blocks_ + " / " + row_heads());
  write_.constant(index(), "first_row", "block * " + text_of(kBlock));
  write_.limit(index(), "end_row", "first_row + " + text_of(kBlock), rows());
  write_.open_if(batches_ + " <= batch");
  write_.assign("end_row", "0");
  write_.close();
  write_.constant(index(), "down", "lane / " + text_of(kSide));
  write_.constant(index(), "across", "lane % " + text_of(kSide));
  write_.constant(index(), "key_head", by_keys_ ? "head" : "head / " + of_group_);
  print_places(operands, true);
  if (!by_keys_) write_.constant(index(), "query_head", "head");
  if (!by_keys_) print_places(operands, false);
}

void AttentionBlocks::open_columns(std::span<const Operand* const> operands) {
  if (by_keys_) {
    write_.open_count(index(), "member", "0", of_group_);
    write_.constant(index(), "query_head", "key_head * " + of_group_ + " + member");
    print_places(operands, false);
  }
  write_.open_for(index(), "first_column", "0", "first_column < " + columns(),
                  "first_column += " + text_of(kBlock));
  std::string live = "first_row < end_row";
  if (causal_)
    live += by_keys_ ? " && first_row < first_column + " + text_of(kBlock)
                     : " && first_column < end_row";
  write_.constant(ScalarType::Bool, "live", live);
}

void AttentionBlocks::close_columns() {
  write_.close();
  if (by_keys_) write_.close();
}

void AttentionBlocks::declare_results() {
  for (int r = 0; r < kOwn; ++r)
    for (int c = 0; c < own_; ++c) write_.variable(type_, pair("out", r, c), zero());
}

// ---- products

// Some features of a block of rows, feature by feature; zeros beyond the ends.
void AttentionBlocks::load_strip(const Operand& from, const std::string& to,
                                 const std::string& first, const std::string& end) {
  const std::string strip = text_of(kFeatureStrip);
  write_.open_for(index(), "i", "lane", "i < " + text_of(kFeatureStrip * kBlock),
                  "i += " + text_of(kGroupThreads));
  write_.constant(index(), "at", "i % " + strip);
  write_.constant(index(), "line", "i / " + strip);
  write_.variable(type_, "x", zero());
  write_.open_if("live && " + first + " + line < " + end + " && d + at < " + from.features);
  const std::string x = item(from.view, from.place + " + (" + first + " + line) * " +
                                            from.steps[2] + " + (d + at) * " + from.steps[3]);
  write_.assign("x", from.is_scaled ? call(OpId::mul, x + ", " + scale_) : x);
  write_.close();
  write_.assign(to + "[at * " + text_of(kPitch) + " + line]", "x");
  write_.close();
}

void AttentionBlocks::multiply(const char* to, const Operand& of_rows, const Operand& of_columns) {
  for_scores([&](int r, int c) { write_.variable(type_, pair(to, r, c), zero()); });
  write_.open_for(index(), "d", "0", "d < " + of_rows.features, "d += " + text_of(kFeatureStrip));
  load_strip(of_rows, "rows", "first_row", rows());
  load_strip(of_columns, "columns", "first_column", columns());
  write_.barrier();
  write_.open_if("live");
  write_.open_count(index(), "at", "0", text_of(kFeatureStrip));
  for (int i = 0; i < kOwn; ++i) {
    const std::string line = "[at * " + text_of(kPitch) + " + ";
    write_.constant(type_, name("a", i) + "x", "rows" + line + row(i) + "]");
    write_.constant(type_, name("b", i) + "x", "columns" + line + column(i) + "]");
  }
  for_scores([&](int r, int c) {
    write_.assign(pair(to, r, c), kernel_.product_added(dtype_, name("a", r) + "x",
                                                        name("b", c) + "x", pair(to, r, c)));
  });
  write_.close();
  write_.close();
  write_.barrier();
  write_.close();
}

void AttentionBlocks::mask_scores() {
  const char *query = by_keys_ ? "column" : "row", *key = by_keys_ ? "row" : "column";
  for_scores([&](int r, int c) {
    const std::string s = pair("s", r, c);
    write_.open("");
    write_.constant(index(), "row", "first_row + " + row(r));
    write_.constant(index(), "column", "first_column + " + column(c));
    std::string none = "!live || end_row <= row || " + columns() + " <= column";
    if (causal_) none += std::string(" || ") + query + " < " + key;
    write_.constant(ScalarType::Bool, "none", none);
    write_.open_if("none");
    write_.assign(s, lowest());
    write_.close();
    if (has_mask_) {
      write_.open_if("!none");
      add_mask(s, mask_.place + " + " + query + " * " + mask_.steps[2] + " + " + key + " * " +
                      mask_.steps[3]);
      write_.close();
    }
    write_.close();
  });
}

void AttentionBlocks::add_mask(const std::string& s, const std::string& place) {
  const DType dtype = mask_.view.dtype;
  if (dtype != DType::Bool)
    return write_.assign(s, call(OpId::add, s + ", " + item(mask_.view, place)));
  const ScalarType held = held_type(dtype);
  const std::string x = kernel_.unpacked(dtype, write_.element(dtype, mask_.view.name, place));
  write_.open_if(write_.equal(held, x, literal(held, 0, kernel_.dialect())));
  write_.assign(s, lowest());
  write_.close();
}

void AttentionBlocks::add_weighted(const Operand& values) {
  const std::string width = text_of(kSide * own_), strip = text_of(kValueStrip);
  for_scores([&](int r, int c) {
    write_.assign("weights[(" + row(r) + ") * " + text_of(kPitch) + " + " + column(c) + "]",
                  pair("s", r, c));
  });
  write_.open_for(index(), "k", "0",
                  "k < " + text_of(kBlock) + " && first_column + k < " + columns(),
                  "k += " + strip);
  write_.open_for(index(), "i", "lane", "i < " + text_of(kValueStrip * kSide * own_),
                  "i += " + text_of(kGroupThreads));
  write_.constant(index(), "line", "first_column + k + i / " + width);
  write_.constant(index(), "column", "part * " + width + " + i % " + width);
  write_.variable(type_, "x", zero());
  write_.open_if("live && line < " + columns() + " && column < " + width_);
  const std::string x = item(values.view, values.place + " + line * " + values.steps[2] +
                                              " + column * " + values.steps[3]);
  write_.assign("x", values.is_scaled ? call(OpId::mul, x + ", " + scale_) : x);
  write_.close();
  write_.assign("values[i]", "x");
  write_.close();
  write_.barrier();
  write_.open_if("live");
  write_.open_count(index(), "i", "0", strip);
  for (int r = 0; r < kOwn; ++r)
    write_.constant(type_, name("w", r),
                    "weights[(" + row(r) + ") * " + text_of(kPitch) + " + k + i]");
  for (int c = 0; c < own_; ++c) {
    write_.constant(type_, name("x", c), "values[i * " + width + " + " + column(c) + "]");
    for (int r = 0; r < kOwn; ++r)
      write_.assign(pair("out", r, c),
                    kernel_.product_added(dtype_, name("w", r), name("x", c), pair("out", r, c)));
  }
  write_.close();
  write_.close();
  write_.barrier();
  write_.close();
}

}  // namespace tinyt::gpu
