// A language that kernels are printed in: how it spells types, machine operations and what it
// lacks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/ops/scalar_definition.h"

namespace tinyt::gpu {

// Sets of types, as bits.
using Types = uint32_t;
constexpr Types set_of(ScalarType t) { return Types{1} << static_cast<int>(t); }
inline constexpr Types kF32 = set_of(ScalarType::F32), kF64 = set_of(ScalarType::F64),
                       kFloats = kF32 | kF64;
inline constexpr Types kI8 = set_of(ScalarType::I8), kI32 = set_of(ScalarType::I32),
                       kI64 = set_of(ScalarType::I64);
inline constexpr Types kU8 = set_of(ScalarType::U8), kU32 = set_of(ScalarType::U32),
                       kU64 = set_of(ScalarType::U64), kBool = set_of(ScalarType::Bool);
inline constexpr Types kAny = (Types{1} << static_cast<int>(ScalarType::kCount)) - 1;

// How an operation is written: $0, $1, $2 its operands, $T its type, $U the unsigned one of that
// width. The first row that fits holds.
struct Spelling {
  MachineOp op;
  Types to;    // types of its value
  Types from;  // and of its first operand
  std::string_view text;
};

// A function that a source brings where something in it calls it, as those behind it may. In its
// arguments and its body $I and $U are the types of 64-bit integers.
struct Helper {
  std::string_view name;
  ScalarType type;
  std::string_view arguments, body;
};

// Threads that may share memory: those of `kGroupThreads` numbers from a multiple of that on.
inline constexpr int64_t kGroupThreads = 64;

struct Dialect {
  std::string_view name;
  std::string_view begin;                                                 // of every source
  std::string_view types[static_cast<int>(ScalarType::kCount)];           // empty: none such
  std::string_view literal_suffix[static_cast<int>(ScalarType::kCount)];  // behind a number
  // A 64-bit integer whose words are $L and $H, where two hold it; empty: a number.
  std::string_view two_words = "";
  std::string_view infinity[2], nan[2];        // of F32 and F64
  std::string_view memory_types[kDTypeCount];  // of elements in memory; empty: none such

  // Lines: $T a type, $N a name, $E a value, $C a condition, $S a step.
  std::string_view constant = "const $T $N = $E;";
  std::string_view variable = "$T $N = $E;";
  std::string_view array = "$T $N[$E];";
  std::string_view loop = "for ($T $N = $E; $C; $S)";
  std::string_view cast = "($T)$E";
  std::string_view widened = "";   // an integer $E of memory, or a place, as int64; empty: a cast
  std::string_view narrowed = "";  // int64 $E as a narrower integer of type $T; empty: a cast
  std::string_view table;          // a constant table of $C items
  std::string_view unused;         // what names an argument that nothing reads; may be empty

  // A function of a type, with its arguments $A; what stands in front of one that loops which
  // become vectors call; a kernel, which has no type.
  std::string_view function, argument = "$T $N";
  std::string_view inlined = "";
  // Of functions without their rare paths: the argument, of type $T, that says where they are
  // wrong, and the line that sets it where $C is true. Empty: no such functions.
  std::string_view flag = "", raise = "";
  // In front of a loop whose turns do not write what others read.
  std::string_view independent = "";
  std::string_view kernel;
  // A kernel's arguments, of which $I is the number: memory that it reads, memory that it writes,
  // the same where its elements are narrower than words of 32 bits (empty: as any other). `apart`:
  // they stand in front of it, a line each.
  std::string_view reads, writes, writes_parts = "";
  // Elements in memory $N at place $E: how each dtype is read, and set to $V. Empty: as in C.
  std::string_view loads[kDTypeCount] = {}, stores[kDTypeCount] = {};
  std::string_view enter = "";  // the line that a kernel begins with
  // Whole numbers: arrays of them where one thread takes all, else one argument of $C words by
  // value, its declaration in front of the kernel (may be empty), and how word $I of it is read,
  // which is $R of the four in row $Q.
  std::string_view sizes = "", words = "", words_type = "", word = "";
  bool apart = false;
  ScalarType index = ScalarType::I64;  // what counts elements
  // The number of the thread, each of which takes a row, or some elements of one where nothing is
  // reduced; empty: one thread takes all.
  std::string_view thread;
  // Memory of $E items that the threads of a group share, in front of a kernel where `apart`; where
  // all of them wait for each other. Empty: they cannot. A product of floats $A * $B added to $C,
  // rounded once or twice.
  std::string_view shared = "", barrier = "", multiply_add = "";
  // Whether compilers make vectors of the loops of a thread.
  bool vectors = false;
  // Vectors of so many floats as values of the language: their type, one of equal elements $E, from
  // memory $N at $E, $C to memory, and $A * $B + $C rounded once. One: there are none.
  int lanes = 1;
  std::string_view vector = "", splat = "", vector_load = "", vector_store = "", vector_fma = "";
  // The same to memory as halves, each rounded; and of elements of four bytes past the caches,
  // where the place allows it. Empty: there is none.
  std::string_view vector_halves = "", vector_stream = "";

  std::span<const Spelling> spellings, common;      // in this order
  std::span<const Helper> helpers, common_helpers;  // common ones stand in front

  std::string_view type(ScalarType t) const { return types[static_cast<int>(t)]; }
  // Whether kernels compute with values of a dtype, or of its parts.
  bool holds(DType dtype) const { return !type(held_type(real_of(dtype))).empty(); }
  // Words, of the type of indices, that a number takes whose held type has so many bits.
  bool has_wide_words() const { return index == ScalarType::I64; }
};

extern const Dialect kC99, kCuda, kHip, kMetal, kOpenCl, kOpenClGpu;
// With the 64-bit integers of wgpu, or with such in two words; with a fused multiply-add of the
// machine, or with one in float64.
extern const Dialect kWgsl, kWgslDoubleFma, kWgslTwoWords, kWgslTwoWordsDoubleFma;
// ValueError where there is none of that name.
const Dialect& dialect_of(std::string_view name);
std::span<const Dialect* const> dialects();

}  // namespace tinyt::gpu
