// Order along a dimension. Integers that order as the values do, and their places, are sorted in
// short runs by a thread each; pairs of runs are then merged, a part of the result by each thread
// (Green, McColl and Bader, "GPU merge path", 2012). What is not among the first that are wanted is
// left out at every step.
#include <algorithm>
#include <limits>

#include "core/ops/definition_builder.h"
#include "gpu/kernels.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

constexpr int64_t kRun = 16;    // elements that a thread sorts
constexpr int64_t kShare = 64;  // of a merged run, those that a thread makes

// ---- keys

DType key_type(DType t) { return size_of(t) == 8 ? DType::Int64 : DType::Int32; }
ScalarType scalar_of(DType key) { return key == DType::Int64 ? ScalarType::I64 : ScalarType::I32; }
uint64_t most_of(DType key) {
  return key == DType::Int64 ? uint64_t{std::numeric_limits<int64_t>::max()}
                             : uint64_t{std::numeric_limits<int32_t>::max()};
}

// Zeros are equal, and every NaN is above all else.
ScalarDefinition key_definition(DType dtype, bool descending) {
  DefinitionBuilder make;
  const ScalarType from = held_type(dtype), type = scalar_of(key_type(dtype));
  const auto compare = [&](MachineOp op, int a, int b) {
    return make.value(op, ScalarType::Bool, a, b);
  };
  const int x = make.input(from);
  int key = x;
  if (is_float(from)) {
    const int zero = make.constant(type, 0), most = make.constant(type, most_of(key_type(dtype)));
    const int bits = make.value(MachineOp::bit_cast, type, x);
    const int turned = make.value(MachineOp::bit_xor, type, bits, most);
    key = make.value(MachineOp::select, type, compare(MachineOp::less, bits, zero), turned, bits);
    const int is_zero = compare(MachineOp::equal, x, make.constant(from, 0));
    key = make.value(MachineOp::select, type, is_zero, zero, key);
    key = make.value(MachineOp::select, type, compare(MachineOp::not_equal, x, x), most, key);
  } else if (from != type) {
    key = make.value(MachineOp::convert, type, x);
  }
  return make.finish(descending ? make.value(MachineOp::bit_not, type, key) : key);
}

// ---- runs

// The lines of a tensor along a dimension, and how many elements of each are wanted, of its first
// ones in order.
struct Lines {
  Tensor x;
  size_t dim;
  bool descending;
  int64_t kept, length;
  Dims shape;  // an element a line

  Lines(const Tensor& given, int64_t along, bool falls, int64_t wanted = -1)
      : x(at_least_1d(given)),
        dim(static_cast<size_t>(along)),
        descending(falls),
        kept(wanted < 0 ? x.size(dim) : wanted),
        length(x.size(dim)),
        shape(x.shape()) {
    shape[dim] = 1;
  }
  int64_t count() const { return numel_of(shape); }
  DType place_type() const {
    return length <= std::numeric_limits<int32_t>::max() ? DType::Int32 : DType::Int64;
  }
  std::string key(const std::string& words) const { return words + (descending ? " falling" : ""); }
};

// Of each line, one after another: runs in order of `width` elements each, of which the first ones
// are there, `room` of each.
struct Runs {
  int64_t width, count, room;
  Tensor keys, places;

  Runs(const Lines& lines, int64_t wide)
      : width(wide), count(ceil_div(lines.length, wide)), room(std::min(wide, lines.kept)) {
    const Dims shape{lines.count(), count * room};
    keys = Tensor::empty(shape, key_type(lines.x.dtype()), lines.x.device());
    places = Tensor::empty(shape, lines.place_type(), lines.x.device());
  }
};

Runs short_runs(const Lines& lines) {
  const Runs runs(lines, kRun);
  MapKernel kernel(lines.x.device(), lines.key("short runs"));
  const auto from = kernel.reads(lines.x), keys = kernel.writes(runs.keys),
             places = kernel.writes(runs.places);
  const std::string n = kernel.word(lines.length), count = kernel.word(runs.count),
                    room = kernel.word(runs.room), step = kernel.word(lines.x.stride(lines.dim)),
                    start = kernel.place("line", lines.shape, lines.x.strides());
  const auto print = [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index, type = scalar_of(keys.dtype),
                     place = scalar_of(places.dtype);
    write.constant(index, "line", "i / " + count);
    write.constant(index, "first", "i % " + count + " * " + std::to_string(kRun));
    write.constant(index, "start", start);
    write.limit(index, "many", n + " - first", std::to_string(kRun));
    write.array(type, "key", kRun);
    write.array(place, "place", kRun);
    write.open_count(index, "j", "0", "many");
    const std::string key = kernel.function(key_definition(lines.x.dtype(), lines.descending),
                                            lines.descending ? "tt_falling_key" : "tt_key");
    write.constant(type, "mine",
                   key + "(" + kernel.value(from, "start + (first + j) * " + step) + ")");
    write.variable(index, "k", "j");
    write.open("while (k > 0 && " + write.less(type, "mine", "key[k - 1]") + ")");
    write.assign("key[k]", "key[k - 1]");
    write.assign("place[k]", "place[k - 1]");
    write.line("k -= 1;");
    write.close();
    write.assign("key[k]", "mine");
    write.assign("place[k]", place == ScalarType::I64
                                 ? kernel.held_place("(first + j)")
                                 : write.cast(write.type(place), "(first + j)"));
    write.close();
    write.limit(index, "kept", "many", room);
    write.open_count(index, "j", "0", "kept");
    kernel.set_item(keys, "i * " + room + " + j", "key[j]");
    kernel.set_item(places, "i * " + room + " + j", "place[j]");
    write.close();
  };
  kernel.run(lines.count() * runs.count, print, 512 / kRun);
  return runs;
}

// Moves variable `least` to the first place, of those up to variable `end`, at which the condition
// of "middle" does not hold; where it holds, it holds at all places before.
void print_search(SourceWriter& write, const std::string& least, const std::string& end,
                  FunctionRef<std::string()> condition) {
  write.open("while (" + least + " < " + end + ")");
  write.constant(write.dialect().index, "middle", "(" + least + " + " + end + ") / 2");
  write.constant(ScalarType::Bool, "before", condition());
  write.open_if("before");
  write.assign(least, "middle + 1");
  write.close();
  write.open_if("!before");
  write.assign(end, "middle");
  write.close();
  write.close();
}

// Sets variable "l" to how many of the left run's keys, from `a` on, are among the first `begin` of
// both.
void print_left_count(MapKernel& kernel, const MapKernel::View& keys) {
  SourceWriter& write = kernel.write();
  const ScalarType index = write.dialect().index;
  write.variable(index, "l", "begin - right");
  write.open_if("l < 0");
  write.assign("l", "0");
  write.close();
  write.limit(index, "most", "begin", "left");
  print_search(write, "l", "most", [&] {
    return write.less_equal(scalar_of(keys.dtype), kernel.item(keys, "a + middle"),
                            kernel.item(keys, "b + begin - 1 - middle"));
  });
}

// Each two neighbours as one; of equal keys, those of the first come first.
Runs merged(const Lines& lines, const Runs& runs) {
  const Runs out(lines, 2 * runs.width);
  const int64_t shares = ceil_div(out.room, kShare);
  MapKernel kernel(lines.x.device(), "merge runs");
  const auto keys = kernel.reads(runs.keys), places = kernel.reads(runs.places),
             to_keys = kernel.writes(out.keys), to_places = kernel.writes(out.places);
  const std::string n = kernel.word(lines.length), width = kernel.word(runs.width),
                    room = kernel.word(runs.room), count = kernel.word(runs.count),
                    to_room = kernel.word(out.room), to_count = kernel.word(out.count),
                    of_run = kernel.word(shares);
  const auto print = [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index;
    write.constant(index, "run", "i / " + of_run);
    write.constant(index, "pair", "run % " + to_count + " * 2");
    write.limit(index, "left", n + " - pair * " + width, room);
    write.limit(index, "right", n + " - (pair + 1) * " + width, room);
    write.open_if("right < 0");
    write.assign("right", "0");
    write.close();
    write.constant(index, "begin", "i % " + of_run + " * " + std::to_string(kShare));
    write.limit(index, "end", "begin + " + std::to_string(kShare), to_room);
    write.open_if("left + right < end");
    write.assign("end", "left + right");
    write.close();
    write.open_if("begin < end");
    write.constant(index, "a", "(run / " + to_count + " * " + count + " + pair) * " + room);
    write.constant(index, "b", "a + " + room);
    print_left_count(kernel, keys);
    write.variable(index, "r", "begin - l");
    write.open_count(index, "j", "begin", "end");
    write.constant(ScalarType::Bool, "take",
                   "l < left && (r >= right || " +
                       write.less_equal(scalar_of(keys.dtype), kernel.item(keys, "a + l"),
                                        kernel.item(keys, "b + r")) +
                       ")");
    write.variable(index, "next", "b + r");
    write.open_if("take");
    write.assign("next", "a + l");
    write.line("l += 1;");
    write.close();
    write.open_if("!take");
    write.line("r += 1;");
    write.close();
    kernel.set_item(to_keys, "run * " + to_room + " + j", kernel.item(keys, "next"));
    kernel.set_item(to_places, "run * " + to_room + " + j", kernel.item(places, "next"));
    write.close();
    write.close();
  };
  kernel.run(lines.count() * out.count * shares, print, std::max<int64_t>(1, 512 / kShare));
  return out;
}

Runs sorted(const Lines& lines) {
  Runs runs = short_runs(lines);
  while (runs.count > 1) runs = merged(lines, runs);
  return runs;
}

// The first elements of each line in order, and their places.
void write_sorted(const Lines& lines, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  const Runs runs = sorted(lines);
  const Tensor to = at_least_1d(values), at = at_least_1d(indices);
  MapKernel kernel(lines.x.device(), "sorted");
  const auto from = kernel.reads_bits(lines.x), places = kernel.reads(runs.places),
             out = kernel.writes_bits(to), index = kernel.writes(at);
  const Dims strides[] = {lines.x.strides(), to.strides()};
  const auto start = kernel.places("line", lines.shape, strides);
  const std::string kept = kernel.word(lines.kept), step = kernel.word(lines.x.stride(lines.dim)),
                    to_step = kernel.word(to.stride(lines.dim));
  kernel.run(values.numel(), [&] {
    SourceWriter& write = kernel.write();
    const ScalarType type = kernel.dialect().index;
    write.constant(type, "line", "i / " + kept);
    write.constant(type, "place", kernel.place_of(kernel.value(places, "i")));
    write.constant(type, "there", start[1] + " + i % " + kept + " * " + to_step);
    kernel.set(out, "there", kernel.value(from, start[0] + " + place * " + step));
    kernel.set(index, "there", kernel.held_place("place"));
  });
}

// Of each line the element of a rank: `rank` sets the variable of that name, given the keys of line
// "i" in order from `first` on.
template <class F>
void write_ranked(const Lines& lines, const KernelCall& call, const std::string& name, F rank) {
  const Tensor &values = call.outputs[0], &indices = call.outputs[1];
  if (values.numel() == 0) return;
  const Runs runs = sorted(lines);
  MapKernel kernel(lines.x.device(), name);
  const auto from = kernel.reads_bits(lines.x), keys = kernel.reads(runs.keys),
             places = kernel.reads(runs.places), out = kernel.writes_bits(values),
             index = kernel.writes(indices);
  const std::string start = kernel.place("i", lines.shape, lines.x.strides()),
                    kept = kernel.word(lines.kept), step = kernel.word(lines.x.stride(lines.dim));
  kernel.run(lines.count(), [&] {
    SourceWriter& write = kernel.write();
    const ScalarType type = kernel.dialect().index;
    write.constant(type, "first", "i * " + kept);
    write.variable(type, "rank", kept + " - 1");
    rank(kernel, keys, kept);
    write.constant(type, "place", kernel.place_of(kernel.value(places, "first + rank")));
    kernel.set(out, "i", kernel.value(from, start + " + place * " + step));
    kernel.set(index, "i", kernel.held_place("place"));
  });
}

}  // namespace

void run_sort(const KernelCall& call) {
  AttrReader read(call.attrs);
  const int64_t dim = read.integer();
  write_sorted({call.inputs[0], dim, read.flag()}, call.outputs[0], call.outputs[1]);
}

void run_topk(const KernelCall& call) {
  AttrReader read(call.attrs);
  const int64_t k = read.integer(), dim = read.integer();
  // Of a 0-d tensor its value, even of the first 0.
  const int64_t kept = call.inputs[0].rank() == 0 ? 1 : k;
  write_sorted({call.inputs[0], dim, read.flag(), kept}, call.outputs[0], call.outputs[1]);
}

void run_kthvalue(const KernelCall& call) {
  AttrReader read(call.attrs);
  const int64_t k = read.integer(), dim = read.integer();
  write_ranked({call.inputs[0], dim, false, k}, call, "kthvalue",
               [](MapKernel&, const MapKernel::View&, const std::string&) {});
}

// The lower one of two; the first NaN where NaNs are not ignored, or there is nothing else.
void run_median(const KernelCall& call) {
  AttrReader read(call.attrs);
  const int64_t dim = read.integer();
  read.flag();  // keepdim
  const bool ignore_nan = read.flag();
  const Tensor& x = call.inputs[0];
  if (!is_float(x.dtype())) {
    const Lines all(x, dim, false);
    return write_ranked({x, dim, false, (all.length + 1) / 2}, call, "kthvalue",
                        [](MapKernel&, const MapKernel::View&, const std::string&) {});
  }
  const auto print = [&](MapKernel& kernel, const MapKernel::View& keys, const std::string& n) {
    SourceWriter& write = kernel.write();
    const ScalarType type = write.dialect().index;
    const std::string most = literal(scalar_of(keys.dtype), most_of(keys.dtype), write.dialect());
    write.variable(type, "numbers", "0");
    write.variable(type, "end", n);
    print_search(write, "numbers", "end", [&] {
      return write.less(scalar_of(keys.dtype), kernel.item(keys, "first + middle"), most);
    });
    write.assign("rank", "numbers");
    write.open_if(ignore_nan ? "numbers > 0" : "numbers == " + n);
    write.assign("rank", "(numbers - 1) / 2");
    write.close();
  };
  write_ranked({x, dim, false}, call, ignore_nan ? "nanmedian" : "median", print);
}

// A NaN is above everything and equal to itself, as in sorting.
void run_searchsorted(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const DType dtype = is_integral(call.compute) ? DType::Int64 : info(call.compute).compute;
  const Tensor sorted = contiguous_in(call.inputs[0], dtype),
               values = contiguous_in(call.inputs[1], dtype);
  const bool right = AttrReader(call.attrs).flag();
  const int64_t length = sorted.shape().back(),
                of_line = values.rank() == 0 ? 1 : values.shape().back();
  MapKernel kernel(out.device(), right ? "search right" : "search left");
  const auto line = kernel.reads(sorted), given = kernel.reads(values), to = kernel.writes(out);
  const std::string n = kernel.word(length), count = kernel.word(of_line),
                    step = kernel.word(sorted.rank() == 1 ? 0 : length);
  const auto print = [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index, type = held_type(dtype);
    write.constant(type, "value", kernel.value(given, "i"));
    write.constant(index, "start", "i / " + count + " * " + step);
    write.variable(index, "least", "0");
    write.variable(index, "end", n);
    print_search(write, "least", "end", [&] {
      write.constant(type, "item", kernel.value(line, "start + middle"));
      const std::string order =
          right ? write.less_equal(type, "item", "value") : write.less(type, "item", "value");
      if (!is_float(type)) return order;
      const std::string nan = kernel.is_nan(type, "value");
      return order + " || " +
             (right ? nan : "(" + nan + " && !" + kernel.is_nan(type, "item") + ")");
    });
    kernel.set(to, "i", kernel.held_place("least"));
  };
  kernel.run(out.numel(), print, 64);
}

}  // namespace tinyt::gpu
