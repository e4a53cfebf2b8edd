// The gradients of attention by kernels/attention_backward.cu: those of queries in one launch,
// those of keys and values in another.
#include <string>

#include "core/base/parallel.h"
#include "cuda/attention.h"
#include "cuda/hand_kernels.h"
#include "cuda/kernels/attention_arguments.h"
#include "cuda/tiles.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"

namespace tinyt::cuda {

namespace {

// Queries or keys that lie in shared memory at once, so that all sums are in registers, and two
// blocks of halves, or one of float32, in what any of these devices have of shared memory.
// Masks of rows that are keys take registers for their places.
int columns_at_once(bool is_float32, bool by_keys, bool is_masked, int room) {
  if (is_float32) return room > 64 ? 16 : 32;
  if (!by_keys) return 64;
  return (room > 64 ? 32 : 64) / (is_masked ? 2 : 1);
}

class AttentionGradients {
 public:
  explicit AttentionGradients(const KernelCall& call)
      : dtype_(call.outputs[0].dtype()),
        device_(call.outputs[0].device()),
        gradient_(readable(call.inputs[0])),
        query_(readable(call.inputs[1])),
        key_(readable(call.inputs[2])),
        value_(readable(call.inputs[3])),
        mask_(readable_mask(call.inputs[4], dtype_)),
        sums_(gpu::contiguous_in(call.inputs[6], call.inputs[6].dtype())),
        dots_(gpu::attention_dots(call.inputs[0], call.inputs[5])) {
    AttrReader read(call.attrs);
    args_.is_causal = read.flag();
    args_.scale = static_cast<float>(read.real());
    args_.queries = query_.size(2);
    args_.keys = key_.size(2);
    args_.heads = query_.size(1);
    args_.of_group = query_.size(1) / key_.size(1);
    args_.features = static_cast<int>(query_.size(3));
    args_.width = static_cast<int>(value_.size(3));
    set_places(gradient_, args_.gradient_first, args_.gradient_step);
    set_places(query_, args_.query_first, args_.query_step);
    set_places(key_, args_.key_first, args_.key_step);
    set_places(value_, args_.value_first, args_.value_step);
    set_mask(mask_, query_, key_, args_.mask_first, args_.mask_step);
    args_.sums_first = gpu::first_element(sums_);
    args_.dots_first = gpu::first_element(dots_);
  }

  // Gradients of queries, which `right` is ignored for; or of keys and of values.
  void launch(bool by_keys, const Tensor& left, const Tensor& right) {
    args_.blocks = ceil_div(left.size(2), kAttentionRows);
    args_.left_first = gpu::first_element(left);
    args_.right_first = gpu::first_element(right);
    args_.packs = is_in_packs(
        dtype_, {args_.left_first, args_.right_first, left.size(3), by_keys ? right.size(3) : 0});
    const int room = attention_room(args_.features, args_.width);
    const int columns = columns_at_once(dtype_ == DType::Float32, by_keys, mask_.rank() > 0, room);
    const std::string variant = attention_variant(dtype_, attention_type(dtype_), room, mask_) +
                                "constexpr bool kByKeys = " + (by_keys ? "true" : "false") +
                                ";\nconstexpr int kColumns = " + std::to_string(columns) + ";\n";
    const Tensor& mask = mask_.rank() > 0 ? mask_ : query_;
    const Buffer* const memory[] = {
        &gradient_.storage().buffer, &query_.storage().buffer, &key_.storage().buffer,
        &value_.storage().buffer,    &mask.storage().buffer,   &sums_.storage().buffer,
        &dots_.storage().buffer,     &left.storage().buffer,   &right.storage().buffer};
    const int64_t blocks = args_.blocks * left.size(0) * left.size(1);
    cuda_driver(device_).launch_blocks(
        hand_kernel(device_, "attention_backward.cu", variant), device_.index,
        {blocks, kAttentionThreads, shared_bytes(columns, room)}, memory, &args_);
  }

 private:
  // Two operands of rows and of columns; sums and dots of these; weights of float32.
  size_t shared_bytes(int columns, int room) const {
    const int operands = 2 * (kAttentionRows + columns) * room;
    const int weights = dtype_ == DType::Float32 ? kAttentionRows * (columns + kWeightGap) : 0;
    return static_cast<size_t>(operands) * size_of(dtype_) +
           static_cast<size_t>(2 * columns + weights) * sizeof(float);
  }

  const DType dtype_;
  const Device device_;
  const Tensor gradient_, query_, key_, value_, mask_, sums_, dots_;
  AttentionGradientArguments args_{};
};

}  // namespace

void run_attention_backward(const KernelCall& call) {
  if (!is_attention_by_hand(call.inputs[1], call.inputs[2], call.inputs[3]))
    return gpu::run_attention_backward(call);
  AttentionGradients gradients(call);
  gradients.launch(false, call.outputs[0], call.outputs[0]);
  gradients.launch(true, call.outputs[1], call.outputs[2]);
}

}  // namespace tinyt::cuda
