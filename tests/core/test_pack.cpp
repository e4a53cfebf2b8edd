#include "core/plan/buffer_assignment.h"

#include <algorithm>
#include <random>

#include "check.h"

namespace {

using namespace tinyt;

bool overlap(const Lifetime& a, size_t a_at, const Lifetime& b, size_t b_at) {
  return a.first <= b.last && b.first <= a.last && a_at < b_at + b.bytes && b_at < a_at + a.bytes;
}

// Blocks that are alive at once lie apart, aligned, within the whole.
void test_drawn_blocks() {
  std::mt19937 draw(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t steps = 1 + draw() % 40;
    std::vector<Lifetime> blocks(draw() % 60);
    for (Lifetime& b : blocks) {
      b.first = draw() % steps;
      b.last = b.first + draw() % (steps - b.first);
      b.bytes = draw() % 5 == 0 ? 0 : draw() % 3000;
    }
    const size_t piece = round % 2 == 0 ? 0 : 3008 + 64 * (draw() % 40);
    const Packing packing = pack(blocks, steps, 64, piece);
    CHECK_EQ(packing.offsets.size(), blocks.size());
    size_t most = 0, sum = 0;
    for (int64_t s = 0; s < steps; ++s) {
      size_t alive = 0;
      for (const Lifetime& b : blocks) alive += b.first <= s && s <= b.last ? b.bytes : 0;
      most = std::max(most, alive);
    }
    bool good = true;
    for (size_t i = 0; i < blocks.size(); ++i) {
      sum += (blocks[i].bytes + 63) / 64 * 64;
      if (blocks[i].bytes == 0) continue;
      good = good && packing.offsets[i] % 64 == 0;
      good = good && packing.offsets[i] + blocks[i].bytes <= packing.bytes;
      if (piece != 0) {
        const size_t last = packing.offsets[i] + blocks[i].bytes - 1;
        good = good && packing.offsets[i] / piece == last / piece;
      }
      for (size_t j = 0; j < i; ++j)
        good = good && !overlap(blocks[i], packing.offsets[i], blocks[j], packing.offsets[j]);
    }
    CHECK(good);
    CHECK(packing.bytes >= most);
    CHECK(piece != 0 || packing.bytes <= sum);
  }
}

void test_reuse() {
  // The second fits where the first was; the third takes the rest; joined, they hold the fourth.
  const Lifetime blocks[] = {{0, 0, 256}, {1, 1, 128}, {1, 1, 128}, {2, 2, 256}};
  const Packing packing = pack(blocks, 3, 64);
  CHECK_EQ(packing.bytes, 256u);
  CHECK_EQ(packing.offsets[3], 0u);
  CHECK_EQ(pack({}, 0, 64).bytes, 0u);
}

void test_pieces() {
  // The second begins a piece, the third takes what was left of the first one, all of which the
  // fourth takes in the end.
  const Lifetime blocks[] = {{0, 1, 256}, {0, 1, 512}, {1, 1, 256}, {2, 2, 576}};
  const Packing packing = pack(blocks, 3, 64, 576);
  CHECK_EQ(packing.offsets[1], 576u);
  CHECK_EQ(packing.offsets[2], 256u);
  CHECK_EQ(packing.offsets[3], 0u);
  CHECK_EQ(packing.bytes, 1088u);
}

}  // namespace

int main() {
  test_drawn_blocks();
  test_reuse();
  test_pieces();
  return tinyt::test::summary();
}
