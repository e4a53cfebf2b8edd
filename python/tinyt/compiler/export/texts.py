"""The parts of a project that are nearly the same in all of them."""

from __future__ import annotations

MAGIC = 0x3130575459544954  # "TITYTW01"
CANNOT_READ, OTHER_FILE, NOT_WRITTEN, NOT_LOADED = 1001, 1002, 1003, 1004

LOADING = """\
static int loaded;

// CRC-32 as zlib has it.
static uint64_t checksum(const unsigned char* data, size_t n) {{
  uint32_t table[256], sum = 0xffffffffu;
  for (uint32_t i = 0; i < 256; ++i) {{
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
  }}
  for (size_t i = 0; i < n; ++i) sum = sum >> 8 ^ table[(sum ^ data[i]) & 0xff];
  return ~sum & 0xffffffffu;
}}

int {name}_load(const char* path) {{
  FILE* file = fopen(path, "rb");
  if (file == NULL) return {cannot};
  uint64_t head[3];
  loaded = 0;
  size_t whole = fread(head, sizeof head, 1, file);
  whole += fread(weights.bytes, sizeof weights.bytes, 1, file);
  const int more = fgetc(file);
  fclose(file);
  if (whole != 2 || more != EOF || head[0] != {magic} || head[1] != sizeof weights.bytes)
    return {other};
  const uint64_t sum = checksum(weights.bytes, sizeof weights.bytes);
  if (head[2] != (sum | (uint64_t){identity}u << 32)) return {other};
  loaded = 1;
  return 0;
}}
"""

SAVING = """
int {name}_save(const char* path) {{
  if (!loaded) return {not_loaded};
  FILE* file = fopen(path, "wb");
  if (file == NULL) return {not_written};
  const uint64_t sum = checksum(weights.bytes, sizeof weights.bytes);
  const uint64_t number = (uint64_t){identity}u << 32;
  const uint64_t head[3] = {{{magic}, sizeof weights.bytes, sum | number}};
  size_t whole = fwrite(head, sizeof head, 1, file);
  whole += fwrite(weights.bytes, sizeof weights.bytes, 1, file);
  return fclose(file) == 0 && whole == 2 ? 0 : {not_written};
}}
"""

_FLOATS = """\
static int compare_KIND(const char* name, const TYPE* have, const TYPE* want, long n, double more) {
  double largest = 0, scale = 0;
  long other_bits = 0, odd = 0;
  for (long i = 0; i < n; ++i) {
    const double a = VALUE(have[i]), b = VALUE(want[i]);
    other_bits += memcmp(have + i, want + i, sizeof *have) != 0;
    if (a == b || (isnan(a) && isnan(b))) continue;
    odd += isnan(a) || isnan(b) || isinf(a) || isinf(b);
    if (fabs(a - b) > largest) largest = fabs(a - b);
    if (!isinf(b) && fabs(b) > scale) scale = fabs(b);
  }
  printf("%s: %ld elements, %ld with other bits, largest difference %g\\n", name, n, other_bits,
         largest);
  return odd != 0 || !(largest <= NEAR + FAR * scale + more);
}

"""

_HALF = """\
static double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, -24);
  return sign * ldexp(1024 + fraction, exponent - 25);
}

"""

_BFLOAT = """\
static double bfloat_value(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

"""

_BYTES = """\
static int compare_bytes(const char* name, const void* have, const void* want, size_t nbytes,
                         long n) {
  const int differ = nbytes > 0 && memcmp(have, want, nbytes) != 0;
  printf("%s: %ld elements, %s\\n", name, n, differ ? "other bits" : "the same bits");
  return differ;
}

"""

# Of each dtype: the name of the comparison, the type in C, an element as a double, what elements
# may differ by, and by which part of the largest one.
FLOAT_KINDS = {
    "float32": ("single", "float", "(double)", "1e-5", "1e-4", ""),
    "float64": ("double", "double", "", "1e-12", "1e-12", ""),
    "float16": ("half", "uint16_t", "half_value", "1e-3", "4e-3", _HALF),
    "bfloat16": ("bfloat", "uint16_t", "bfloat_value", "1e-2", "3e-2", _BFLOAT),
}


def comparison(dtype: str) -> str:
    """The function that compares elements of a dtype: floats nearly, others by their bits."""
    if dtype not in FLOAT_KINDS:
        return _BYTES
    kind, type_, value, near, far, front = FLOAT_KINDS[dtype]
    text = _FLOATS.replace("KIND", kind).replace("TYPE", type_).replace("VALUE", value)
    return front + text.replace("NEAR", near).replace("FAR", far)


CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project({name}_c C)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -ffp-contract=off and the like keep the bits; memory of the arena changes its type.
# Targets end with _c: some names are CMake's own.
add_library({name}_c STATIC {sources})
set_target_properties({name}_c PROPERTIES OUTPUT_NAME {name} C_STANDARD 99 C_EXTENSIONS OFF)
target_include_directories({name}_c PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_compile_options({name}_c PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math
                       -fno-strict-aliasing)
target_link_libraries({name}_c PUBLIC m)

option({name}_NATIVE "Use all instructions of this machine" ON)
if({name}_NATIVE)
  target_compile_options({name}_c PRIVATE -march=native)
endif()

enable_testing()
add_executable({name}_test {name}_test.c)
set_target_properties({name}_test PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_link_libraries({name}_test PRIVATE {name}_c)
add_test(NAME {name} COMMAND {name}_test{argument})
"""
