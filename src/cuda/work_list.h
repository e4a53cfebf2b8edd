// What a device was asked for and the driver was not yet: kernels, copies and fills, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/shape.h"
#include "cuda/api.h"

namespace tinyt::cuda {

// How many blocks a kernel is launched with, of how many threads, and bytes that the threads of
// each share.
struct LaunchShape {
  unsigned blocks = 1, threads = 1, shared_bytes = 0;
  bool operator==(const LaunchShape&) const = default;
};

// The arguments of a kernel: pointers to its addresses, then one to the structure behind them.
using ArgumentPointers = SmallVec<void*, 16>;
ArgumentPointers pointers_to(Address* addresses, size_t count, const void* structure);

class WorkList {
 public:
  enum class Kind : uint8_t { Kernel, Copy, Fill };
  struct Item {
    Kind kind;
    uint8_t value = 0;  // of a fill
    // Of kernels: how many addresses there are in front, and where the first one is.
    uint32_t addresses = 0;
    size_t first = 0;
    Function function = nullptr;
    LaunchShape shape = {};
    // Of copies and fills.
    Address to = 0, from = 0;
    // Of those, and of a kernel's structure.
    size_t bytes = 0;
  };

  void add_kernel(Function function, const LaunchShape& shape, std::span<const Address> addresses,
                  const void* structure, size_t bytes);
  void add_copy(Address to, Address from, size_t bytes);
  void add_fill(Address to, size_t bytes, uint8_t value);
  void clear();

  size_t size() const { return items_.size(); }
  const Item& operator[](size_t i) const { return items_[i]; }
  ArgumentPointers arguments(const Item& kernel);
  // Whether a kernel reads or writes memory that begins there.
  bool has_address(Address address) const;
  // Which words of kernels' structures are in a range of numbers, and one of them.
  std::vector<size_t> words_in(int64_t first, int64_t count) const;
  int64_t& word(size_t place) { return reinterpret_cast<int64_t&>(words_[place]); }

  // Of a list that an instantiated graph of another one can do: the same kernels, copies and fills
  // of as many bytes, in the same order.
  uint64_t form() const { return form_; }
  bool has_form_of(const WorkList& other) const;
  // Whether the i-th of two lists of one form is the same to the byte.
  bool is_same(size_t i, const WorkList& other) const;

 private:
  void add(const Item& item);

  std::vector<Item> items_;
  std::vector<uint64_t> words_;  // of all arguments
  uint64_t form_ = 0;
};

}  // namespace tinyt::cuda
