// Files of named tensors, as python/tinyt/io/safetensors.py reads and writes them.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace tinyt {

struct TensorFile {
  // In the order of their bytes in the file.
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string header;  // its text, with which the same tensors are written again
  std::unordered_map<std::string, size_t> places;  // of tensors, by name

  // Null where there is none.
  const Tensor* find(const std::string& name) const;
  const std::string* find_metadata(std::string_view name) const;
};

// RuntimeError where the file breaks the format's rules; of dtypes it takes those of tinyt. The
// header is checked as a whole before memory is taken, and memory is that of the file.
TensorFile read_tensors(const std::string& path);
// Whole or not at all: beside the path first, then in its place.
void write_tensors(const std::string& path, const TensorFile& file);

}  // namespace tinyt
