#include "gpu/fused_reductions.h"

namespace tinyt::gpu {

namespace {

constexpr int64_t kTreeDepth = 64;  // of blocks whose number has so many bits

std::string shared(int v) { return numbered("shared", v); }
std::string tree(int v) { return numbered("tree", v); }
std::string depth(int v) { return numbered("depth", v); }

}  // namespace

void FusedReductions::print_shared() {
  if (!by_lanes()) return;
  for (size_t i = 0; i < kernel().ops.size(); ++i)
    if (const int v = kernel().made_by(i); is_live(v) && reduces(op_of(v)))
      write().shared_array(accumulator(v), shared(v), kGroupThreads);
}

void FusedReductions::print_reductions(const std::vector<int>& reductions,
                                       const std::vector<int>& wanted,
                                       const std::vector<Target>& targets, int64_t block) {
  const ScalarType index = dialect().index;
  const std::string size = std::to_string(block);
  for (const int v : reductions) {
    write().array(accumulator(v), tree(v), kTreeDepth);
    write().assign(at(tree(v), "0"), identity(v));  // of no columns
    write().variable(ScalarType::I32, depth(v), "0");
  }
  write().open_for(index, "begin", "0", "begin < columns", "begin += " + size);
  write().limit(index, "end", "begin + " + size, end_column());
  for (const int v : reductions) clear_lanes(v);
  print_lanes(reductions, wanted, targets);
  fold(reductions);
  for (const int v : reductions) add_to_tree(v, size);
  write().close();
  for (const int v : reductions) finish(v);
}

void FusedReductions::clear_lanes(int v) {
  if (by_lanes()) return write().variable(accumulator(v), lane_of(v), identity(v));
  write().array(accumulator(v), numbered("lane", v), kReduceLanes);
  write().open_count(ScalarType::I32, "l", "0", std::to_string(kReduceLanes));
  write().assign(lane_of(v), identity(v));
  write().close();
}

// Lanes in halves.
void FusedReductions::fold(const std::vector<int>& reductions) {
  if (by_lanes()) return fold_together(reductions);
  for (const int v : reductions) fold_alone(v);
}
void FusedReductions::fold_alone(int v) {
  const std::string lane = numbered("lane", v);
  write().open_for(ScalarType::I32, "width", std::to_string(kReduceLanes / 2), "width > 0",
                   "width /= 2");
  write().open_count(ScalarType::I32, "l", "0", "width");
  write().assign(at(lane, "l"), joined(v, at(lane, "l"), at(lane, "l + width")));
  write().close();
  write().close();
}
void FusedReductions::fold_together(const std::vector<int>& reductions) {
  for (const int v : reductions) write().assign(at(shared(v), "place"), lane_of(v));
  write().barrier();
  for (int width = kReduceLanes / 2; width > 0; width /= 2) {
    const std::string half = std::to_string(width);
    write().open_if("lane < " + half);
    for (const int v : reductions)
      write().assign(at(shared(v), "place"),
                     joined(v, at(shared(v), "place"), at(shared(v), "place + " + half)));
    write().close();
    write().barrier();
  }
  for (const int v : reductions) write().assign(folded(v), at(shared(v), "place - lane"));
  write().barrier();  // before the next ones are there
}
// What the lanes of a block have made.
std::string FusedReductions::folded(int v) const {
  return by_lanes() ? lane_of(v) : at(numbered("lane", v), "0");
}

// Two neighbours of one size become one.
void FusedReductions::add_to_tree(int v, const std::string& block) {
  write().open_for(dialect().index, "b", "begin / " + block, "(b & 1) != 0", "b /= 2");
  write().line(depth(v) + " -= 1;");
  write().assign(folded(v), joined(v, at(tree(v), depth(v)), folded(v)));
  write().close();
  write().assign(at(tree(v), depth(v)), folded(v));
  write().line(depth(v) + " += 1;");
}
void FusedReductions::finish(int v) {
  write().open("while (" + depth(v) + " > 1)");
  write().line(depth(v) + " -= 1;");
  const std::string before = at(tree(v), depth(v) + " - 1");
  write().assign(before, joined(v, before, at(tree(v), depth(v))));
  write().close();
  const DType dtype = value(v).dtype;
  write().constant(held(dtype), name_of_value(v),
                   call_cast(at(tree(v), "0"), info(dtype).compute, dtype));
}

}  // namespace tinyt::gpu
