#include "rows.h"

namespace tinyt::cpu {
namespace {

// body(row, rows, col, cols) for pieces of rows x n that are contiguous in a dense buffer and, if
// `convert`, no larger than a tile.
template <class F>
void for_each_piece(int64_t rows, int64_t n, bool convert, F&& body) {
  const int64_t height = convert ? std::max<int64_t>(1, kTileElements / n) : rows;
  const int64_t width = convert ? std::min(n, kTileElements) : n;
  for (int64_t r = 0; r < rows; r += height) {
    for (int64_t c = 0; c < n; c += width) {
      body(r, std::min(height, rows - r), c, std::min(width, n - c));
    }
  }
}

}  // namespace

void Rows::load(int64_t first, int64_t rows, char* dense) const {
  const auto item = static_cast<int64_t>(size_of(dtype_));
  for_each_piece(rows, length(), in_.dtype() != dtype_,
                 [&](int64_t r, int64_t height, int64_t c, int64_t width) {
                   load_patch(in_.data(), in_.dtype(),
                              {from_.index, first + r, height, from_.row, c, width}, dtype_,
                              dense + (r * length() + c) * item);
                 });
}

void Rows::store(const char* dense, int64_t first, int64_t rows) const {
  const auto item = static_cast<int64_t>(size_of(dtype_));
  for_each_piece(rows, length(), out_.dtype() != dtype_,
                 [&](int64_t r, int64_t height, int64_t c, int64_t width) {
                   store_patch(dense + (r * length() + c) * item, dtype_,
                               {to_.index, first + r, height, to_.row, c, width}, out_.data(),
                               out_.dtype());
                 });
}

}  // namespace tinyt::cpu
