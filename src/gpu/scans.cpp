// Scans and searches along a dimension: a thread takes a line, or a block of a long one, whose
// blocks then go on from those before them.
#include <algorithm>

#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/map_kernel.h"

namespace tinyt::gpu {

namespace {

constexpr int64_t kScanBlock = 1024;          // elements of a line that a thread takes
constexpr int64_t kCpuScanBlock = 1 << 14;    // where a thread is a core's
constexpr int64_t kMostScanBlocks = 1 << 14;  // that one thread compares

Dims with_size(Dims shape, size_t dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

// Elements of a line of which a thread takes one block; all, where there are lines enough.
int64_t block_of(const Tensor& x, size_t dim) {
  const LaunchModel model = driver_of(x.device()).launch_model(x.device().index);
  const int64_t n = x.size(dim);
  if (model.by_element()) return kScanBlock;
  const int64_t lines = std::max<int64_t>(1, x.numel() / std::max<int64_t>(1, n));
  return lines >= model.threads ? n : std::max(kCpuScanBlock, ceil_div(n, model.threads));
}

// ---- scans

bool has_places(OpId op) { return op == OpId::cummax || op == OpId::cummin; }

// What is made of all elements before one, `sum`, and of it, `item`, both held in `wide`.
std::string joined_scan(MapKernel& kernel, OpId op, DType wide, const std::string& sum,
                        const std::string& item) {
  const std::string both = sum + ", " + item;
  if (op == OpId::logcumsumexp) return kernel.call_op(OpId::logaddexp, wide, both);
  return kernel.call_op(op == OpId::cumsum ? OpId::add : OpId::mul, wide, both);
}

// Whether `item` is taken rather than what is before: the last of equal ones; once NaN, the last
// NaN.
std::string is_taken(MapKernel& kernel, OpId op, ScalarType type, const std::string& item,
                     const std::string& before) {
  const SourceWriter& write = kernel.write();
  const std::string order = op == OpId::cummax ? write.less_equal(type, before, item)
                                               : write.less_equal(type, item, before);
  return order + " || " + kernel.is_nan(type, item);
}

// Every block of `block` elements along a dimension by itself.
void scan_blocks(OpId op, const Tensor& from, const Tensor& to, const Tensor* places_to, size_t dim,
                 int64_t block) {
  const DType wide = info(to.dtype()).compute;
  const int64_t count = from.size(dim), blocks = ceil_div(count, block);
  const bool with_places = places_to != nullptr;
  MapKernel kernel(from.device(), std::string(name_of(op)));
  const auto read = kernel.reads(from), write_to = kernel.writes(to);
  MapKernel::View found;
  if (with_places) found = kernel.writes(*places_to);
  const Dims shape = with_size(Dims(from.shape()), dim, 1),
             lines[] = {from.strides(), to.strides()};
  const auto places = kernel.places("line", shape, lines);
  const std::string n = kernel.word(count), from_step = kernel.word(from.stride(dim)),
                    to_step = kernel.word(to.stride(dim)), of_line = kernel.word(blocks),
                    size = kernel.word(block);
  kernel.run(numel_of(shape) * blocks, [&] {
    SourceWriter& write = kernel.write();
    const ScalarType type = held_type(wide), index = kernel.dialect().index;
    const auto item = [&](const std::string& j) {
      return kernel.call_cast(kernel.value(read, places[0] + " + " + j + " * " + from_step),
                              from.dtype(), wide);
    };
    const auto store = [&](const std::string& j) {
      const std::string place = places[1] + " + " + j + " * " + to_step;
      kernel.set(write_to, place, kernel.call_cast("value", wide, to.dtype()));
      if (with_places) kernel.set(found, place, kernel.held_place("best"));
    };
    write.constant(index, "line", "i / " + of_line);
    write.constant(index, "first", "i % " + of_line + " * " + size);
    write.limit(index, "last", "first + " + size, n);
    write.variable(type, "value", item("first"));
    if (with_places) write.variable(index, "best", "first");
    store("first");
    write.open_count(index, "j", "first + 1", "last");
    write.constant(type, "item", item("j"));
    if (with_places) {
      write.open_if(is_taken(kernel, op, type, "item", "value"));
      write.assign("value", "item");
      write.assign("best", "j");
      write.close();
    } else {
      write.assign("value", joined_scan(kernel, op, wide, "value", "item"));
    }
    store("j");
    write.close();
  });
}

// Joins what blocks have made with `sums`, what all blocks up to the one before made; of places,
// `sum_places` says in which block they are and `last_places` where in that.
struct Carries {
  const Tensor &sums, *sum_places, *last_places;
};
void carry_on(OpId op, const Carries& c, const Tensor& to, const Tensor* places_to, size_t dim,
              int64_t block) {
  const DType wide = info(to.dtype()).compute;
  const bool with_places = places_to != nullptr;
  MapKernel kernel(to.device(), "carry " + std::string(name_of(op)));
  const auto sums = kernel.reads(c.sums), write_to = kernel.writes(to);
  MapKernel::View found, blocks, last;
  if (with_places) {
    found = kernel.writes(*places_to);
    blocks = kernel.reads(*c.sum_places);
    last = kernel.reads(*c.last_places);
  }
  const Dims shape = with_size(Dims(to.shape()), dim, 1),
             lines[] = {to.strides(), c.sums.strides()};
  const auto places = kernel.places("line", shape, lines);
  const std::string rest = kernel.word(to.size(dim) - block), size = kernel.word(block),
                    step = kernel.word(to.stride(dim)), sum_step = kernel.word(c.sums.stride(dim));
  kernel.run(numel_of(shape) * (to.size(dim) - block), [&] {
    SourceWriter& write = kernel.write();
    const ScalarType type = held_type(wide), index = kernel.dialect().index;
    write.constant(index, "line", "i / " + rest);
    write.constant(index, "j", "i % " + rest);
    write.constant(index, "place", places[0] + " + (j + " + size + ") * " + step);
    write.constant(index, "line_sums", places[1]);
    write.constant(index, "before", "line_sums + j / " + size + " * " + sum_step);
    write.constant(type, "sum", kernel.value(sums, "before"));
    write.constant(type, "item", kernel.value(write_to, "place"));
    if (!with_places) {
      kernel.set(write_to, "place", joined_scan(kernel, op, wide, "sum", "item"));
      return;
    }
    write.variable(ScalarType::I32, "keep", "0");
    write.open_if(is_taken(kernel, op, type, "item", "sum"));
    write.assign("keep", "1");
    write.close();
    write.open_if("keep == 0");
    kernel.set(write_to, "place", "sum");
    const std::string in_block = kernel.place_of(kernel.value(blocks, "before"));
    kernel.set(found, "place", kernel.value(last, "line_sums + " + in_block + " * " + sum_step));
    write.close();
  });
}

void scan(OpId op, const Tensor& from, const Tensor& to, const Tensor* places_to, size_t dim) {
  if (to.numel() == 0) return;
  const int64_t block = block_of(from, dim), sums = ceil_div(from.size(dim), block) - 1;
  if (sums == 0) return scan_blocks(op, from, to, places_to, dim, block);
  if (const DType wide = info(to.dtype()).compute; wide != to.dtype() && !is_integral(wide)) {
    const Tensor whole = Tensor::empty(to.shape(), wide, to.device());  // rounded at the end
    scan(op, from, whole, places_to, dim);
    return copy_into(whole, to);
  }
  scan_blocks(op, from, to, places_to, dim, block);
  const Dims shape = with_size(Dims(from.shape()), dim, sums);
  // What each block but the last has made.
  const auto ends = [&](const Tensor& x) {
    Dims strides(x.strides());
    strides[dim] *= block;
    const Tensor last = x.view(shape, strides, x.offset() + (block - 1) * x.stride(dim));
    const Tensor out = Tensor::empty(shape, x.dtype(), x.device());
    copy_into(last, out);
    return out;
  };
  const Tensor parts = ends(to), carried = Tensor::empty(shape, to.dtype(), to.device());
  if (places_to == nullptr) {
    scan(op, parts, carried, nullptr, dim);
    return carry_on(op, {carried, nullptr, nullptr}, to, nullptr, dim, block);
  }
  const Tensor last = ends(*places_to), blocks = Tensor::empty(shape, DType::Int64, to.device());
  scan(op, parts, carried, &blocks, dim);
  carry_on(op, {carried, &blocks, &last}, to, places_to, dim, block);
}

// ---- the place of the largest or smallest element

// Of elements of a line, the first that is largest (or smallest), or the first NaN: of each block
// of `block` of them its place, or of blocks that `blocks_best` has the places of.
void find_best(OpId op, const Tensor& x, const Tensor* blocks_best, const Tensor& out, size_t dim,
               int64_t block) {
  const int64_t count = blocks_best == nullptr ? x.size(dim) : blocks_best->size(dim),
                blocks = ceil_div(count, block);
  MapKernel kernel(x.device(), std::string(name_of(op)) + (blocks_best ? " of blocks" : ""));
  const auto read = kernel.reads(x), to = kernel.writes(out);
  MapKernel::View candidates;
  if (blocks_best != nullptr) candidates = kernel.reads(*blocks_best);
  const Dims shape = with_size(Dims(x.shape()), dim, 1);
  const std::string start = kernel.place("line", shape, x.strides()), n = kernel.word(count),
                    step = kernel.word(x.stride(dim)), of_line = kernel.word(blocks),
                    size = kernel.word(block),
                    below = kernel.word(numel_of(std::span(x.shape()).subspan(dim + 1)));
  kernel.run(numel_of(shape) * blocks, [&] {
    SourceWriter& write = kernel.write();
    const ScalarType type = held_type(x.dtype()), index = kernel.dialect().index;
    // [..., blocks, below], as candidates and results lie.
    const auto place = [&](const std::string& number, const std::string& of) {
      return "(line / " + below + " * " + of + " + " + number + ") * " + below + " + line % " +
             below;
    };
    const auto candidate = [&](const std::string& j) {
      return blocks_best ? kernel.place_of(kernel.value(candidates, place(j, n))) : j;
    };
    write.constant(index, "line", "i / " + of_line);
    write.constant(index, "number", "i % " + of_line);
    write.constant(index, "first", "number * " + size);
    write.limit(index, "last", "first + " + size, n);
    write.variable(index, "best", candidate("first"));
    write.variable(type, "value", kernel.value(read, start + " + best * " + step));
    write.open_count(index, "j", "first + 1", "last");
    write.constant(index, "at", candidate("j"));
    write.constant(type, "item", kernel.value(read, start + " + at * " + step));
    const std::string better =
        op == OpId::argmax ? write.less(type, "value", "item") : write.less(type, "item", "value");
    write.open_if("!" + kernel.is_nan(type, "value") + " && (" + better + " || " +
                  kernel.is_nan(type, "item") + ")");
    write.assign("value", "item");
    write.assign("best", "at");
    write.close();
    write.close();
    kernel.set(to, place("number", of_line), kernel.held_place("best"));
  });
}

}  // namespace

void run_scan(const KernelCall& call) {
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const Tensor from = at_least_1d(call.inputs[0]), to = at_least_1d(call.outputs[0]);
  if (!has_places(call.op)) return scan(call.op, from, to, nullptr, dim);
  const Tensor places = at_least_1d(call.outputs[1]);
  scan(call.op, from, to, &places, dim);
}

void run_argmax(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const Tensor x = at_least_1d(call.inputs[0]);
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const int64_t n = x.size(dim), block = std::max(block_of(x, dim), ceil_div(n, kMostScanBlocks)),
                blocks = ceil_div(n, block);
  if (blocks == 1) return find_best(call.op, x, nullptr, out, dim, block);
  const Tensor best =
      Tensor::empty(with_size(Dims(x.shape()), dim, blocks), DType::Int64, x.device());
  find_best(call.op, x, nullptr, best, dim, block);
  find_best(call.op, x, &best, out, dim, blocks);
}

}  // namespace tinyt::gpu
