"""The parts of a project that are nearly the same in all of them."""

from __future__ import annotations

MAGIC = 0x3130575459544954  # "TITYTW01"
CANNOT_READ, OTHER_FILE, NOT_WRITTEN = 1001, 1002, 1003

LOADING = """\
// CRC-32 as zlib has it.
static uint32_t checksum(const unsigned char* data, size_t n) {{
  uint32_t table[256], sum = 0xffffffffu;
  for (uint32_t i = 0; i < 256; ++i) {{
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
  }}
  for (size_t i = 0; i < n; ++i) sum = sum >> 8 ^ table[(sum ^ data[i]) & 0xff];
  return ~sum;
}}

int {name}_load(const char* path) {{
  FILE* file = fopen(path, "rb");
  if (file == NULL) return {cannot};
  uint64_t head[3];
  size_t whole = fread(head, sizeof head, 1, file);
  whole += fread(weights.bytes, sizeof weights.bytes, 1, file);
  const int more = fgetc(file);
  fclose(file);
  if (whole != 2 || more != EOF || head[0] != {magic} || head[1] != sizeof weights.bytes)
    return {other};
  return checksum(weights.bytes, sizeof weights.bytes) == head[2] ? 0 : {other};
}}
"""

SAVING = """
int {name}_save(const char* path) {{
  FILE* file = fopen(path, "wb");
  if (file == NULL) return {not_written};
  const uint64_t sum = checksum(weights.bytes, sizeof weights.bytes);
  const uint64_t head[3] = {{{magic}, sizeof weights.bytes, sum}};
  size_t whole = fwrite(head, sizeof head, 1, file);
  whole += fwrite(weights.bytes, sizeof weights.bytes, 1, file);
  return fclose(file) == 0 && whole == 2 ? 0 : {not_written};
}}
"""

COMPARE = """\
static int compare_single(const char* name, const float* have, const float* want, long n,
                          double more) {
  double largest = 0, scale = 0;
  long other_bits = 0;
  for (long i = 0; i < n; ++i) {
    other_bits += memcmp(have + i, want + i, sizeof *have) != 0;
    if (isnan(want[i]) && isnan(have[i])) continue;
    if (have[i] == want[i]) continue;
    const double difference = fabs((double)have[i] - (double)want[i]);
    if (!(difference <= largest)) largest = difference;
    if (fabs((double)want[i]) > scale) scale = fabs((double)want[i]);
  }
  printf("%s: %ld elements, %ld with other bits, largest difference %g\\n", name, n, other_bits,
         largest);
  return !(largest <= 1e-5 + 1e-4 * scale + more);
}

static int compare_double(const char* name, const double* have, const double* want, long n,
                          double more) {
  double largest = 0, scale = 0;
  long other_bits = 0;
  for (long i = 0; i < n; ++i) {
    other_bits += memcmp(have + i, want + i, sizeof *have) != 0;
    if (isnan(want[i]) && isnan(have[i])) continue;
    if (have[i] == want[i]) continue;
    const double difference = fabs(have[i] - want[i]);
    if (!(difference <= largest)) largest = difference;
    if (fabs(want[i]) > scale) scale = fabs(want[i]);
  }
  printf("%s: %ld elements, %ld with other bits, largest difference %g\\n", name, n, other_bits,
         largest);
  return !(largest <= 1e-12 + 1e-12 * scale + more);
}

static int compare_bytes(const char* name, const void* have, const void* want, size_t nbytes,
                         long n) {
  const int differ = nbytes > 0 && memcmp(have, want, nbytes) != 0;
  printf("%s: %ld elements, %s\\n", name, n, differ ? "other bits" : "the same bits");
  return differ;
}
"""

CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project({name} C)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -ffp-contract=off and the like keep the bits; memory of the arena changes its type.
add_library({name} STATIC {sources})
set_target_properties({name} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_compile_options({name} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math
                       -fno-strict-aliasing)
target_link_libraries({name} PUBLIC m)

option({name}_NATIVE "Use all instructions of this machine" ON)
if({name}_NATIVE)
  target_compile_options({name} PRIVATE -march=native)
endif()

enable_testing()
add_executable({name}_test {name}_test.c)
set_target_properties({name}_test PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_link_libraries({name}_test PRIVATE {name})
add_test(NAME {name} COMMAND {name}_test{argument})
"""
