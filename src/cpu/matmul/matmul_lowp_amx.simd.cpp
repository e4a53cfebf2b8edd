// Products of bfloat16, float16, int8 and uint8 on AMX tiles (ADR 0007): two tiles of A, two
// of B and the four of C that they make fill the eight registers.
#include "cpu/attention/attention_lowp.h"
#include "cpu/matmul/amx_tiles.h"
#include "cpu/matmul/matmul_lowp_block.h"

namespace tinyt::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  const TileConfig config;
  // GCC 12's _tile_loadconfig tells the optimiser of the first eight bytes only.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}
void end() { _tile_release(); }

// ---- multiplying: C in tiles 0 to 3, A in 4 and 5, B in 6 and 7

// The operand that passes is read once for each panel that stays: it must not push that out of L1.
#define TINYT_LOAD_PAIR(passes, first, second, pair, from)                   \
  if constexpr (passes) {                                                    \
    _tile_stream_loadd(first, from, 64);                                     \
    if constexpr (pair == 2) _tile_stream_loadd(second, (from) + kTile, 64); \
  } else {                                                                   \
    _tile_loadd(first, from, 64);                                            \
    if constexpr (pair == 2) _tile_loadd(second, (from) + kTile, 64);        \
  }
#define TINYT_LOAD_A(from) TINYT_LOAD_PAIR(!ByRows, 4, 5, Rows, from)
#define TINYT_LOAD_B(from) TINYT_LOAD_PAIR(ByRows, 6, 7, Cols, from)

// Rows and Cols: tiles of A and of B in use.
#define TINYT_MULTIPLY(instruction)              \
  instruction(0, 4, 6);                          \
  if constexpr (Cols == 2) instruction(1, 4, 7); \
  if constexpr (Rows == 2) instruction(2, 5, 6); \
  if constexpr (Rows == 2 && Cols == 2) instruction(3, 5, 7)

template <class T, int Rows, int Cols, bool ByRows>
TINYT_INLINE void multiply(const TileBlock& g, const Corner& at, Leaving& before) {
  const char *a = at.a, *b = at.b, *ahead = at.ahead;
  for (int64_t i = 0; i < at.steps; ++i, a += kStep * kParts<T>, b += kStep * kParts<T>) {
    if (ahead != nullptr) ahead = fetch(ahead, at.ahead_lines);
    if (at.c != nullptr) claim_rows(at, i * at.rows_of_step, at.rows_of_step);
    TINYT_LOAD_A(a);
    TINYT_LOAD_B(b);
    if constexpr (kParts<T> == 2) {
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_B(b + kStep);
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_A(a + kStep);
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_B(b);
      TINYT_MULTIPLY(_tile_dpbf16ps);
    } else if constexpr (sizeof(T) == 2) {
      TINYT_MULTIPLY(_tile_dpbf16ps);
    } else if constexpr (static_cast<T>(-1) < 0) {
      TINYT_MULTIPLY(_tile_dpbssd);
    } else {
      TINYT_MULTIPLY(_tile_dpbuud);
    }
    if (before.done < before.rows) write_some<T>(g, before, at.rows_of_step);
  }
}
#undef TINYT_MULTIPLY
#undef TINYT_LOAD_A
#undef TINYT_LOAD_B
#undef TINYT_LOAD_PAIR

template <class T, int Rows, int Cols, bool ByRows>
void corner(const TileBlock& g, const Corner& at, Leaving& sums) {
  if (at.first) {
    clear_tiles<Rows, Cols>();
  } else {
    load_tiles<Rows, Cols>(dense_square(at.sums));
  }
  multiply<T, Rows, Cols, ByRows>(g, at, sums);
  if (!at.last) return store_tiles<Rows, Cols>(dense_square(at.sums));
  store_tiles<Rows, Cols>(dense_square(sums.sums));  // those before have left
  leave(g, at, sums);
}

template <class T, bool ByRows>
void corner_of(const TileBlock& g, const Corner& at, Leaving& sums) {
  if (at.rows > 16) {
    return at.cols > 16 ? corner<T, 2, 2, ByRows>(g, at, sums)
                        : corner<T, 2, 1, ByRows>(g, at, sums);
  }
  return at.cols > 16 ? corner<T, 1, 2, ByRows>(g, at, sums) : corner<T, 1, 1, ByRows>(g, at, sums);
}

struct Tiles {
  explicit Tiles(const Coming&) {}  // is fetched while it is packed
  template <class T>
  static void corner(const TileBlock& g, const Corner& at, Leaving& sums) {
    g.by_rows ? corner_of<T, true>(g, at, sums) : corner_of<T, false>(g, at, sums);
  }
};

template <class T>
bool block(const TileBlock& g) {
  return block_on<T, Tiles>(g);
}

}  // namespace

extern "C" const LowTable TINYT_TABLE(matmul);
const LowTable TINYT_TABLE(matmul) = {
    begin,           end,       TINYT_BY_LOW(kFormat), TINYT_BY_LOW(pack), TINYT_BY_LOW(block),
    slopes_on_units, turn_sums,
};

}  // namespace tinyt::cpu
