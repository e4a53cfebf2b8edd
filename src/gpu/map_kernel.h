// Kernels whose threads make elements one by one, as a caller spells what is done with each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/parallel.h"
#include "core/tensor/tensor.h"
#include "gpu/driver.h"
#include "gpu/value_source.h"

namespace tinyt::gpu {

// A call of such a kernel. What it is given before it runs, in that order, are the kernel's
// arguments; the text is printed when a kernel of its key is asked for first. Shapes share a
// kernel: the key has to say all else that the text depends on, but dtypes and ranks of what is
// given here.
class MapKernel : public ValueSource {
 public:
  MapKernel(Device device, std::string key);

  // A tensor of the device, seen as elements of a dtype of its size.
  struct View {
    std::string name, first;  // where its first element is
    DType dtype;
  };
  View reads(const Tensor& x) { return add(x, x.dtype(), dialect().reads); }
  View writes(const Tensor& x) { return add(x, x.dtype(), write().writes(x.dtype())); }
  // The same, of which only the bits count.
  View reads_bits(const Tensor& x) { return add(x, bits_type(x.dtype()), dialect().reads); }
  View writes_bits(const Tensor& x) {
    return add(x, bits_type(x.dtype()), write().writes(x.dtype()));
  }
  // The text of a whole number of the call, of the type of places; of a number as it is held, by
  // its value or its bits.
  std::string word(int64_t value);
  std::string number(DType dtype, double value);
  std::string number_of_bits(DType dtype, int64_t bits);
  // A place as int64 values are held, and the reverse.
  std::string held_place(const std::string& place) const;
  std::string place_of(const std::string& value) const;
  // The place of an element by its number (text) in a shape, for each of several strides.
  std::vector<std::string> places(const std::string& number, std::span<const int64_t> shape,
                                  std::span<const Dims> strides);
  std::string place(const std::string& number, std::span<const int64_t> shape, const Dims& strides);

  // An element of a view as it is in memory, and sets one to such; its value, held; sets one to a
  // value that is held in the view's dtype.
  std::string item(const View& view, const std::string& place) const {
    return write().element(view.dtype, view.name, view.first + " + " + place);
  }
  void set_item(const View& view, const std::string& place, const std::string& item) {
    write().set_element(view.dtype, view.name, view.first + " + " + place, item);
  }
  std::string value(const View& view, const std::string& place) {
    return unpacked(view.dtype, item(view, place));
  }
  void set(const View& view, const std::string& place, const std::string& value) {
    set_item(view, place, packed(view.dtype, value));
  }

  // What the host finds when it synchronises, where an index of an operation is out of range.
  struct Fault {
    std::string op, dim, size;
  };
  Fault fault(OpId op, int64_t dim, int64_t size);
  // Makes variable `index`, an int64 value, another one where it is none of a dimension, which is
  // that fault.
  void check_index(const Fault& fault, const std::string& index, int64_t instead = 0);

  // Runs it for elements 0 up to `count`: `body` prints what is done with element "i", and gives it
  // no arguments.
  // `least`: elements that a core's thread takes at least.
  void run(int64_t count, FunctionRef<void()> body, int64_t least = kLeastElements);

  // An array that the threads of a group share; one run by groups of `kGroupThreads`: `body` prints
  // what a thread does, given its numbers "group", which may be beyond the last one, and "lane" in
  // that, and gives it no arguments.
  void share(ScalarType type, const std::string& name, int64_t size);
  void run_groups(int64_t groups, FunctionRef<void()> body);

  static DType bits_type(DType t);

 private:
  static constexpr int64_t kLeastElements = 512;

  View add(const Tensor& x, DType as, std::string_view spelling);
  void launch(BuiltKernel& built, int64_t threads) const;

  Device device_;
  Driver& driver_;
  std::string key_;
  std::vector<SourceWriter::Argument> arguments_;
  std::vector<const Buffer*> memory_;
  std::vector<int64_t> words_;
  struct Shared {
    ScalarType type;
    std::string name;
    int64_t size;
  };
  std::vector<Shared> shared_;
  std::string faults_;  // the name of their memory
};

}  // namespace tinyt::gpu
