// What a region does, as steps over registers.
#pragma once

#include "core/plan/fuse.h"

namespace tinyt {

class TileBuilder {
 public:
  TileBuilder(const Fuser& fuser, Group& group);
  void run();

 private:
  // Registers while building: that of an operand is ~its number.
  struct LiveBuffer {
    int from;
    DType dtype, half;
    int is;
  };
  // A value. Wide: a half's, each as the float32 that it is, as kernels take it.
  struct Made {
    int64_t value;
    int is;
    bool wide = false;
  };

  bool is_inside(int64_t v) const;
  bool is_row(int64_t node) const;
  DType dtype_of(int r) const;
  int input(int64_t v, DType dtype, DType through, bool per_row);
  int add(DType dtype, bool per_row);
  int copy(int from, bool per_row);
  int cast(int from, DType to, bool per_row, DType half = DType::Float32);
  const Made& made(int64_t v) const;
  void make(int64_t v, int is, int64_t node);
  bool is_read_inside(int64_t v) const;
  bool stays_half(const Graph::Node& node, DType dtype) const;
  int operand(int64_t v, DType want, DType compute, int64_t node);
  void add_scalar(const Graph::Node& node, int64_t n);
  void add_cast(const Graph::Node& node, int64_t n);
  void add_reduction(const Graph::Node& node);
  void finish();
  void drop_unused();
  void place();

  const Fuser& fuser_;
  const Graph& graph_;
  Group& group_;
  int64_t region_;
  std::vector<DType> input_dtype_;
  std::vector<LiveBuffer> casts_;
  std::vector<Made> made_;
  bool widens_ = false;  // there are many operations on halves
};

}  // namespace tinyt
