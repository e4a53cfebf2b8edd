// Elements of operands: how they lie in memory, what sums are made in, and how these are rounded.
#pragma once

#include "instructions.cuh"

struct Float32 {};  // by multiplications and additions of single numbers

template <class T>
struct Element;

template <>
struct Element<Float32> {
  using Memory = float;
  using Sum = float;
  static __device__ float value(float x) { return x; }
  static __device__ float rounded(float sum) { return sum; }
};
template <>
struct Element<Tfloat32> : Element<Float32> {};
template <>
struct Element<Bfloat16> {
  using Memory = u16;
  using Sum = float;
  static __device__ float value(u16 x) { return from_bfloat16(x); }
  static __device__ u16 rounded(float sum) { return to_bfloat16(sum); }
};
template <>
struct Element<Float16> {
  using Memory = u16;
  using Sum = float;
  static __device__ float value(u16 x) { return from_float16(x); }
  static __device__ u16 rounded(float sum) { return to_float16(sum); }
};
// Sums of bytes wrap as integers do.
template <>
struct Element<Int8> {
  using Memory = signed char;
  using Sum = int;
  static __device__ int value(signed char x) { return x; }
  static __device__ signed char rounded(int sum) { return static_cast<signed char>(sum); }
};
template <>
struct Element<UInt8> {
  using Memory = unsigned char;
  using Sum = int;
  static __device__ int value(unsigned char x) { return x; }
  static __device__ unsigned char rounded(int sum) { return static_cast<unsigned char>(sum); }
};
// Sums as they are, where another kernel adds these up or nobody rounds them.
template <class S>
struct Whole {};
template <class S>
struct Element<Whole<S>> {
  using Memory = S;
  static __device__ S value(S x) { return x; }
  static __device__ S rounded(S sum) { return sum; }
};
