#include "c/saved_programs.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "core/base/checked.h"
#include "core/ops/dispatch.h"
#include "core/program/serialized_graph.h"

namespace tinyt {

namespace {

// As python/tinyt/compiler/saved/layout.py has them.
constexpr int64_t kProgramFormat = 1;
constexpr std::string_view kProgramMetadata = "tinyt.program", kWordsPrefix = "tinyt.words.";
constexpr int64_t kMostCounters = int64_t{1} << 62;
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

std::string text_of(DType dtype, std::span<const int64_t> shape) {
  std::string out(name_of(dtype));
  out += '[';
  for (size_t d = 0; d < shape.size(); ++d) out += (d ? ", " : "") + std::to_string(shape[d]);
  return out + ']';
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
  for (const auto& [name, value] : content["numbers"].members())
    numbers_.push_back({name, float_in(value.text())});
  for (const Json& state : content["generators"].items()) {
    Generator made{state.is_null(), 0, 0};
    if (!made.is_default) {
      made.seed = state[0].integer();
      made.offset = state[1].integer();
      check_file(made.offset >= 0, "a generator stands at ", made.offset);
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
    names_.push_back(name);
  }
}

void SavedPrograms::read_leaves(const Json& content) {
  for (const Json& row : content["leaves"].items()) {
    const std::string& name = row["memory"].text();
    check_file(std::ranges::find(names_, name) != names_.end(), "there is no memory ", name);
    const Tensor& memory = *file_.find(name);
    check_file(dtype_named(row["dtype"].text()) == memory.dtype(),
               "a leaf has another dtype than its memory");
    const Json& place = row["place"];
    const Tensor x =
        view_of(memory, sizes_in(place[0]), Dims(place[1].integers()), place[2].integer());
    const bool is_all = x.numel() == memory.numel() && x.is_contiguous();
    leaves_.push_back({is_all ? name : "", x, {}});
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
  for (const Json& name : row["memories"].items()) {
    check_file(std::ranges::find(names_, name.text()) != names_.end(), "there is no memory ",
               name.text());
    memories.push_back(*file_.find(name.text()));
  }
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
  one->signature = "(";
  for (const Fact& fact : one->facts) {
    if (one->signature.size() > 1) one->signature += ", ";
    one->signature += fact.is_float ? "float" : text_of(fact.dtype, fact.shape);
  }
  one->signature += ") -> (";
  for (size_t i = 0; i < one->results.size(); ++i) {
    const Result& result = one->results[i];
    if (i) one->signature += ", ";
    if (result.kind == kOutput) {
      const Tensor& x = one->graph->outputs()[static_cast<size_t>(result.at)].tensor;
      one->signature += text_of(x.dtype(), x.shape());
    } else {
      one->signature += result.kind == kOfNumber ? "float" : "tensor";
    }
  }
  one->signature += ')';
  return one;
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

bool SavedPrograms::stands_for(const One& one, std::span<const Tensor* const> leaves) const {
  if (leaves.size() != one.facts.size()) return false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Fact& fact = one.facts[i];
    if (fact.is_float) continue;
    const Tensor& x = *leaves[i];
    if (x.dtype() != fact.dtype || !(x.shape() == fact.shape) || !(x.strides() == fact.strides))
      return false;
  }
  const auto has_gradient = [&](int64_t at) {
    return at >= 0 && leaves_[static_cast<size_t>(at)].grad;
  };
  return std::ranges::none_of(one.no_gradients, has_gradient) &&
         std::ranges::all_of(one.sources, [&](const Source& source) {
           return source.kind != Source::kGradient || has_gradient(source.at);
         });
}

std::vector<Tensor> SavedPrograms::run(std::span<const Tensor> tensors,
                                       std::span<const double> numbers, size_t results) {
  const std::lock_guard lock(mutex_);
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
    require(results == one->results.size(), ErrorKind::Value, "run: the program gives ",
            one->results.size(), " results, there is room for ", results);
    return run_one(*one, leaves, floats);
  }
  std::string known;
  for (const auto& one : programs_) known += (known.empty() ? "" : "; ") + one->signature;
  std::string given;
  for (const Tensor& x : tensors)
    given += (given.empty() ? "" : ", ") + text_of(x.dtype(), x.shape());
  fail(ErrorKind::Value, "run: no program of the file is for (", given, ") and ", numbers.size(),
       " floats, with these strides, and gradients as they are; there are ", known);
}

std::vector<Tensor> SavedPrograms::run_one(One& one, std::span<const Tensor* const> leaves,
                                           std::span<const double> floats) {
  std::vector<Tensor> arguments;
  std::vector<bool> is_read(leaves_.size(), false);
  for (const Source& source : one.sources) {
    const auto at = static_cast<size_t>(source.at);
    if (source.kind == Source::kArgument) {
      arguments.push_back(*leaves[at]);
    } else if (source.kind == Source::kLater) {
      arguments.emplace_back();
    } else {
      arguments.push_back(leaves_[at].grad);
      is_read[at] = true;
    }
  }
  std::vector<double> given, numbers;
  for (const NumberSource& source : one.numbers)
    given.push_back(source.is_argument ? floats[static_cast<size_t>(source.at)]
                                       : numbers_[static_cast<size_t>(source.at)].value);
  require(one.program->holds(given), ErrorKind::Capture,
          "run: a number that the program was made for is another one now");
  // As in eager, their memory is free for the run.
  for (const SetGradient& row : one.set_gradients)
    if (row.leaf >= 0 && !is_read[static_cast<size_t>(row.leaf)])
      leaves_[static_cast<size_t>(row.leaf)].grad = {};
  RngOffsets draws;
  for (const auto& [generator, count] : one.draws) {
    const Generator& from = generators_[static_cast<size_t>(generator)];
    draws.emplace_back(from.seed, from.offset);
  }
  const auto found = one.program->run(arguments, given, draws, nullptr, &numbers);
  require(found.has_value(), ErrorKind::Capture,
          "run: a number that the program was made for is another one now");
  for (const auto& [generator, count] : one.draws)
    generators_[static_cast<size_t>(generator)].offset += count;
  const std::vector<Tensor>& outputs = *found;
  for (const SetGradient& row : one.set_gradients) {
    if (row.leaf < 0) continue;
    const auto at = static_cast<size_t>(row.output);
    leaves_[static_cast<size_t>(row.leaf)].grad =
        row.output >= 0   ? outputs[at]
        : row.output < -1 ? *leaves[static_cast<size_t>(-2 - row.output)]
        : row.fixed >= 0  ? leaves_[static_cast<size_t>(row.fixed)].tensor
                          : Tensor();
  }
  std::vector<Tensor> results;
  for (const Result& row : one.results)
    results.push_back(result(row, outputs, leaves, floats, numbers));
  return results;
}

Tensor SavedPrograms::result(const Result& row, std::span<const Tensor> outputs,
                             std::span<const Tensor* const> leaves, std::span<const double> floats,
                             std::span<const double> numbers) const {
  const auto at = static_cast<size_t>(row.at);
  const auto of = [&](int64_t kind) -> Tensor {
    if (kind == kOutput) return outputs[at];
    if (kind == kOfNumber) return Tensor::scalar(numbers[at]);
    if (kind == kOfArgument) return leaves[at] ? *leaves[at] : Tensor::scalar(floats[at]);
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

const Tensor* SavedPrograms::tensor(std::string_view name) const {
  for (const Leaf& leaf : leaves_)
    if (!leaf.name.empty() && leaf.name == name) return &leaf.tensor;
  return std::ranges::find(names_, name) == names_.end() ? nullptr : file_.find(name);
}

std::optional<Tensor> SavedPrograms::gradient(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const Leaf& leaf : leaves_)
    if (!leaf.name.empty() && leaf.name == name) return leaf.grad;
  if (std::ranges::find(names_, name) == names_.end()) return std::nullopt;
  return Tensor();
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
