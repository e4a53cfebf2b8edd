// Kernels of twin_cases.py, behind src/cuda/kernels/instructions.cuh.

// ---- one instruction of a warp

template <class T, class Sum>
__device__ void product(const u32* a, const u32* b, Sum* sums, int times) {
  u32 rows[4], columns[2];
  Sum own[4];
  for (int i = 0; i < 4; ++i) rows[i] = a[threadIdx.x * 4 + i];
  for (int i = 0; i < 2; ++i) columns[i] = b[threadIdx.x * 2 + i];
  for (int i = 0; i < 4; ++i) own[i] = sums[threadIdx.x * 4 + i];
  for (int i = 0; i < times; ++i) multiply_add(T{}, own, rows, columns);
  for (int i = 0; i < 4; ++i) sums[threadIdx.x * 4 + i] = own[i];
}
extern "C" __global__ void product_Bfloat16(const u32* a, const u32* b, float* sums, int times) {
  product<Bfloat16>(a, b, sums, times);
}
extern "C" __global__ void product_Float16(const u32* a, const u32* b, float* sums, int times) {
  product<Float16>(a, b, sums, times);
}
extern "C" __global__ void product_Tfloat32(const u32* a, const u32* b, float* sums, int times) {
  product<Tfloat32>(a, b, sums, times);
}
extern "C" __global__ void product_Int8(const u32* a, const u32* b, int* sums, int times) {
  product<Int8>(a, b, sums, times);
}
extern "C" __global__ void product_UInt8(const u32* a, const u32* b, int* sums, int times) {
  product<UInt8>(a, b, sums, times);
}

template <bool is_transposed>
__device__ void load(const u32* from, u32* to, int offset) {
  u32* const shared = reinterpret_cast<u32*>(shared_memory());
  for (int i = 0; i < 4; ++i) shared[threadIdx.x * 4 + i] = from[threadIdx.x * 4 + i];
  __syncwarp();
  u32 words[4];
  const unsigned char* const row = shared_memory() + threadIdx.x * 16 + offset;
  if constexpr (is_transposed)
    load_transposed(words, row);
  else
    load_matrices(words, row);
  for (int i = 0; i < 4; ++i) to[threadIdx.x * 4 + i] = words[i];
}
extern "C" __global__ void load_rows(const u32* from, u32* to, int offset) {
  load<false>(from, to, offset);
}
extern "C" __global__ void load_columns(const u32* from, u32* to, int offset) {
  load<true>(from, to, offset);
}

extern "C" __global__ void convert(const float* from, u32* tfloat32, u16* bfloat16, u16* float16,
                                   float* back, int n) {
  for (int i = int(threadIdx.x); i < n; i += 32) {
    tfloat32[i] = to_tfloat32(from[i]);
    bfloat16[i] = to_bfloat16(from[i]);
    float16[i] = to_float16(from[i]);
    back[i] = from_float16(float16[i]);
  }
}

extern "C" __global__ void evaluate(const float* from, float* exponentials, float* logarithms,
                                    int n) {
  for (int i = int(threadIdx.x); i < n; i += 32) {
    exponentials[i] = exp2_near(from[i]);
    logarithms[i] = log2_near(from[i]);
  }
}

// ---- copies

// A word of each thread, by way of shared memory: without a wait, or with one for all of three
// groups but some.
template <int later>
__device__ void copy_words(const u32* from, u32* to, int has_fourth) {
  u32* const shared = reinterpret_cast<u32*>(shared_memory());
  const int t = int(threadIdx.x);
  for (int group = 0; group < 3; ++group) {
    copy_4(shared + group * 32 + t, from + group * 32 + t, t != 5);
    end_copies();
  }
  if (has_fourth) copy_4(shared + 96 + t, from + 96 + t, true);  // of no group
  if constexpr (later != 3) wait_for_copies<later>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) to[i * 32 + t] = shared[i * 32 + t];
}
extern "C" __global__ void copy_unawaited(const u32* from, u32* to, int has_fourth) {
  copy_words<3>(from, to, has_fourth);
}
extern "C" __global__ void copy_but_last(const u32* from, u32* to, int has_fourth) {
  copy_words<1>(from, to, has_fourth);
}
extern "C" __global__ void copy_all(const u32* from, u32* to, int has_fourth) {
  copy_words<0>(from, to, has_fourth);
}

extern "C" __global__ void copy_fewer(const u32* from, u32* to, int has_fourth) {
  copy_words<4>(from, to, has_fourth);
}
// What was there goes when a copy begins.
extern "C" __global__ void copy_over(const u32* from, u32* to, int has_fourth) {
  u32* const own = reinterpret_cast<u32*>(shared_memory()) + threadIdx.x;
  *own = 5;
  copy_4(own, from + threadIdx.x, true);
  end_copies();
  to[threadIdx.x] = *own;
  wait_for_copies<0>();
  to[32 + threadIdx.x] = *own;
}

// Chunks of 16 bytes, thread t at most t % 17 bytes of it; offsets in bytes.
extern "C" __global__ void copy_parts(const unsigned char* from, unsigned char* to, int offset_from,
                                      int offset_to) {
  const int place = int(threadIdx.x) * 16;
  copy_16(shared_memory() + place + offset_to, from + place + offset_from, int(threadIdx.x) % 17);
  end_copies();
  wait_for_copies<0>();
  for (int i = 0; i < 16; ++i) to[place + i] = shared_memory()[place + i];
}

// ---- shared memory

extern "C" __global__ void write_at(u32* to, int place) {
  shared_memory()[place] = 1;
  to[0] = shared_memory()[0];
}
extern "C" __global__ void read_unwritten(u32* to) {
  to[threadIdx.x] = reinterpret_cast<u32*>(shared_memory())[threadIdx.x];
}
// Threads of several warps, blocks in three directions, and launch bounds of two numbers.
extern "C" __global__ void __launch_bounds__((1 << 10), 1) add_blocks(u32* to) {
  __shared__ u32 sum;
  const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) sum = 0;
  __syncthreads();
  const u32 own = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  u32 of_warp = own;
  for (int step = 16; step > 0; step /= 2) of_warp += __shfl_xor_sync(~0u, of_warp, step);
  if (own % warpSize == 0) atomicAdd(&sum, of_warp);
  __syncthreads();
  if (own == 0) to[block] = sum + block;
}

// ---- other operations of warps

extern "C" __global__ void shuffles(const int* from, int* to, double* doubles, int width) {
  const int t = int(threadIdx.x), own = from[t];
  to[t] = __shfl_sync(~0u, own, t * 7, width);
  to[32 + t] = __shfl_up_sync(~0u, own, 3, width);
  to[64 + t] = __shfl_down_sync(~0u, own, 3, width);
  to[96 + t] = __shfl_xor_sync(~0u, own, 5, width);
  to[128 + t] = int(__ballot_sync(~0u, own % 3 == 0));
  to[160 + t] = __any_sync(~0u, own == from[7]) * 2 + __all_sync(~0u, own == from[7]);
  doubles[t] = __shfl_sync(~0u, double(own) / 3, 31 - t);
  if (t < 8) to[192 + t] = __shfl_xor_sync(0xFF, own, 1);
}
extern "C" __global__ void half_a_warp(const int* from, int* to) {
  const int own = from[threadIdx.x];
  if (threadIdx.x < 16) to[threadIdx.x] = __shfl_xor_sync(~0u, own, 1);
}
extern "C" __global__ void two_places(const int* from, int* to) {
  const int own = from[threadIdx.x];
  if (threadIdx.x < 16)
    to[threadIdx.x] = __shfl_xor_sync(~0u, own, 1);
  else
    to[threadIdx.x] = __shfl_xor_sync(~0u, own + 1, 1);
}
extern "C" __global__ void warp_at_no_barrier(int* to) {
  if (threadIdx.x < 32)
    __syncwarp();
  else
    __syncthreads();
  to[threadIdx.x] = 1;
}
// A reader in the same warp, and one in the other, of what others write.
extern "C" __global__ void exchange(int* to, const __grid_constant__ int synchronizes,
                                    int distance) {
  int* const shared = reinterpret_cast<int*>(shared_memory());
  const int t = int(threadIdx.x);
  shared[t] = t;
  if (synchronizes) __syncthreads();
  to[t] = shared[t ^ distance];
}

extern "C" __global__ void numbers(const u32* from, u32* to) {
  const u32 x = from[threadIdx.x], y = from[31 - threadIdx.x];
  const float f = __uint_as_float(x), h = __int_as_float(int(y));
  const int t = int(threadIdx.x);
  u32* const own = to + t * 16;
  own[0] = __umulhi(x, y);
  own[1] = u32(__popc(x));
  own[2] = u32(__ffs(int(x)));
  own[3] = __brev(x);
  own[4] = u32(min(int(x), int(y)));
  own[5] = max(x, y);
  own[6] = u32(__float_as_int(fmaxf(f, h)));
  own[7] = __float_as_uint(fminf(f, h));
  own[8] = __float_as_uint(fabsf(f));
  own[9] = u32(min(i64(x) << 8, i64(y) << 8) >> 8);
  const uint4 four = make_uint4(x, y, __ldg(from), u32(sizeof(float4) + alignof(int4)));
  own[10] = four.x + four.y + four.z + four.w;
  u32 counter = x;
  own[11] = atomicMax(&counter, y);
  own[12] = atomicCAS(&counter, max(x, y), 7u);
  own[13] = atomicExch(&counter, 9u) + counter;
  __threadfence();
  own[14] = __float_as_uint(max(f, h));
  own[15] = __float_as_uint(make_float2(f, h).y);
}

// ---- a tile of 64 x 64 sums: rows of a lie by sums, b by columns; copies run one step ahead

extern "C" __global__ void __launch_bounds__(128, 2)
    multiply(const u16* __restrict__ a, const u16* __restrict__ b, float* __restrict__ c, int depth,
             int columns) {
  constexpr int kStep = 16, kPad = 8, kRowA = kStep + kPad, kRowB = 64 + kPad;
  constexpr int kStage = 64 * kRowA + kStep * kRowB;
  static_assert(kStage * 2 % 16 == 0, "stages of whole chunks");
  u16* const shared = reinterpret_cast<u16*>(shared_memory());
  const int t = int(threadIdx.x), lane = t % 32, warp = t / 32;
  const int first_row = int(blockIdx.y) * 64, first_column = int(blockIdx.x) * 64;
  float sums[8][4] = {};
  const auto fill = [&](int step) {
    u16* const stage = shared + step % 2 * kStage;
    const i64 k = i64(step) * kStep;
    copy_16(stage + t / 2 * kRowA + t % 2 * 8, a + i64(first_row + t / 2) * depth + k + t % 2 * 8,
            16);
    copy_16(stage + 64 * kRowA + t / 8 * kRowB + t % 8 * 8,
            b + (k + t / 8) * columns + first_column + t % 8 * 8, 16);
  };
  fill(0);
  end_copies();
  for (int step = 0; step < depth / kStep; ++step) {
    if (step + 1 < depth / kStep) fill(step + 1);
    end_copies();
    wait_for_copies<1>();
    __syncthreads();
    const u16* const stage = shared + step % 2 * kStage;
    u32 rows[4];
    load_matrices(rows, stage + (warp * 16 + lane % 16) * kRowA + lane / 16 * 8);
    for (int j = 0; j < 8; j += 2) {
      u32 own[4];
      load_transposed(own, stage + 64 * kRowA + lane % 16 * kRowB + (j + lane / 16) * 8);
      multiply_add(Bfloat16{}, sums[j], rows, {own[0], own[1]});
      multiply_add(Bfloat16{}, sums[j + 1], rows, {own[2], own[3]});
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 4; ++i)
      c[i64(first_row + warp * 16 + lane / 4 + i / 2 * 8) * columns + first_column + j * 8 +
        lane % 4 * 2 + i % 2] = sums[j][i];
}
