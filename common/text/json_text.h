// JSON as text, for programs and for people at a terminal: the one writer of documents that have a fixed shape
// (client/terminal/listing.h for lists and client/terminal/record_json.h for one object build on it). Members come out
// in the order in which they are added, so the text is always the same. Control sequences and invisible characters are
// escaped. Pure.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::common {

// A JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);
// JSON as written by another library: invisible characters become \uXXXX.
std::string EscapeHiddenJson(std::string_view json);

// A value that is already JSON.
struct JsonText {
  std::string text;
};
inline JsonText JsonNull() { return {"null"}; }

inline void AppendJson(const JsonText& json, std::string* out) { *out += json.text; }
void AppendJson(std::string_view text, std::string* out);
inline void AppendJson(const std::string& text, std::string* out) {
  AppendJson(std::string_view(text), out);
}
inline void AppendJson(const char* text, std::string* out) {
  AppendJson(std::string_view(text), out);
}
// Without the text: null.
void AppendJson(const std::optional<std::string>& text, std::string* out);
// The shortest number that reads back the same; values that are not finite are strings.
void AppendJson(double number, std::string* out);
void AppendJson(std::integral auto number, std::string* out) {
  if constexpr (std::same_as<decltype(number), bool>) {
    *out += number ? "true" : "false";
  } else {
    char digits[24];
    out->append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  }
}
template <typename T>
JsonText ToJson(const T& value) {
  JsonText json;
  AppendJson(value, &json.text);
  return json;
}

// {"name": value, …} on one line.
class JsonObject {
 public:
  enum class Style { kSpaced, kCompact };  // compact: without spaces
  explicit JsonObject(Style style = Style::kSpaced) : is_compact_(style == Style::kCompact) {
    text_.reserve(kUsualBytes);
    text_ += '{';
  }
  // The beginning of every document that jobctl prints.
  static JsonObject OfKind(std::string_view kind) {
    return std::move(JsonObject().Add("version", 1).Add("kind", kind));
  }
  // A literal name, which needs no quoting. Documents of a fixed shape are mostly such names and numbers, so a
  // member is assembled before it is appended.
  template <size_t kSize, typename T>
  JsonObject& Add(const char (&name)[kSize], const T& value) {
    char member[kSize + kNumberBytes + 8];
    char* at = member;
    if (text_.size() > 1) at = Put(is_compact_ ? "," : ", ", at);
    *at++ = '"';
    at = std::copy(name, name + kSize - 1, at);
    at = Put(is_compact_ ? "\":" : "\": ", at);
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      at = std::to_chars(at, at + kNumberBytes, value).ptr;
      text_.append(member, at);
    } else {
      text_.append(member, at);
      AppendJson(value, &text_);
    }
    return *this;
  }
  template <typename T>
  JsonObject& Add(std::string_view name, const T& value) {
    Name(name, is_compact_ ? "," : ", ");
    AppendJson(value, &text_);
    return *this;
  }
  // The same, on a new line.
  template <typename T>
  JsonObject& AddLine(std::string_view name, const T& value) {
    Name(name, ",\n ");
    AppendJson(value, &text_);
    return *this;
  }
  // Starts with the members of a compact object that another library wrote.
  static JsonObject Extending(std::string object) {
    JsonObject made(Style::kCompact);
    made.text_ = std::move(object);
    made.text_.pop_back();
    return made;
  }
  // The text so far, up to the value of the next member, for a writer that streams this value.
  std::string OpenAt(std::string_view name) const {
    JsonObject opened(*this);
    opened.Name(name, is_compact_ ? "," : ", ");
    return std::move(opened.text_);
  }
  JsonText Done() const { return {text_ + "}"}; }
  std::string Text() const { return Done().text; }
  std::string Line() const {
    std::string line;
    AppendLine(&line);
    return line;
  }
  // For many of them.
  void AppendTo(std::string* out) const { out->append(text_).append("}"); }
  void AppendLine(std::string* out) const { out->append(text_).append("}\n"); }

 private:
  static constexpr size_t kUsualBytes = 160;
  static constexpr size_t kNumberBytes = 24;
  static char* Put(std::string_view text, char* at) {
    return std::copy(text.begin(), text.end(), at);
  }
  void Name(std::string_view name, std::string_view between);

  bool is_compact_;
  std::string text_;
};

// [value, …] on one line, or with `line` ("\n  ") before each value.
class JsonArray {
 public:
  explicit JsonArray(std::string_view line = "") : line_(line) {}
  template <typename T>
  JsonArray& Add(const T& value) {
    if (text_.size() > 1) text_ += line_.empty() ? ", " : ",";
    text_ += line_;
    AppendJson(value, &text_);
    return *this;
  }
  // `end` goes before the closing bracket if there are values.
  JsonText Done(std::string_view end = "") const {
    std::string text = text_;
    if (text_.size() > 1) text += end;
    return {text + "]"};
  }

 private:
  std::string line_;
  std::string text_ = "[";
};

}  // namespace muster::common
