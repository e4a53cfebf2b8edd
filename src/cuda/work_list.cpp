#include "cuda/work_list.h"

#include <algorithm>
#include <cstring>

namespace tinyt::cuda {

namespace {

constexpr size_t kWord = sizeof(uint64_t);

bool has_form(const WorkList::Item& a, const WorkList::Item& b) {
  return a.kind == b.kind && a.function == b.function && a.addresses == b.addresses &&
         a.bytes == b.bytes;
}

}  // namespace

ArgumentPointers pointers_to(Address* addresses, size_t count, const void* structure) {
  ArgumentPointers pointers;
  for (size_t i = 0; i < count; ++i) pointers.push_back(&addresses[i]);
  pointers.push_back(const_cast<void*>(structure));  // which is not written to
  return pointers;
}

void WorkList::add(const Item& item) {
  items_.push_back(item);
  for (const uint64_t part : {static_cast<uint64_t>(item.kind), static_cast<uint64_t>(item.bytes),
                              static_cast<uint64_t>(reinterpret_cast<uintptr_t>(item.function))}) {
    form_ = (form_ ^ part) * 0x9E3779B97F4A7C15;
    form_ ^= form_ >> 32;
  }
}

void WorkList::add_kernel(Function function, const LaunchShape& shape,
                          std::span<const Address> addresses, const void* structure, size_t bytes) {
  const size_t first = words_.size();
  words_.insert(words_.end(), addresses.begin(), addresses.end());
  words_.resize(words_.size() + (bytes + kWord - 1) / kWord);
  if (bytes > 0) std::memcpy(&words_[first + addresses.size()], structure, bytes);
  add({.kind = Kind::Kernel,
       .addresses = static_cast<uint32_t>(addresses.size()),
       .first = first,
       .function = function,
       .shape = shape,
       .bytes = bytes});
}

void WorkList::add_copy(Address to, Address from, size_t bytes) {
  add({.kind = Kind::Copy, .to = to, .from = from, .bytes = bytes});
}

void WorkList::add_fill(Address to, size_t bytes, uint8_t value) {
  add({.kind = Kind::Fill, .value = value, .to = to, .bytes = bytes});
}

void WorkList::clear() {
  items_.clear();
  words_.clear();
  form_ = 0;
}

ArgumentPointers WorkList::arguments(const Item& kernel) {
  uint64_t* const first = words_.data() + kernel.first;
  return pointers_to(first, kernel.addresses, first + kernel.addresses);
}

bool WorkList::has_address(Address address) const {
  return std::ranges::any_of(items_, [&](const Item& item) {
    const auto first = words_.begin() + static_cast<ptrdiff_t>(item.first);
    return item.kind == Kind::Kernel &&
           std::find(first, first + item.addresses, address) != first + item.addresses;
  });
}

std::vector<size_t> WorkList::words_in(int64_t first, int64_t count) const {
  std::vector<size_t> found;
  for (const Item& item : items_) {
    if (item.kind != Kind::Kernel) continue;
    const size_t begin = item.first + item.addresses;
    for (size_t i = begin; i < begin + (item.bytes + kWord - 1) / kWord; ++i)
      if (words_[i] - static_cast<uint64_t>(first) < static_cast<uint64_t>(count))
        found.push_back(i);
  }
  return found;
}

bool WorkList::has_form_of(const WorkList& other) const {
  return form_ == other.form_ && std::ranges::equal(items_, other.items_, has_form);
}

bool WorkList::is_same(size_t i, const WorkList& other) const {
  const Item &a = items_[i], &b = other.items_[i];
  if (a.kind != Kind::Kernel) return a.to == b.to && a.from == b.from && a.value == b.value;
  const size_t words = a.addresses + (a.bytes + kWord - 1) / kWord;
  return a.shape == b.shape &&
         std::equal(&words_[a.first], &words_[a.first] + words, other.words_.data() + b.first);
}

}  // namespace tinyt::cuda
