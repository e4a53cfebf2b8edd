// Control flow as nodes of a recorded graph: recordings of their own, planned once and run again
// and again, without Python.
#pragma once

#include "core/base/parallel.h"
#include "core/graph/graph.h"
#include "core/graph/graph_words.h"
#include "core/program/program.h"

namespace tinyt {

// Where an argument of a recorded part lies.
struct FlowSource {
  enum Kind : int8_t {
    kNowhere,  // it does not read it
    kWhole,    // input `at`
    kSlice,    // input `at`, which has a dimension of steps in front
    kCarry,    // at the first step input `at`, then result `other` of the step before
    kNext      // the slice of input `at` that the next step has; at the last step input `other`
  };
  Kind kind = kNowhere;
  int64_t at = -1, other = -1;
};

// The counters that a part takes of a generator: the first of all, and how many at each step.
struct FlowDraw {
  int64_t generator, first, count;
};

// A recording without a split_point, and where its arguments come from. Its results are its
// outputs.
struct FlowPart {
  std::shared_ptr<const Graph> graph;
  std::vector<FlowSource> sources;
  std::vector<FlowDraw> draws;
};

// One part for every step. Its outputs: results of the last step, then results of all steps with a
// dimension of steps in front.
struct ScanSettings {
  FlowPart body;
  int64_t steps;
  bool reversed;  // the last slices come first
  std::vector<int64_t> finals, stacks;
};
std::shared_ptr<const ExternalOp> scan_node(ScanSettings settings);

// Input 0 (one bool) says which part runs. Output o is result `results[part][o]` of it, or zeros,
// or is not read then.
constexpr int64_t kNotRead = -1, kZeros = -2;
struct CondSettings {
  FlowPart parts[2];  // false, true
  std::vector<int64_t> results[2];
};
std::shared_ptr<const ExternalOp> cond_node(CondSettings settings);

// Runs the body as long as the condition's only result, one bool, is true. Inputs come first that
// are carried: result `carries[i]` of the body is carry i, and so is output i in the end.
struct WhileSettings {
  FlowPart condition, body;
  std::vector<int64_t> carries;
};
std::shared_ptr<const ExternalOp> while_node(WhileSettings settings);

// Errors where arguments and results of parts do not lie in operands of these geometries.
using Geometries = std::span<const ExternalOp::Geometry>;
void check_flow(const ScanSettings& settings, Geometries inputs, Geometries outputs);
void check_flow(const CondSettings& settings, Geometries inputs, Geometries outputs);
void check_flow(const WhileSettings& settings, Geometries inputs, Geometries outputs);

// The node whose name, numbers and recordings a file has; `check_draw` of each generator and
// counter that a part takes.
std::shared_ptr<const ExternalOp> flow_of(std::string_view name, Words& numbers,
                                          const ExternalOp::Graphs& parts,
                                          FunctionRef<void(int64_t, int64_t)> check_draw);

}  // namespace tinyt
