#include "c/saved_programs.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>

#include "core/base/checked.h"
#include "core/ops/dispatch.h"
#include "core/program/serialized_graph.h"

namespace tinyt {

namespace {

// As python/tinyt/compiler/saved/layout.py has them.
constexpr int64_t kProgramFormat = 1;
constexpr std::string_view kProgramMetadata = "tinyt.program", kWordsPrefix = "tinyt.words.";
constexpr int64_t kMostCounters = int64_t{1} << 48, kMostOffset = int64_t{1} << 62;
// Kinds of results (capture.py).
enum ResultKind : int64_t {
  kOutput,
  kOfArgument,
  kOfNumber,
  kObject,
  kView,
  kAlias,
  kGrad,
  kKinds
};

DType dtype_named(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  fail(ErrorKind::Runtime, "load: there is no dtype ", name.substr(0, 20));
}

Dims sizes_in(const Json& row) {
  const std::vector<int64_t> list = row.integers();
  for (int64_t size : list) check_file(size >= 0, "a size is ", size);
  const Dims out(list);
  numel_of(out);
  return out;
}

// As Python's float.hex() writes them.
double float_in(const std::string& text) {
  const bool is_negative = text.starts_with('-');
  std::string_view rest = std::string_view(text).substr(is_negative);
  double out = 0;
  if (rest == "inf" || rest == "nan") {
    out = rest == "inf" ? std::numeric_limits<double>::infinity()
                        : std::numeric_limits<double>::quiet_NaN();
  } else {
    check_file(rest.starts_with("0x"), "a number is no hexadecimal one");
    rest.remove_prefix(2);
    const auto [stop, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), out, std::chars_format::hex);
    check_file(error == std::errc() && stop == rest.data() + rest.size(), "a number is none");
  }
  return is_negative ? -out : out;
}

// A tensor of a shape in memory that must hold it.
Tensor view_of(const Tensor& memory, const Dims& shape, const Dims& strides, int64_t offset) {
  check_file(strides.size() == shape.size() && offset >= 0, "a view has ", strides.size(),
             " strides and offset ", offset);
  const Tensor out = memory.view(shape, strides, offset);
  if (out.numel() == 0) return out;
  int64_t first = offset, last = offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t reach = 0;
    int64_t& end = strides[d] < 0 ? first : last;
    check_file(!__builtin_mul_overflow(strides[d], shape[d] - 1, &reach) &&
                   !__builtin_add_overflow(end, reach, &end),
               "a view reaches too far");
  }
  const auto bytes = memory.storage().buffer.bytes;
  check_file(first >= 0 && last < static_cast<int64_t>(bytes / memory.itemsize()),
             "a view lies outside of its memory");
  return out;
}

bool is_dense(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  const Dims dense = contiguous_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1 && strides[d] != dense[d]) return false;
  return true;
}

std::string list_of(std::span<const int64_t> values) {
  std::string out = "[";
  for (size_t d = 0; d < values.size(); ++d) out += (d ? ", " : "") + std::to_string(values[d]);
  return out + ']';
}

std::string text_of(DType dtype, std::span<const int64_t> shape, std::span<const int64_t> strides) {
  std::string out = std::string(name_of(dtype)) + list_of(shape);
  return numel_of(Dims(shape)) == 0 || is_dense(shape, strides)
             ? out
             : out + " strides " + list_of(strides);
}

}  // namespace

SavedPrograms::SavedPrograms(const std::string& path) : file_(read_tensors(path)) {
  const std::string* text = file_.find_metadata(kProgramMetadata);
  check_file(text != nullptr, path, " holds no programs");
  const Json content = Json::parse(*text);
  check_file(content["format"].integer() == kProgramFormat, "the programs are in format ",
             content["format"].integer(), ", written by version ", content["version"].text(),
             " of tinyt; this version reads format ", kProgramFormat);
  for (const auto& [place, name] : content["devices"].members())
    require(place == "0" && name.text() == "cpu", ErrorKind::NotImplemented,
            "load: a program runs on ", name.text(), ", but the C interface knows the CPU alone");
  read_memories(content);
  read_leaves(content);
  read_names(content);
  for (const auto& [name, value] : content["numbers"].members())
    numbers_.push_back({name, float_in(value.text())});
  for (const Json& state : content["generators"].items()) {
    Generator made{state.is_null(), 0, 0};
    if (!made.is_default) {
      made.seed = state[0].integer();
      made.offset = state[1].integer();
      check_file(made.offset >= 0 && made.offset < kMostOffset, "a generator stands at ",
                 made.offset);
    }
    generators_.push_back(made);
  }
  seed((uint64_t{std::random_device{}()} << 32) | std::random_device{}());
  const std::vector<Json>& rows = content["programs"].items();
  check_file(!rows.empty(), "there is no program");
  for (size_t i = 0; i < rows.size(); ++i) programs_.push_back(read_program(rows[i], i));
}

void SavedPrograms::save(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  write_tensors(path, file_);
}

void SavedPrograms::read_memories(const Json& content) {
  for (const auto& [name, place] : content["memories"].members()) {
    check_file(file_.find(name) != nullptr && place.text() == "cpu", "there is no memory ", name);
    memories_.insert(name);
  }
}

const Tensor& SavedPrograms::memory(const std::string& name) const {
  check_file(memories_.contains(name), "there is no memory ", name);
  return *file_.find(name);
}

void SavedPrograms::read_leaves(const Json& content) {
  for (const Json& row : content["leaves"].items()) {
    const Tensor& whole = memory(row["memory"].text());
    const DType dtype = dtype_named(row["dtype"].text());
    const Json& place = row["place"];
    const Dims all{static_cast<int64_t>(whole.storage().buffer.bytes / size_of(dtype))}, one{1};
    Leaf leaf{view_of(whole.view_as(dtype, all, one, 0), sizes_in(place[0]),
                      Dims(place[1].integers()), place[2].integer()),
              {}};
    if (row["grad"].is_text()) {
      const Tensor* grad = file_.find(row["grad"].text());
      check_file(grad && grad->shape() == leaf.tensor.shape() && grad->dtype() == dtype,
                 "there is no such gradient");
      leaf.grad = contiguous(*grad);
    }
    leaves_.push_back(std::move(leaf));
  }
}

void SavedPrograms::read_names(const Json& content) {
  for (const auto& [name, what] : content["tensors"].members()) {
    if (what.is_text()) {
      names_.push_back({name, -1, memory(what.text())});
      continue;
    }
    const int64_t at = what.integer();
    check_file(at >= 0 && at < std::ssize(leaves_), "there is no tensor ", name);
    names_.push_back({name, at, leaves_[static_cast<size_t>(at)].tensor});
  }
}

SavedPrograms::Fact SavedPrograms::read_fact(const Json& row) const {
  Fact out;
  if (row.is_text()) {
    check_file(row.text() == "float", "an argument is neither a tensor nor a float");
    out.is_float = true;
    return out;
  }
  out.dtype = dtype_named(row[0].text());
  out.shape = sizes_in(row[1]);
  out.strides = Dims(row[2].integers());
  check_file(out.strides.size() == out.shape.size(), "an argument has other strides than sizes");
  check_file(row[3].integer() == 0, "an argument is on another device");
  return out;
}

// The number of a leaf; -2 - i: argument i.
int64_t SavedPrograms::leaf(const Json& row) const {
  const std::string& kind = row[0].text();
  const int64_t at = row[1].integer();
  if (kind == "argument") {
    check_file(at >= 0 && at < INT32_MAX, "there is no argument ", at);
    return -2 - at;
  }
  check_file(kind == "leaf" && at >= 0 && at < std::ssize(leaves_), "there is no such tensor");
  return at;
}

int64_t SavedPrograms::argument(const One& one, int64_t at) const {
  check_file(at >= 0 && at < std::ssize(one.facts) && !one.facts[static_cast<size_t>(at)].is_float,
             "there is no tensor among the arguments with number ", at);
  return at;
}

std::unique_ptr<SavedPrograms::One> SavedPrograms::read_program(const Json& row,
                                                                size_t number) const {
  auto one = std::make_unique<One>();
  const Tensor* words = file_.find(std::string(kWordsPrefix) + std::to_string(number));
  check_file(words && words->dtype() == DType::Int64 && words->rank() == 1, "program ", number,
             " has no words");
  std::vector<std::string> operations;
  for (const Json& name : row["operations"].items()) operations.push_back(name.text());
  std::vector<Tensor> memories;
  for (const Json& name : row["memories"].items()) memories.push_back(memory(name.text()));
  for (const Json& draw : row["draws"].items()) {
    const int64_t generator = draw[0].integer(), count = draw[1].integer();
    check_file(generator >= 0 && generator < std::ssize(generators_) && count >= 0 &&
                   count < kMostCounters,
               "there is no generator ", generator);
    one->draws.emplace_back(generator, count);
  }
  one->graph = deserialize({words->ptr<int64_t>(), static_cast<size_t>(words->numel())}, operations,
                           memories, std::ssize(one->draws));
  const bool is_split = one->graph->split_point().node >= 0;
  one->program =
      std::make_unique<Program>(*one->graph, is_split ? Plan::Part::First : Plan::Part::All);
  one->outputs = is_split ? one->graph->split_point().output : one->graph->outputs().size();
  for (const Json& fact : row["facts"].items()) one->facts.push_back(read_fact(fact));
  read_sources(*one, row);
  for (const Json& result : row["results"].items())
    one->results.push_back(read_result(*one, result));
  read_gradients(*one, row);
  one->signature = describe(*one);
  return one;
}

// As "(float32[8, 4], float) -> (float32[])"; strides where they are not those of row-major order.
std::string SavedPrograms::describe(const One& one) const {
  std::string out = "(";
  for (const Fact& fact : one.facts) {
    if (out.size() > 1) out += ", ";
    out += fact.is_float ? "float" : text_of(fact.dtype, fact.shape, fact.strides);
  }
  out += ") -> (";
  for (size_t i = 0; i < one.results.size(); ++i) {
    const Result& result = one.results[i];
    if (i) out += ", ";
    if (result.kind == kOutput) {
      const Tensor& x = one.graph->outputs()[static_cast<size_t>(result.at)].tensor;
      out += text_of(x.dtype(), x.shape(), x.strides());
    } else {
      const bool is_float =
          result.kind == kOfNumber || (result.kind == kOfArgument && one.facts[result.at].is_float);
      out += is_float ? "float" : "tensor";
    }
  }
  return out + ')';
}

void SavedPrograms::read_sources(One& one, const Json& row) const {
  for (const Json& source : row["sources"].items()) {
    const std::string& kind = source[0].text();
    if (kind == "argument") {
      one.sources.push_back({Source::kArgument, argument(one, source[1].integer())});
    } else if (kind == "seed") {
      one.sources.push_back({Source::kLater, -1});
    } else {
      check_file(kind == "grad", "there is no such source");
      const int64_t of = leaf(source[1]);
      require(of >= 0, ErrorKind::NotImplemented,
              "load: a program adds to the gradient of an argument, which C has none of");
      one.sources.push_back({Source::kGradient, of});
    }
  }
  check_file(one.sources.size() == one.graph->arguments().size(),
             "the sources of a program's arguments are others");
  for (const Json& number : row["numbers"].items()) {
    if (number.is_text()) {
      const auto at = std::ranges::find(numbers_, number.text(), &Number::name);
      check_file(at != numbers_.end(), "there is no number ", number.text());
      one.numbers.push_back({false, at - numbers_.begin()});
      continue;
    }
    const int64_t at = number.integer();
    check_file(at >= 0 && at < std::ssize(one.facts) && one.facts[static_cast<size_t>(at)].is_float,
               "argument ", at, " is no float");
    one.numbers.push_back({true, at});
  }
  const int64_t count = one.graph->scalars().restorable().given;
  check_file(std::ssize(one.numbers) == count, "a run reads ", count, " numbers, there are ",
             one.numbers.size());
  for (size_t i = 0; i < one.sources.size(); ++i) {
    const Plan::Argument& wanted = one.program->plan().arguments[i];
    if (!wanted.used || one.sources[i].kind == Source::kGradient) continue;
    check_file(one.sources[i].kind == Source::kArgument,
               "a call reads the gradient of a result, argument ", i);
    const Fact& fact = one.facts[static_cast<size_t>(one.sources[i].at)];
    const Tensor& like = wanted.like;
    check_file(fact.dtype == like.dtype() && fact.shape == like.shape() &&
                   (fact.strides == like.strides() || like.numel() == 0),
               "argument ", i, " of a program has another shape, strides or dtype");
  }
}

SavedPrograms::Result SavedPrograms::read_result(const One& one, const Json& row) const {
  const auto in = [](int64_t at, int64_t limit, std::string_view what) {
    check_file(at >= 0 && at < limit, "there is no ", what, " ", at);
    return at;
  };
  Result out{};
  out.kind = row[0].integer();
  const Json& what = row[1];
  check_file(out.kind >= 0 && out.kind < kKinds, "there is no such result");
  const auto place = [&](int64_t kind, const Json& at) {
    if (kind == kOutput) return in(at.integer(), std::ssize(one.graph->outputs()), "output");
    if (kind == kOfArgument) return in(at.integer(), std::ssize(one.facts), "argument");
    if (kind == kOfNumber)
      return in(at.integer(), static_cast<int64_t>(one.graph->shared_scalars()->table().size()),
                "number");
    const int64_t found = leaf(at);
    check_file(found >= 0 || kind == kGrad, "a result is no tensor of the file");
    return found;
  };
  if (out.kind != kView) {
    out.at = place(out.kind, what);
    check_file(out.kind != kOutput || out.at < static_cast<int64_t>(one.outputs),
               "there is no such output");
    return out;
  }
  out.of = what[0].integer();
  check_file(out.of == kOutput || out.of == kOfArgument || out.of == kObject,
             "there is no such view");
  out.at = place(out.of, what[1]);
  if (out.of == kOfArgument) argument(one, out.at);
  check_file(out.of != kOutput || out.at < static_cast<int64_t>(one.outputs),
             "there is no such output");
  out.once = sizes_in(what[2]);
  out.shape = sizes_in(what[3]);
  out.strides = Dims(what[4].integers());
  out.offset = what[5].integer();
  check_file(out.once.size() == out.shape.size(), "a view has other sizes than its memory");
  return out;
}

void SavedPrograms::read_gradients(One& one, const Json& row) const {
  for (const Json& x : row["no_grad"].items()) one.no_gradients.push_back(leaf(x));
  for (const Json& x : row["set_grads"].items()) {
    SetGradient out{leaf(x[0]), x[1].integer(), x[2].is_null() ? -1 : leaf(x[2])};
    check_file(out.output < static_cast<int64_t>(one.outputs) && out.output > -INT32_MAX,
               "there is no output ", out.output);
    if (out.output < -1) argument(one, -2 - out.output);
    check_file(out.fixed >= -1, "a gradient that was there is no argument");
    one.set_gradients.push_back(out);
  }
}

// ---- runs

// Strides of dimensions of one element are nobody's.
bool SavedPrograms::stands_for(const One& one, std::span<const Tensor* const> leaves) const {
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Fact& fact = one.facts[i];
    if (fact.is_float) continue;
    const Tensor& x = *leaves[i];
    if (x.dtype() != fact.dtype || !(x.shape() == fact.shape)) return false;
    for (size_t d = 0; x.numel() > 0 && d < fact.shape.size(); ++d)
      if (fact.shape[d] > 1 && x.stride(d) != fact.strides[d]) return false;
  }
  return std::ranges::none_of(one.no_gradients, [&](int64_t at) {
    return at >= 0 && leaves_[static_cast<size_t>(at)].grad;
  });
}

// What a run writes must not be in another argument, nor in memory of the file: the plan takes each
// for memory of its own.
void SavedPrograms::require_apart(const One& one, std::span<const Tensor* const> leaves) const {
  const auto check_apart = [](const Tensor& written, const Tensor& other) {
    require(!ranges_overlap(written, other), ErrorKind::Value,
            "run: an argument lies in memory that the program writes to; pass a copy");
  };
  for (const Graph::Write& write : one.graph->writes()) {
    if (write.argument < 0) {
      for (const Tensor* x : leaves)
        if (x) check_apart(write.target, *x);
      continue;
    }
    const Source& source = one.sources[static_cast<size_t>(write.argument)];
    if (source.kind != Source::kArgument) continue;
    const Tensor& written = *leaves[static_cast<size_t>(source.at)];
    for (size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i] && static_cast<int64_t>(i) != source.at) check_apart(written, *leaves[i]);
    for (const auto& [name, memory] : file_.tensors) check_apart(written, memory);
  }
}

std::vector<double> SavedPrograms::given_numbers(const One& one,
                                                 std::span<const double> floats) const {
  std::vector<double> out;
  for (const NumberSource& source : one.numbers)
    out.push_back(source.is_argument ? floats[static_cast<size_t>(source.at)]
                                     : numbers_[static_cast<size_t>(source.at)].value);
  return out;
}

std::vector<Tensor> SavedPrograms::run(std::span<const Tensor> tensors,
                                       std::span<const double> numbers, size_t results) {
  const std::lock_guard lock(mutex_);
  bool is_another_number = false;
  for (const auto& one : programs_) {
    // The leaves of the call in their order: nothing for a float.
    std::vector<const Tensor*> leaves;
    std::vector<double> floats(one->facts.size());
    size_t tensor = 0, number = 0;
    for (size_t i = 0; i < one->facts.size(); ++i) {
      if (one->facts[i].is_float) {
        leaves.push_back(nullptr);
        if (number < numbers.size()) floats[i] = numbers[number];
        ++number;
      } else {
        leaves.push_back(tensor < tensors.size() ? &tensors[tensor] : nullptr);
        ++tensor;
      }
    }
    if (tensor != tensors.size() || number != numbers.size() || !stands_for(*one, leaves)) continue;
    const std::vector<double> given = given_numbers(*one, floats);
    if (!one->program->holds(given)) {
      is_another_number = true;
      continue;
    }
    require(results == one->results.size(), ErrorKind::Value, "run: the program gives ",
            one->results.size(), " results, there is room for ", results);
    require_apart(*one, leaves);
    std::vector<Tensor> own;
    for (size_t i = 0; i < leaves.size(); ++i)
      own.push_back(!leaves[i] ? Tensor()
                               : leaves[i]->view(one->facts[i].shape, one->facts[i].strides,
                                                 leaves[i]->offset()));
    return run_one(*one, own, floats, given);
  }
  require(!is_another_number, ErrorKind::Capture,
          "run: a number is one for which the function does something else");
  std::string known, given;
  for (const auto& one : programs_) known += (known.empty() ? "" : "; ") + one->signature;
  for (const Tensor& x : tensors)
    given += (given.empty() ? "" : ", ") + text_of(x.dtype(), x.shape(), x.strides());
  fail(ErrorKind::Value, "run: no program of the file is for (", given, ") and ", numbers.size(),
       " floats, with gradients as they are; there are ", known);
}

std::vector<Tensor> SavedPrograms::run_one(One& one, std::span<const Tensor> leaves,
                                           std::span<const double> floats,
                                           std::span<const double> given) {
  std::vector<Tensor> arguments;
  std::vector<bool> is_read(leaves_.size(), false);
  for (const Source& source : one.sources) {
    const auto at = static_cast<size_t>(source.at);
    if (source.kind == Source::kArgument) {
      arguments.push_back(leaves[at]);
    } else if (source.kind == Source::kLater) {
      arguments.emplace_back();
    } else {
      // One that is not there yet is zeros, and is from now on.
      const Tensor& like = one.graph->arguments()[arguments.size()];
      Tensor& grad = leaves_[at].grad;
      if (!grad) {
        grad = Tensor::empty(like.shape(), like.dtype());
        if (grad.numel() > 0)
          std::memset(grad.host_data(), 0, static_cast<size_t>(grad.numel()) * grad.itemsize());
      }
      arguments.push_back(grad);
      is_read[at] = true;
    }
  }
  std::vector<double> numbers;
  // As in eager, their memory is free for the run.
  for (const SetGradient& row : one.set_gradients)
    if (row.leaf >= 0 && !is_read[static_cast<size_t>(row.leaf)])
      leaves_[static_cast<size_t>(row.leaf)].grad = {};
  RngOffsets draws;
  for (const auto& [generator, count] : one.draws) {
    const Generator& from = generators_[static_cast<size_t>(generator)];
    require(from.offset < kMostOffset, ErrorKind::Runtime, "run: a generator is exhausted");
    draws.emplace_back(from.seed, from.offset);
  }
  const auto found = one.program->run(arguments, given, draws, nullptr, &numbers);
  require(found.has_value(), ErrorKind::Capture,
          "run: a number is one for which the function does something else");
  for (const auto& [generator, count] : one.draws)
    generators_[static_cast<size_t>(generator)].offset += count;
  const std::vector<Tensor>& outputs = *found;
  for (const SetGradient& row : one.set_gradients) {
    if (row.leaf < 0) continue;
    const auto at = static_cast<size_t>(row.output);
    leaves_[static_cast<size_t>(row.leaf)].grad =
        row.output >= 0   ? outputs[at]
        : row.output < -1 ? leaves[static_cast<size_t>(-2 - row.output)]
        : row.fixed >= 0  ? leaves_[static_cast<size_t>(row.fixed)].tensor
                          : Tensor();
  }
  std::vector<Tensor> results;
  for (const Result& row : one.results)
    results.push_back(result(row, outputs, leaves, floats, numbers));
  return results;
}

Tensor SavedPrograms::result(const Result& row, std::span<const Tensor> outputs,
                             std::span<const Tensor> leaves, std::span<const double> floats,
                             std::span<const double> numbers) const {
  const auto at = static_cast<size_t>(row.at);
  const auto of = [&](int64_t kind) -> Tensor {
    if (kind == kOutput) return outputs[at];
    if (kind == kOfNumber) return Tensor::scalar(numbers[at]);
    if (kind == kOfArgument) return leaves[at] ? leaves[at] : Tensor::scalar(floats[at]);
    if (kind != kGrad) return leaves_[at].tensor;
    const Tensor grad = row.at >= 0 ? leaves_[at].grad : Tensor();
    require(static_cast<bool>(grad), ErrorKind::Value,
            "run: a gradient that is returned is not there");
    return grad;
  };
  if (row.kind != kView) return of(row.kind);
  const Tensor base = of(row.of);
  int64_t offset = 0;
  require(!__builtin_add_overflow(base.offset(), row.offset, &offset), ErrorKind::Runtime,
          "run: a view reaches too far");
  Dims strides = row.strides;
  const Tensor once = view_of(base, row.once, strides, offset);
  for (size_t d = 0; d < row.shape.size(); ++d) {
    require(row.once[d] == row.shape[d] || row.once[d] == 1, ErrorKind::Runtime,
            "run: a view is no repetition");
    if (row.once[d] != row.shape[d]) strides[d] = 0;
  }
  return once.view(row.shape, strides, offset);
}

// ---- tensors and numbers

const SavedPrograms::Name* SavedPrograms::find_name(std::string_view name) const {
  const auto at = std::ranges::find(names_, name, &Name::name);
  return at == names_.end() ? nullptr : &*at;
}

const Tensor* SavedPrograms::tensor(std::string_view name) const {
  const Name* found = find_name(name);
  return found ? &found->tensor : nullptr;
}

std::optional<Tensor> SavedPrograms::gradient(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Name* found = find_name(name);
  if (!found) return std::nullopt;
  return found->leaf < 0 ? Tensor() : leaves_[static_cast<size_t>(found->leaf)].grad;
}

void SavedPrograms::clear_gradients() {
  const std::lock_guard lock(mutex_);
  for (Leaf& leaf : leaves_) leaf.grad = {};
}

std::optional<double> SavedPrograms::number(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(numbers_, name, &Number::name);
  return at == numbers_.end() ? std::nullopt : std::optional(at->value);
}

bool SavedPrograms::set_number(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(numbers_, name, &Number::name);
  if (at == numbers_.end()) return false;
  at->value = value;
  return true;
}

void SavedPrograms::seed(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  for (Generator& generator : generators_)
    if (generator.is_default) generator = {true, static_cast<int64_t>(seed), 0};
}

}  // namespace tinyt
