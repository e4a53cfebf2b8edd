// Products of matrices by groups of threads that share memory: a group makes a square tile of the
// result. It loads a strip of each operand at a time, neighbouring threads neighbouring elements,
// and each thread keeps a block of sums in registers.
#include "gpu/tiled_matmul.h"

#include <string>

#include "gpu/launch.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

constexpr int kTileSide = 8;    // threads along a side of a tile
constexpr int kTileStrip = 16;  // sums between two loads
static_assert(kTileSide * kTileSide == kGroupThreads);

// Where a thread makes so many elements of a side.
int64_t tiles_of(const Product& p, int block) {
  const int64_t tile = int64_t{kTileSide} * block;
  return ceil_div(p.m, tile) * ceil_div(p.n, tile) * numel_of(p.batch);
}

// Elements of a side that a thread makes: more of them share what is loaded, but small products
// would leave threads without work. Two strips of 8 bytes an element may be too much to share.
int block_of(const Product& p) {
  constexpr int kSmall = 4, kLarge = 8;
  constexpr int64_t kTile = kTileSide * kLarge, kManyTiles = 64;
  const bool is_large = p.m >= kTile && p.n >= kTile && tiles_of(p, kLarge) >= kManyTiles;
  return is_large && size_of(info(p.a.dtype()).compute) == 4 ? kLarge : kSmall;
}

class TilePrinter {
 public:
  TilePrinter(MapKernel& kernel, const Product& p, const Tensor& out, int block)
      : kernel_(kernel),
        write_(kernel.write()),
        dtype_(out.dtype()),
        type_(held_type(out.dtype())),
        block_(block),
        tile_(kTileSide * block),
        pitch_(tile_ + 1),
        a_{kernel.reads(p.a), kernel.word(p.a_row), kernel.word(p.a_sum), p.a_sum == 1, "row"},
        b_{kernel.reads(p.b), kernel.word(p.b_column), kernel.word(p.b_sum), p.b_sum == 1,
           "column"},
        y_(kernel.writes(out)),
        m_(kernel.word(p.m)),
        n_(kernel.word(p.n)),
        k_(kernel.word(p.k)),
        down_(kernel.word(ceil_div(p.m, tile_))),
        across_(kernel.word(ceil_div(p.n, tile_))),
        batches_(kernel.word(numel_of(p.batch))) {
    const Dims steps[] = {p.a_batch, p.b_batch};
    places_ = kernel.places("batch", p.batch, steps);
    kernel.share(type_, "rows", kTileStrip * pitch_);
    kernel.share(type_, "columns", kTileStrip * pitch_);
  }

  void print() {
    const ScalarType index = kernel_.dialect().index;
    write_.constant(index, "batch", "group / " + across_ + " / " + down_);
    first("row", m_, "group / " + across_ + " % " + down_);
    first("column", n_, "group % " + across_);
    write_.constant(index, "a_first", a_.view.first + " + " + places_[0]);
    write_.constant(index, "b_first", b_.view.first + " + " + places_[1]);
    write_.constant(index, "down", "lane / " + std::to_string(kTileSide));
    write_.constant(index, "across", "lane % " + std::to_string(kTileSide));
    for_each([&](int r, int c) {
      write_.variable(type_, sum(r, c), literal(type_, 0, kernel_.dialect()));
    });
    write_.open_for(index, "k", "0", "k < " + k_, "k += " + std::to_string(kTileStrip));
    load(a_, "a_first", "rows", m_);
    load(b_, "b_first", "columns", n_);
    write_.barrier();
    add_strip();
    write_.barrier();
    write_.close();
    store();
  }

 private:
  struct Operand {
    MapKernel::View view;
    std::string step, sum_step;  // along its own dimension of the result, and along sums
    bool sums_are_dense;
    std::string own;
  };

  static std::string sum(int r, int c) { return numbered("sum", r) + numbered("_", c); }
  template <class F>
  void for_each(const F& body) const {
    for (int r = 0; r < block_; ++r)
      for (int c = 0; c < block_; ++c) body(r, c);
  }

  // The tile's first row or column; of a group that there is no tile for, the end of them.
  void first(const std::string& own, const std::string& size, const std::string& number) {
    write_.variable(kernel_.dialect().index, "first_" + own,
                    "(" + number + ") * " + std::to_string(tile_));
    write_.open_if("batch >= " + batches_);
    write_.assign("first_" + own, size);
    write_.close();
  }

  // A strip of an operand, sum by sum, zeros beyond its ends.
  void load(const Operand& from, const std::string& first, const std::string& to,
            const std::string& size) {
    const ScalarType index = kernel_.dialect().index;
    const std::string side = std::to_string(tile_), strip = std::to_string(kTileStrip);
    write_.open_for(index, "i", "lane", "i < " + std::to_string(tile_ * kTileStrip),
                    "i += " + std::to_string(kGroupThreads));
    write_.constant(index, "at", from.sums_are_dense ? "i % " + strip : "i / " + side);
    write_.constant(index, "line", from.sums_are_dense ? "i / " + strip : "i % " + side);
    write_.variable(type_, "x", literal(type_, 0, kernel_.dialect()));
    write_.open_if("first_" + from.own + " + line < " + size + " && k + at < " + k_);
    const std::string place = first + " + (first_" + from.own + " + line) * " + from.step +
                              " + (k + at) * " + from.sum_step;
    write_.assign("x", kernel_.unpacked(from.view.dtype,
                                        write_.element(from.view.dtype, from.view.name, place)));
    write_.close();
    write_.assign(to + "[at * " + std::to_string(pitch_) + " + line]", "x");
    write_.close();
  }

  void add_strip() {
    const std::string pitch = std::to_string(pitch_);
    write_.open_count(kernel_.dialect().index, "at", "0", std::to_string(kTileStrip));
    for (const bool row : {true, false})
      for (int i = 0; i < block_; ++i)
        write_.constant(type_, numbered(row ? "a" : "b", i) + "x",
                        std::string(row ? "rows" : "columns") + "[at * " + pitch + " + " +
                            (row ? "down" : "across") + " + " + std::to_string(i * kTileSide) +
                            "]");
    for_each([&](int r, int c) {
      write_.assign(sum(r, c), kernel_.product_added(dtype_, numbered("a", r) + "x",
                                                     numbered("b", c) + "x", sum(r, c)));
    });
    write_.close();
  }

  void store() {
    const ScalarType index = kernel_.dialect().index;
    for (int r = 0; r < block_; ++r) {
      write_.open("");
      write_.constant(index, "row", "first_row + down + " + std::to_string(r * kTileSide));
      write_.open_if("row < " + m_);
      write_.constant(index, "to", "(batch * " + m_ + " + row) * " + n_);
      for (int c = 0; c < block_; ++c) {
        const std::string column = "first_column + across + " + std::to_string(c * kTileSide);
        write_.open_if(column + " < " + n_);
        kernel_.set(y_, "to + " + column, sum(r, c));
        write_.close();
      }
      write_.close();
      write_.close();
    }
  }

  MapKernel& kernel_;
  SourceWriter& write_;
  const DType dtype_;
  const ScalarType type_;
  const int block_, tile_, pitch_;  // lines of a strip lie in different banks
  const Operand a_, b_;
  const MapKernel::View y_;
  const std::string m_, n_, k_, down_, across_, batches_;
  std::vector<std::string> places_;
};

}  // namespace

int64_t tile_threads(const Product& p) { return tiles_of(p, block_of(p)) * kGroupThreads; }

void multiply_by_tiles(const Product& p, const Tensor& out) {
  const Device device = out.device();
  const int block = block_of(p);
  std::string key = "tiles";
  for (const int64_t part : {int64_t{block}, int64_t{p.a_sum == 1}, int64_t{p.b_sum == 1}})
    key += " " + std::to_string(part);
  MapKernel kernel(device, key);
  TilePrinter printer(kernel, p, out, block);
  kernel.run_groups(tiles_of(p, block), [&] { printer.print(); });
}

}  // namespace tinyt::gpu
