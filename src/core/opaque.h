// A step of a recorded graph that is no row of the op table, as an optimiser's over all parameters.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tensor.h"

namespace tinyt {

// A pure function of its inputs. Output i has the shape and dtype of input i, and may be given the
// same memory: then the step works in place.
class Opaque {
 public:
  // The step over tensors whose memory may move between runs, but whose geometry stays.
  class Bound {
   public:
    virtual ~Bound() = default;
    virtual void run() const = 0;
  };

  virtual ~Opaque() = default;
  virtual std::string_view name() const = 0;
  virtual std::unique_ptr<Bound> bind(std::span<const Tensor> inputs,
                                      std::span<const Tensor> outputs) const = 0;
};

}  // namespace tinyt
