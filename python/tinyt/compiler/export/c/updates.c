// Rounds to half precision: what an operation gives whose operands are such numbers.
static inline float tt_round_float16(float x) {
  const uint32_t bits = tt_bits_f32(x), size = bits & 0x7FFFFFFFu;
  const uint32_t normal = (size + 0xFFFu + (size >> 13 & 1u)) & ~0x1FFFu;
  // The unit in the last place of numbers near 0.5 is that of half's subnormals.
  const uint32_t subnormal = tt_bits_f32((tt_f32_of_bits(size) + 0.5f) - 0.5f);
  uint32_t rounded = size < (127u - 14u) << 23 ? subnormal : normal;
  rounded = normal >= (127u + 16u) << 23 ? 0x7F800000u : rounded;
  return x != x ? x : tt_f32_of_bits(rounded | (bits & 0x80000000u));
}

static inline float tt_round_bfloat16(float x) {
  const uint32_t bits = tt_bits_f32(x);
  return x != x ? x : tt_f32_of_bits((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

static inline float tt_round_f32(float x) {
  return x;
}

static inline double tt_round_f64(double x) {
  return x;
}

// The gradient that a rule follows, with the decay of the parameter `p` added to it.
static inline T tt_followed_T_R(T g, T p, T decay, int has_decay, int maximize) {
  if (maximize) g = -g;
  return has_decay ? tt_round_R(g + p * decay) : g;
}

static inline T tt_between_T(T x, T y, T w) {
  const T way = y - x;
  return LIBRARY_T(fabs)(w) < (T)0.5 ? x + w * way : y - way * (1 - w);
}

// One step of a counter of steps.
static void tt_count(float* step) {
  *step += 1.0f;
}

// `momentum` may be null; `first`: it begins with this gradient.
static void tt_sgd_step_T_R(T* param, T* momentum, const T* grad, int64_t n, double lr,
                            double keep, double dampening, double weight_decay, int maximize,
                            int nesterov, int first) {
  const T rate = (T)-lr, kept = (T)keep, take = (T)(1 - dampening), decay = (T)weight_decay;
  const int has_decay = weight_decay != 0;
  for (int64_t i = 0; i < n; ++i) {
    const T p = param[i];
    T d = tt_followed_T_R(grad[i], p, decay, has_decay, maximize);
    if (momentum) {
      T v = d;
      if (!first) v = tt_round_R(tt_round_R(momentum[i] * kept) + d * take);
      momentum[i] = v;
      d = nesterov ? tt_round_R(d + v * kept) : v;
    }
    param[i] = tt_round_R(p + d * rate);
  }
}

// `largest` may be null; `decoupled`: the decay acts on the parameter, not on the gradient.
static void tt_adam_step_T_R(T* param, T* mean, T* square, T* largest, const T* grad, int64_t n,
                             const float* step, double lr, double beta1, double beta2, double eps,
                             double weight_decay, int maximize, int decoupled) {
  const double count = *step, factor = 1 - lr * weight_decay;
  const int has_decay = !decoupled && weight_decay != 0, shrinks = decoupled && factor != 1;
  const T shrink = (T)factor, decay = (T)weight_decay, take = (T)(1 - beta1);
  const T keep = (T)beta2, join = (T)(1 - beta2), small = (T)eps;
  const T correction = (T)pow(1 - pow(beta2, count), 0.5);
  const T rate = (T)(-lr / (1 - pow(beta1, count)));
  for (int64_t i = 0; i < n; ++i) {
    const T p = shrinks ? tt_round_R(param[i] * shrink) : param[i];
    const T g = tt_followed_T_R(grad[i], p, decay, has_decay, maximize);
    const T m = tt_round_R(tt_between_T(mean[i], g, take));
    mean[i] = m;
    T v = tt_round_R(tt_round_R(square[i] * keep) + g * join * g);
    square[i] = v;
    if (largest) {
      const T old = largest[i];
      v = old != old || old > v ? old : v;
      largest[i] = v;
    }
    const T root = tt_round_R(tt_round_R(LIBRARY_T(sqrt)(v)) / correction);
    param[i] = tt_round_R(p + m * rate / tt_round_R(root + small));
  }
}

// `mean` and `momentum` may be null.
static void tt_rmsprop_step_T_R(T* param, T* square, T* mean, T* momentum, const T* grad,
                                int64_t n, double lr, double alpha, double eps,
                                double weight_decay, double keep_momentum, int maximize) {
  const T decay = (T)weight_decay, take = (T)(1 - alpha), keep = (T)alpha, small = (T)eps;
  const T kept = (T)keep_momentum, rate = (T)-lr;
  const int has_decay = weight_decay != 0;
  for (int64_t i = 0; i < n; ++i) {
    const T p = param[i];
    const T g = tt_followed_T_R(grad[i], p, decay, has_decay, maximize);
    T v = tt_round_R(tt_round_R(square[i] * keep) + g * take * g);
    square[i] = v;
    if (mean) {
      const T m = tt_round_R(tt_between_T(mean[i], g, take));
      mean[i] = m;
      v = tt_round_R(v + -m * m);
    }
    const T scale = tt_round_R(tt_round_R(LIBRARY_T(sqrt)(v)) + small);
    if (momentum) {
      const T b = tt_round_R(tt_round_R(momentum[i] * kept) + g / scale);
      momentum[i] = b;
      param[i] = tt_round_R(p + b * rate);
    } else {
      param[i] = tt_round_R(p + g * rate / scale);
    }
  }
}

static void tt_adagrad_step_T_R(T* param, T* sum, const T* grad, int64_t n, const float* step,
                                double lr, double lr_decay, double eps, double weight_decay,
                                int maximize) {
  const double count = *step;
  const T decay = (T)weight_decay, small = (T)eps;
  const T rate = (T)-(lr / (1 + (count - 1) * lr_decay));
  const int has_decay = weight_decay != 0;
  for (int64_t i = 0; i < n; ++i) {
    const T p = param[i];
    const T g = tt_followed_T_R(grad[i], p, decay, has_decay, maximize);
    const T v = tt_round_R(sum[i] + g * g);
    sum[i] = v;
    const T scale = tt_round_R(tt_round_R(LIBRARY_T(sqrt)(v)) + small);
    param[i] = tt_round_R(p + g * rate / scale);
  }
}

static void tt_scale_step_T_R(T* x, int64_t n, double factor) {
  const T rate = (T)factor;
  for (int64_t i = 0; i < n; ++i) x[i] = tt_round_R(x[i] * rate);
}
