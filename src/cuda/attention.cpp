// Attention by kernels/attention.cu: which of its variants, and what it is told.
#include <algorithm>
#include <string>

#include "core/base/parallel.h"
#include "cuda/hand_kernels.h"
#include "cuda/kernels/attention_arguments.h"
#include "cuda/tiles.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"

namespace tinyt::cuda {

namespace {

constexpr int64_t kMostFeatures = 128;

// The same elements where the kernel may read 16 bytes of a row at a time: the tensor, or a copy.
Tensor readable(const Tensor& x) {
  const auto of_chunk = static_cast<int64_t>(16 / x.itemsize());
  const auto address = reinterpret_cast<uintptr_t>(x.storage().buffer.handle);
  bool begins = address % 16 == 0 && gpu::first_element(x) % of_chunk == 0;
  for (size_t d = 0; d < 3; ++d) begins &= x.size(d) == 1 || x.stride(d) % of_chunk == 0;
  if (begins && (x.size(3) == 1 || x.stride(3) == 1)) return x;
  const int64_t pitch = ceil_div(x.size(3), of_chunk) * of_chunk;
  const Dims steps{x.size(1) * x.size(2) * pitch, x.size(2) * pitch, pitch, 1};
  const Tensor memory = Tensor::empty(Dims{x.size(0) * steps[0]}, x.dtype(), x.device());
  Tensor made = memory.view(x.shape(), steps, memory.offset());
  gpu::copy_into(x, made);
  return made;
}

// Parts of the keys where blocks of queries are too few for the device: by the sizes and the device
// alone, since parts change bits.
int64_t keys_of_part(int64_t blocks, int64_t keys, int64_t processors) {
  constexpr int64_t kLeastKeys = 256, kMostParts = 32, kWholeKeys = 64, kBlocksOfProcessor = 2;
  const int64_t parts = std::clamp<int64_t>(
      std::min(keys / kLeastKeys, kBlocksOfProcessor * processors / blocks), 1, kMostParts);
  return ceil_div(ceil_div(keys, parts), kWholeKeys) * kWholeKeys;
}

class Attention {
 public:
  explicit Attention(const KernelCall& call)
      : call_(call),
        out_(call.outputs[0]),
        sums_(call.outputs[1]),
        device_(out_.device()),
        is_float32_(out_.dtype() == DType::Float32) {}

  bool is_taken() const {
    const Tensor &q = call_.inputs[0], &k = call_.inputs[1];
    const bool is_known =
        is_float32_ || out_.dtype() == DType::Float16 || out_.dtype() == DType::BFloat16;
    return is_known && out_.numel() > 0 && k.size(2) > 0 && q.size(3) > 0 &&
           std::max(q.size(3), out_.size(3)) <= kMostFeatures;
  }

  void run() {
    AttentionArguments args = arguments();
    const int64_t blocks = args.blocks * args.matrices;
    const int64_t processors = cuda_driver(device_).processors(device_.index);
    args.keys_of_part = keys_of_part(blocks, args.keys, processors);
    const int64_t parts = ceil_div(args.keys, args.keys_of_part);
    if (parts == 1) return launch(args, blocks, out_, sums_, type());
    const Tensor of_parts = Tensor::empty(Dims{parts, out_.numel()}, DType::Float32, device_);
    const Tensor part_sums = Tensor::empty(Dims{parts, sums_.numel()}, DType::Float32, device_);
    launch(args, parts * blocks, of_parts, part_sums,
           std::string(whole_element_of(DType::Float32)));
    join(of_parts, part_sums);
  }

 private:
  // Float32 stays float32 here, whatever is allowed.
  std::string type() const {
    return is_float32_ ? "Float32" : std::string(element_of(out_.dtype()));
  }

  AttentionArguments arguments() {
    query_ = readable(call_.inputs[0]);
    key_ = readable(call_.inputs[1]);
    value_ = readable(call_.inputs[2]);
    mask_ = call_.inputs[3];
    if (mask_.rank() > 0 && !is_bool(mask_.dtype()) && mask_.dtype() != query_.dtype())
      mask_ = gpu::converted(mask_, DType::Float32);
    AttrReader read(call_.attrs);
    AttentionArguments args{};
    args.is_causal = read.flag();
    args.scale = static_cast<float>(read.real());
    args.queries = query_.size(2);
    args.keys = key_.size(2);
    args.heads = query_.size(1);
    args.of_group = query_.size(1) / key_.size(1);
    args.blocks = ceil_div(args.queries, kAttentionQueries);
    args.matrices = query_.size(0) * query_.size(1);
    args.features = static_cast<int>(query_.size(3));
    args.width = static_cast<int>(value_.size(3));
    args.query_first = gpu::first_element(query_);
    args.key_first = gpu::first_element(key_);
    args.value_first = gpu::first_element(value_);
    for (size_t d = 0; d < 3; ++d) {
      args.query_step[d] = query_.stride(d);
      args.key_step[d] = key_.stride(d);
      args.value_step[d] = value_.stride(d);
    }
    if (mask_.rank() > 0) {
      args.mask_first = gpu::first_element(mask_);
      const Dims scores{query_.size(0), args.heads, args.queries, args.keys};
      const Dims steps = broadcast_strides(mask_.shape(), mask_.strides(), scores);
      std::ranges::copy(steps, args.mask_step);
    }
    return args;
  }

  std::string mask_text() const {
    std::string_view kind = "kNone", type = "UInt8";
    if (mask_.rank() > 0) {
      kind = is_bool(mask_.dtype()) ? "kAllowed" : "kAdded";
      if (!is_bool(mask_.dtype())) type = mask_.dtype() == DType::Float32 ? "Float32" : "T";
    }
    return "using Masks = " + std::string(type) +
           ";\nconstexpr MaskKind kMask = " + std::string(kind) + ";\n";
  }

  void launch(AttentionArguments& args, int64_t blocks, const Tensor& to, const Tensor& sums,
              const std::string& result) const {
    const int64_t head = std::max(args.features, args.width) <= 64 ? 64 : 128;
    args.out_first = gpu::first_element(to);
    args.sums_first = gpu::first_element(sums);
    const int together = is_float32_ ? 4 : 2;  // features that a thread has side by side
    args.packs = args.width % together == 0 && args.out_first % together == 0;
    const std::string variant = "using T = " + type() + ";\nusing Result = " + result +
                                ";\nconstexpr int kHead = " + std::to_string(head) + ";\n" +
                                mask_text();
    const Tensor& mask = mask_.rank() > 0 ? mask_ : query_;
    const Buffer* const memory[] = {&query_.storage().buffer, &key_.storage().buffer,
                                    &value_.storage().buffer, &mask.storage().buffer,
                                    &to.storage().buffer,     &sums.storage().buffer};
    cuda_driver(device_).launch_blocks(
        hand_kernel(device_, "attention.cu", variant), device_.index,
        {blocks, kAttentionThreads, shared_bytes(static_cast<size_t>(head))}, memory, &args);
  }

  // Queries, keys and values; weights of float32.
  size_t shared_bytes(size_t head) const {
    constexpr size_t kQueries = kAttentionQueries, kWeights = kQueries * kWeightPitch;
    return is_float32_ ? ((kQueries + 2 * kAttentionFloatKeys) * head + kWeights) * sizeof(float)
                       : (kQueries + 2 * kAttentionKeys) * head * 2;
  }

  void join(const Tensor& of_parts, const Tensor& part_sums) const {
    AttentionPartsArguments args{};
    args.rows = sums_.numel();
    args.parts = of_parts.size(0);
    args.parts_first = gpu::first_element(of_parts);
    args.part_sums_first = gpu::first_element(part_sums);
    args.out_first = gpu::first_element(out_);
    args.sums_first = gpu::first_element(sums_);
    args.width = static_cast<int>(out_.size(3));
    const Buffer* const memory[] = {&of_parts.storage().buffer, &part_sums.storage().buffer,
                                    &out_.storage().buffer, &sums_.storage().buffer};
    cuda_driver(device_).launch_blocks(
        hand_kernel(device_, "attention_parts.cu", "using Result = " + type() + ";\n"),
        device_.index, {ceil_div(out_.numel(), kAttentionThreads), kAttentionThreads, 0}, memory,
        &args);
  }

  const KernelCall& call_;
  const Tensor &out_, &sums_;
  const Device device_;
  const bool is_float32_;
  Tensor query_, key_, value_, mask_;
};

}  // namespace

void run_attention(const KernelCall& call) {
  Attention attention(call);
  attention.is_taken() ? attention.run() : gpu::run_attention(call);
}

}  // namespace tinyt::cuda
