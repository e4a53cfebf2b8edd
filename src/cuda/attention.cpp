// Attention by kernels/attention.cu: which of its variants, and what it is told.
#include <algorithm>
#include <string>

#include "core/base/parallel.h"
#include "cuda/attention.h"
#include "cuda/hand_kernels.h"
#include "cuda/kernels/attention_arguments.h"
#include "cuda/tiles.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"

namespace tinyt::cuda {

bool is_attention_by_hand(const Tensor& query, const Tensor& key, const Tensor& value) {
  const DType dtype = query.dtype();
  constexpr int64_t kMostFeatures = 128;
  return (dtype == DType::Float32 || dtype == DType::Float16 || dtype == DType::BFloat16) &&
         query.numel() > 0 && key.numel() > 0 && value.numel() > 0 &&
         std::max(query.size(3), value.size(3)) <= kMostFeatures;
}

// Float32 stays float32 here, whatever is allowed.
std::string attention_type(DType dtype) {
  return dtype == DType::Float32 ? "Float32" : std::string(element_of(dtype));
}

int attention_room(int64_t features, int64_t width) {
  return std::max(features, width) <= 64 ? 64 : 128;
}

bool is_in_packs(DType dtype, std::initializer_list<int64_t> numbers) {
  const int together = dtype == DType::Float32 ? 4 : 2;  // features that a thread has side by side
  return std::ranges::all_of(numbers, [&](int64_t x) { return x % together == 0; });
}

std::string attention_variant(DType dtype, const std::string& result, int room,
                              const Tensor& mask) {
  std::string kind = "kNone", masks = "UInt8";
  if (mask.rank() > 0) {
    kind = is_bool(mask.dtype()) ? "kAllowed" : "kAdded";
    if (!is_bool(mask.dtype())) masks = mask.dtype() == DType::Float32 ? "Float32" : "T";
  }
  return "using T = " + attention_type(dtype) + ";\nusing Result = " + result +
         ";\nconstexpr int kHead = " + std::to_string(room) + ";\nusing Masks = " + masks +
         ";\nconstexpr MaskKind kMask = " + kind + ";\n";
}

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

Tensor readable_mask(const Tensor& mask, DType dtype) {
  const bool is_read = mask.rank() == 0 || is_bool(mask.dtype()) || mask.dtype() == dtype;
  return is_read ? mask : gpu::converted(mask, DType::Float32);
}

void set_places(const Tensor& x, long long& first, long long (&steps)[3]) {
  first = gpu::first_element(x);
  for (size_t d = 0; d < 3; ++d) steps[d] = x.stride(d);
}

void set_mask(const Tensor& mask, const Tensor& query, const Tensor& key, long long& first,
              long long (&steps)[4]) {
  if (mask.rank() == 0) return;
  first = gpu::first_element(mask);
  const Dims scores{query.size(0), query.size(1), query.size(2), key.size(2)};
  std::ranges::copy(broadcast_strides(mask.shape(), mask.strides(), scores), steps);
}

namespace {

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
        is_float32_(out_.dtype() == DType::Float32),
        mask_(readable_mask(call.inputs[3], out_.dtype())) {}

  void run() {
    AttentionArguments args = arguments();
    const int64_t blocks = args.blocks * args.matrices;
    const int64_t processors = cuda_driver(device_).processors(device_.index);
    args.keys_of_part = keys_of_part(blocks, args.keys, processors);
    const int64_t parts = ceil_div(args.keys, args.keys_of_part);
    if (parts == 1) return launch(args, blocks, out_, sums_, attention_type(out_.dtype()));
    const Tensor of_parts = Tensor::empty(Dims{parts, out_.numel()}, DType::Float32, device_);
    const Tensor part_sums = Tensor::empty(Dims{parts, sums_.numel()}, DType::Float32, device_);
    launch(args, parts * blocks, of_parts, part_sums,
           std::string(whole_element_of(DType::Float32)));
    join(of_parts, part_sums);
  }

 private:
  AttentionArguments arguments() {
    query_ = readable(call_.inputs[0]);
    key_ = readable(call_.inputs[1]);
    value_ = readable(call_.inputs[2]);
    AttrReader read(call_.attrs);
    AttentionArguments args{};
    args.is_causal = read.flag();
    args.scale = static_cast<float>(read.real());
    args.queries = query_.size(2);
    args.keys = key_.size(2);
    args.heads = query_.size(1);
    args.of_group = query_.size(1) / key_.size(1);
    args.blocks = ceil_div(args.queries, kAttentionRows);
    args.matrices = query_.size(0) * query_.size(1);
    args.features = static_cast<int>(query_.size(3));
    args.width = static_cast<int>(value_.size(3));
    set_places(query_, args.query_first, args.query_step);
    set_places(key_, args.key_first, args.key_step);
    set_places(value_, args.value_first, args.value_step);
    set_mask(mask_, query_, key_, args.mask_first, args.mask_step);
    return args;
  }

  void launch(AttentionArguments& args, int64_t blocks, const Tensor& to, const Tensor& sums,
              const std::string& result) const {
    const int head = attention_room(args.features, args.width);
    args.out_first = gpu::first_element(to);
    args.sums_first = gpu::first_element(sums);
    args.packs = is_in_packs(out_.dtype(), {args.width, args.out_first});
    const std::string variant = attention_variant(out_.dtype(), result, head, mask_);
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
    constexpr size_t kQueries = kAttentionRows,
                     kWeights = kQueries * (kAttentionFloatKeys + kWeightGap);
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
        hand_kernel(device_, "attention_parts.cu",
                    "using Result = " + attention_type(out_.dtype()) + ";\n"),
        device_.index, {ceil_div(out_.numel(), kAttentionThreads), kAttentionThreads, 0}, memory,
        &args);
  }

  const KernelCall& call_;
  const Tensor &out_, &sums_;
  const Device device_;
  const bool is_float32_;
  const Tensor mask_;
  Tensor query_, key_, value_;
};

}  // namespace

void run_attention(const KernelCall& call) {
  const Tensor &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  is_attention_by_hand(q, k, v) ? Attention(call).run() : gpu::run_attention(call);
}

}  // namespace tinyt::cuda
