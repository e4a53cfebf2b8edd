// JSON that nobody is trusted to have written: objects, lists, texts, integers, true, false, null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace tinyt {

// What is wrong with a file is an error of the kind Runtime.
template <class... Parts>
void check_file(bool ok, const Parts&... parts) {
  require(ok, ErrorKind::Runtime, "load: ", parts...);
}

class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Integer, Text, List, Object };

  // RuntimeError where the text is no JSON, a key is twice, or a number is no integer.
  static Json parse(std::string_view text);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  bool is_text() const { return kind_ == Kind::Text; }
  bool is_integer() const { return kind_ == Kind::Integer; }
  bool is_list() const { return kind_ == Kind::List; }
  // Each a RuntimeError where the value is of another kind, or there is no such item.
  bool boolean() const;
  int64_t integer() const;
  const std::string& text() const;
  const std::vector<Json>& items() const;
  const std::vector<std::pair<std::string, Json>>& members() const;
  const Json& operator[](size_t i) const;
  const Json& operator[](std::string_view key) const;
  const Json* find(std::string_view key) const;
  std::vector<int64_t> integers() const;

 private:
  friend class JsonParser;
  Kind kind_ = Kind::Null;
  int64_t integer_ = 0;
  bool is_wide_ = false;  // an integer beyond 64 bits, which nobody may ask for
  std::string text_;
  std::vector<Json> items_;
  std::vector<std::pair<std::string, Json>> members_;
};

}  // namespace tinyt
