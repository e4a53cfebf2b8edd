// Fused kernels as functions of a language.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/graph/fused_kernel.h"
#include "gpu/value_source.h"

namespace tinyt::gpu {

// How a load's elements lie along the last dimension of the space.
enum class Inner : uint8_t {
  Strided,   // as its stride says
  Dense,     // one after another
  Repeated,  // one element for all
  Number,    // one element, whose value is among the kernel's words: not where one thread takes all
};

// What of its operands' geometry is in a kernel's text.
struct KernelForm {
  std::vector<Inner> loads;
  // Whether stores have strides; else they are dense. Not of values of one element a row, nor where
  // one thread takes all.
  bool strided_stores = false;
  // Whether what is stored goes past the caches, where the language can say so.
  bool streams = false;
  // Whether `kReduceLanes` threads of a group take a row together, each the elements of its lane;
  // else a thread takes it. Only of rows that are reduced, and have elements.
  bool by_lanes = false;
};

// Which of a kernel's words is what: the sizes of the space; of each load the place of its first
// element and its strides, or its bits as `held_type` has them, of a number; of each store the
// place of its first element, and its strides where stores have such; how many elements of a row a
// thread takes at most, where nothing is reduced; how many rows a thread takes.
class WordLayout {
 public:
  WordLayout() = default;
  WordLayout(size_t rank, const KernelForm& form, size_t stores, const Dialect& dialect);
  size_t size(size_t dim) const { return dim; }
  size_t load(size_t k) const { return loads_[k]; }
  size_t stride(size_t k, size_t dim) const { return loads_[k] + 1 + dim; }
  size_t store(size_t k) const { return stores_[k]; }
  size_t store_stride(size_t k, size_t dim) const { return stores_[k] + 1 + dim; }
  size_t block() const { return count_ - 2; }
  size_t lines() const { return count_ - 1; }
  size_t count() const { return count_; }

  // What `buffers` loads and stores take at most.
  static size_t most(size_t rank, size_t buffers) { return rank + buffers * (rank + 1) + 2; }

 private:
  std::vector<size_t> loads_, stores_;
  size_t count_ = 0;
};

// The index in a dimension of that size (empty: the first one) of an element by its number, where
// so many elements lie behind each other in the dimensions below.
std::string digit(const std::string& number, const std::string& below, const std::string& size);

struct KernelSource {
  Functions functions;  // that it calls
  std::string text;
};

// A function of that name. Its arguments in C: the sizes of the space (int64, as many as it has
// dimensions), for each load its first element and its strides in elements (int64, as many), for
// each store its first element. In languages with threads: memory for each load that is no number
// and for each store, and the words of `WordLayout`. Shapes share it: only the rank, the number of
// reduced dimensions and the form are in its text.
//
// Where compilers make vectors a store may be in the memory of a load of its dtype whose elements
// lie in the same order: each element is read for the last time before it is written.
//
// NotImplementedError for a product in front, complex numbers, and what the dialect cannot spell.
KernelSource kernel_source(const FusedKernel& kernel, const KernelForm& form, std::string_view name,
                           const Dialect& dialect);
// The whole text of a source with that kernel.
std::string whole_source(const KernelSource& source, const Dialect& dialect);

}  // namespace tinyt::gpu
