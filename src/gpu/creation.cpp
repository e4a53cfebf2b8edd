// Counters and random numbers, the same as the CPU's.
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/ops/to_device.h"
#include "gpu/kernels.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

// By the CPU's kernel: of nothing, or of parameters that are brought there.
void make_on_host(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor made = Tensor::empty(out.shape(), out.dtype());
  std::vector<Tensor> inputs;
  for (const Tensor& x : call.inputs) {
    const Tensor& host = inputs.emplace_back(Tensor::empty(x.shape(), x.dtype()));
    copy_between(contiguous_in(x, x.dtype()), host);
  }
  kernels_of({}).row(call.op)({call.op, inputs, {&made, 1}, call.attrs, call.compute});
  copy_between(made, out);
}

}  // namespace

void run_iota(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  // Floats are float64 that is rounded once.
  if (!is_integral(out.dtype()) && !dialect_on(out.device()).holds(DType::Float64))
    return make_on_host(call);
  AttrReader read(call.attrs);
  const int64_t n = read.integer();
  const DType dtype = read.dtype();
  const double start = read.real(), step = read.real();
  const int64_t first = read.integer(), by = read.integer();
  MapKernel kernel(out.device(), "iota");
  const auto to = kernel.writes(out);
  if (is_integral(dtype)) {
    const std::string from = kernel.number_of_bits(DType::Int64, first),
                      width = kernel.number_of_bits(DType::Int64, by);
    return kernel.run(n, [&] {
      SourceWriter& write = kernel.write();
      const auto join = [&](MachineOp op, const std::string& a, const std::string& b) {
        return write.operation(op, ScalarType::I64, ScalarType::I64, {a, b});
      };
      write.constant(ScalarType::I64, "product",
                     join(MachineOp::mul, kernel.held_place("i"), width));
      write.constant(ScalarType::I64, "sum", join(MachineOp::add, from, "product"));
      kernel.set(to, "i", kernel.call_cast("sum", DType::Int64, dtype));
    });
  }
  const std::string from = kernel.number(DType::Float64, start),
                    width = kernel.number(DType::Float64, step);
  kernel.run(n, [&] {
    SourceWriter& write = kernel.write();
    write.constant(ScalarType::F64, "product",
                   write.cast(write.type(ScalarType::F64), "i") + " * " + width);
    write.constant(ScalarType::F64, "sum", from + " + product");
    kernel.set(to, "i", kernel.call_cast("sum", DType::Float64, dtype));
  });
}

// ---- random numbers

namespace {

class DrawPrinter {
 public:
  DrawPrinter(MapKernel& kernel, const KernelCall& call, uint64_t seed, uint64_t offset)
      : kernel_(kernel),
        write_(kernel.write()),
        op_(call.op),
        dtype_(call.outputs[0].dtype()),
        to_(kernel.writes(call.outputs[0])),
        size_(kernel.word(call.outputs[0].numel())),
        offset_(kernel.number_of_bits(DType::Int64, static_cast<int64_t>(offset))),
        keys_{kernel.word(static_cast<int32_t>(seed)),
              kernel.word(static_cast<int32_t>(seed >> 32))} {}

  void print() const {
    const bool wide = dtype_ == DType::Float64 || dtype_ == DType::Int64;
    print_words("high", 0);
    if (wide) print_words("low", 1);
    for (int k = 0; k < philox::kWords; ++k) {
      const std::string number = std::to_string(k);
      if (op_ == OpId::random_bits) {
        write_.constant(ScalarType::I64, "value" + number,
                        write_.operation(MachineOp::bit_cast, ScalarType::I64, ScalarType::U64,
                                         {"(" + joined(number) + ")"}));
      } else {
        print_unit(number, wide);
      }
    }
    if (op_ == OpId::normal) {
      print_normals("0", "1");
      print_normals("2", "3");
    }
    for (int k = 0; k < philox::kWords; ++k) {
      const std::string place = "4 * i + " + std::to_string(k);
      write_.open_if(place + " < " + size_);
      std::string value = (op_ == OpId::normal ? "normal" : "value") + std::to_string(k);
      if (is_half(dtype_)) value = kernel_.call_cast(value, DType::Float32, dtype_);
      kernel_.set(to_, place, value);
      write_.close();
    }
  }

 private:
  std::string type(ScalarType t) const { return write_.type(t); }
  // Of floats: float32 unless the result is float64.
  DType drawn() const { return dtype_ == DType::Float64 ? DType::Float64 : DType::Float32; }
  std::string constant(double x) const {
    const ScalarType t = held_type(drawn());
    return literal(t, bits_of(t, x), kernel_.dialect());
  }
  std::string joined(const std::string& k) const {
    return large(MachineOp::bit_or,
                 "(" + large(MachineOp::shift_left, widened("high" + k), half()) + ")",
                 widened("low" + k));
  }
  // Of 64 bits without a sign: an operation; a word as such a number; the bits of a word.
  std::string large(MachineOp op, const std::string& a, const std::string& b) const {
    return write_.operation(op, ScalarType::U64, ScalarType::U64, {a, b});
  }
  std::string widened(const std::string& x) const {
    return write_.operation(MachineOp::convert, ScalarType::U64, ScalarType::U32, {x});
  }
  std::string half() const { return literal(ScalarType::U64, 32, kernel_.dialect()); }
  std::string low_word(const std::string& x) const {
    return write_.operation(MachineOp::convert, ScalarType::U32, ScalarType::U64, {x});
  }
  std::string high_word(const std::string& x) const {
    return low_word("(" + large(MachineOp::shift_right, x, half()) + ")");
  }

  // The four words of counter i, as name0 to name3.
  void print_words(const std::string& name, int word3) const {
    const auto cast = [&](const std::string& x) {
      return write_.cast(type(ScalarType::U32), "(" + x + ")");
    };
    const std::string counter = name + "_counter";
    const auto bits = [&](const std::string& x) {
      return write_.operation(MachineOp::bit_cast, ScalarType::U64, ScalarType::I64, {x});
    };
    write_.constant(ScalarType::U64, counter,
                    large(MachineOp::add, bits(offset_), bits(kernel_.held_place("i"))));
    const std::string begin[] = {low_word(counter), high_word(counter), "0", std::to_string(word3)};
    for (int k = 0; k < philox::kWords; ++k)
      write_.variable(ScalarType::U32, name + std::to_string(k), begin[k]);
    write_.variable(ScalarType::U32, name + "_key0", cast(keys_[0]));
    write_.variable(ScalarType::U32, name + "_key1", cast(keys_[1]));
    write_.open_count(ScalarType::I32, "r", "0", std::to_string(philox::kRounds));
    const auto product = [&](const std::string& p, const std::string& word, uint32_t by) {
      write_.constant(ScalarType::U64, p,
                      large(MachineOp::mul, widened(name + word),
                            literal(ScalarType::U64, by, kernel_.dialect())));
    };
    product("p0", "0", philox::kMultiplier0);
    product("p1", "2", philox::kMultiplier1);
    write_.assign(name + "0", high_word("p1") + " ^ " + name + "1 ^ " + name + "_key0");
    write_.assign(name + "2", high_word("p0") + " ^ " + name + "3 ^ " + name + "_key1");
    write_.assign(name + "1", low_word("p1"));
    write_.assign(name + "3", low_word("p0"));
    write_.line(name + "_key0 += " + std::to_string(philox::kWeyl0) + "u;");
    write_.line(name + "_key1 += " + std::to_string(philox::kWeyl1) + "u;");
    write_.close();
  }

  // Uniform in [0, 1): 24 bits, of float64 53.
  void print_unit(const std::string& k, bool wide) const {
    const ScalarType t = held_type(drawn());
    const std::string bits = wide ? "((" + joined(k) + ") >> 11)" : "(high" + k + " >> 8)";
    std::string unit = write_.cast(type(t), bits) + " * " + constant(wide ? 0x1p-53 : 0x1p-24);
    if (op_ == OpId::uniform && is_half(dtype_)) {
      // Cut to the bits that the dtype holds: rounding could reach 1.
      const std::string steps = constant(dtype_ == DType::Float16 ? 0x1p11 : 0x1p8);
      const std::string whole =
          write_.cast(type(ScalarType::I32), "(" + unit + " * " + steps + ")");
      unit = write_.cast(type(t), whole) + " / " + steps;
    }
    write_.constant(t, "value" + k, unit);
  }

  // Box and Muller's transform of two neighbours.
  void print_normals(const std::string& u, const std::string& v) const {
    const ScalarType t = held_type(drawn());
    const DType d = drawn();
    const auto call = [&](OpId op, const std::string& x) { return kernel_.call_op(op, d, x); };
    write_.constant(t, "rest" + u, constant(1) + " - value" + u);
    write_.constant(t, "square" + u, call(OpId::log, "rest" + u) + " * " + constant(-2));
    write_.constant(t, "radius" + u, call(OpId::sqrt, "square" + u));
    const double two_pi = 6.283185307179586476925286766559;
    write_.constant(t, "angle" + u,
                    "value" + v + " * " +
                        constant(drawn() == DType::Float32 ? static_cast<float>(two_pi) : two_pi));
    write_.constant(t, "normal" + u, "radius" + u + " * " + call(OpId::cos, "angle" + u));
    write_.constant(t, "normal" + v, "radius" + u + " * " + call(OpId::sin, "angle" + u));
  }

  MapKernel& kernel_;
  SourceWriter& write_;
  OpId op_;
  DType dtype_;
  MapKernel::View to_;
  std::string size_, offset_, keys_[2];
};

}  // namespace

void run_draw(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.list();
  if (call.op != OpId::random_bits) read.dtype();
  read.integer();  // the device
  const auto seed = static_cast<uint64_t>(read.integer());
  const auto offset = static_cast<uint64_t>(read.integer());
  const Tensor& out = call.outputs[0];
  if (!dialect_on(out.device()).holds(out.dtype())) return make_on_host(call);
  MapKernel kernel(out.device(), std::string(name_of(call.op)));
  const DrawPrinter printer(kernel, call, seed, offset);
  kernel.run(philox::counters_of(out.numel()), [&] { printer.print(); });
}

// Draws by rejection, lane by lane in float64: another order or rounding would accept others.
void run_variate(const KernelCall& call) { make_on_host(call); }

}  // namespace tinyt::gpu
