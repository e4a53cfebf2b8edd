// Mean and sum of squared distances from it, of elements taken part by part.
#pragma once

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

template <class T>
struct Moments {
  T count = 0, mean = 0, squares = 0;

  // From the sums of squared distances and of distances from a center near the mean. The latter
  // take back what rounding the center has cost (Chan, Golub and LeVeque, "Algorithms for computing
  // the sample variance", 1983).
  static Moments about(T center, T squares, T distances, T count) {
    const T shift = distances / count, rest = squares - distances * shift;
    return {count, center + shift, rest < 0 ? 0 : rest};
  }

  // Those of both parts together (the same authors).
  friend Moments operator+(const Moments& a, const Moments& b) {
    const T count = a.count + b.count, share = b.count / count, step = b.mean - a.mean;
    const T between = step * step * (a.count * share);
    return {count, a.mean + step * share, a.squares + (b.squares + between)};
  }
};

}  // namespace
}  // namespace tinyt::cpu
