#include "c/json.h"

#include <charconv>
#include <unordered_set>

#include "core/base/error.h"

namespace tinyt {

namespace {

constexpr int kMostDepth = 700;  // Python's values are nested 200 deep, each in three levels

}  // namespace

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Json parse() {
    Json out = value(0);
    skip();
    check_here(at_ == text_.size(), "more text");
    return out;
  }

 private:
  void check_here(bool ok, std::string_view what) const {
    check_file(ok, "the JSON has ", what, " at byte ", at_);
  }

  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  char next() {
    skip();
    check_here(at_ < text_.size(), "its end too early");
    return text_[at_];
  }
  bool take(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) { check_here(take(wanted), std::string("no '") + wanted + "'"); }
  bool word(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }

  Json value(int depth) {
    check_here(depth < kMostDepth, "values nested too deep");
    Json out;
    switch (next()) {
      case '{':
        object(out, depth);
        break;
      case '[':
        list(out, depth);
        break;
      case '"':
        out.kind_ = Json::Kind::Text;
        out.text_ = string();
        break;
      default:
        scalar(out);
    }
    return out;
  }

  void object(Json& out, int depth) {
    out.kind_ = Json::Kind::Object;
    ++at_;
    if (take('}')) return;
    std::unordered_set<std::string> keys;
    do {
      check_here(next() == '"', "no key");
      std::string key = string();
      check_here(keys.insert(key).second, "a key twice");
      expect(':');
      out.members_.emplace_back(std::move(key), value(depth + 1));
    } while (take(','));
    expect('}');
  }

  void list(Json& out, int depth) {
    out.kind_ = Json::Kind::List;
    ++at_;
    if (take(']')) return;
    do {
      out.items_.push_back(value(depth + 1));
    } while (take(','));
    expect(']');
  }

  void scalar(Json& out) {
    if (word("null")) return;
    if (word("true") || word("false")) {
      out.kind_ = Json::Kind::Bool;
      out.integer_ = text_[at_ - 2] == 'u';
      return;
    }
    out.kind_ = Json::Kind::Integer;
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(begin, end, out.integer_);
    out.is_wide_ = error == std::errc::result_out_of_range;
    const bool is_float = stop != end && (*stop == '.' || *stop == 'e' || *stop == 'E');
    check_here((error == std::errc() || out.is_wide_) && !is_float, "no integer");
    const char* const digits = begin + (*begin == '-');
    check_here(*digits != '0' || stop - digits == 1, "a number that begins with 0");
    at_ += static_cast<size_t>(stop - begin);
  }

  uint32_t hex() {
    check_here(text_.size() - at_ >= 4, "its end too early");
    uint32_t out = 0;
    const char* const end = text_.data() + at_ + 4;
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, out, 16);
    check_here(error == std::errc() && stop == end, "no escape");
    at_ += 4;
    return out;
  }

  // The escape of a character beyond 16 bits is two of them.
  uint32_t escaped_unit() {
    const uint32_t unit = hex();
    if (unit < 0xD800 || unit > 0xDFFF) return unit;
    check_here(unit < 0xDC00 && word("\\u"), "half a character");
    const uint32_t low = hex();
    check_here(low >= 0xDC00 && low <= 0xDFFF, "half a character");
    return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }

  static void add_utf8(std::string& out, uint32_t c) {
    const auto add = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    const auto tail = [&](int shift) { add(0x80 | ((c >> shift) & 0x3F)); };
    if (c < 0x80) {
      add(c);
    } else if (c < 0x800) {
      add(0xC0 | c >> 6);
      tail(0);
    } else if (c < 0x10000) {
      add(0xE0 | c >> 12);
      tail(6);
      tail(0);
    } else {
      add(0xF0 | c >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string string() {
    std::string out;
    ++at_;
    for (;;) {
      check_here(at_ < text_.size(), "its end too early");
      const char c = text_[at_++];
      if (c == '"') return out;
      check_here(static_cast<unsigned char>(c) >= 0x20, "a control character");
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      check_here(at_ < text_.size(), "its end too early");
      const char kind = text_[at_++];
      constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
      const size_t which = kLetters.find(kind);
      if (which != std::string_view::npos) {
        out.push_back(kMeanings[which]);
      } else {
        check_here(kind == 'u', "no escape");
        add_utf8(out, escaped_unit());
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

namespace {

// Whether a text is UTF-8: no byte out of place, no character in more bytes than it needs, none
// that is half of a pair or beyond the last one.
bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at++]);
    if (first < 0x80) continue;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || text.size() - at < static_cast<size_t>(more)) return false;
    uint32_t c = first & (0x3FU >> more);
    for (int i = 0; i < more; ++i) {
      const auto byte = static_cast<unsigned char>(text[at++]);
      if ((byte & 0xC0) != 0x80) return false;
      c = c << 6 | (byte & 0x3F);
    }
    constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (c < kLeast[more] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return false;
  }
  return true;
}

}  // namespace

Json Json::parse(std::string_view text) {
  check_file(is_utf8(text), "the JSON is not UTF-8");
  return JsonParser(text).parse();
}

bool Json::boolean() const {
  check_file(kind_ == Kind::Bool, "expected true or false in the JSON");
  return integer_ != 0;
}

int64_t Json::integer() const {
  check_file(kind_ == Kind::Integer && !is_wide_, "expected an integer of 64 bits in the JSON");
  return integer_;
}

const std::string& Json::text() const {
  check_file(kind_ == Kind::Text, "expected a text in the JSON");
  return text_;
}

const std::vector<Json>& Json::items() const {
  check_file(kind_ == Kind::List, "expected a list in the JSON");
  return items_;
}

const std::vector<std::pair<std::string, Json>>& Json::members() const {
  check_file(kind_ == Kind::Object, "expected an object in the JSON");
  return members_;
}

const Json& Json::operator[](size_t i) const {
  check_file(i < items().size(), "a list of the JSON is too short");
  return items_[i];
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members())
    if (name == key) return &value;
  return nullptr;
}

const Json& Json::operator[](std::string_view key) const {
  const Json* found = find(key);
  check_file(found != nullptr, "the JSON has no ", key);
  return *found;
}

std::vector<int64_t> Json::integers() const {
  std::vector<int64_t> out;
  for (const Json& item : items()) out.push_back(item.integer());
  return out;
}

}  // namespace tinyt
