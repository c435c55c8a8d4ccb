// JSON as text, for programs and for people at a terminal: the one writer of documents that have a
// fixed shape (lists: client/listing.h, one thing: client/record_json.h, which stand on it). Members
// come out in the order in which they are added, so the text is the same at every time. Control
// sequences and invisible characters are escaped. Pure.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::common {

// A JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);
// JSON as written by another library: invisible characters become \uXXXX.
std::string EscapeHiddenJson(std::string_view json);

// A value that is JSON already.
struct JsonText {
  std::string text;
};
inline JsonText JsonNull() { return {"null"}; }
inline JsonText ToJson(JsonText json) { return json; }
inline JsonText ToJson(std::string_view text) { return {JsonQuote(text)}; }
inline JsonText ToJson(const std::string& text) { return {JsonQuote(text)}; }
inline JsonText ToJson(const char* text) { return {JsonQuote(text)}; }
// Without the text: null.
JsonText ToJson(const std::optional<std::string>& text);
// The shortest number that reads back the same; what is not finite is a string.
JsonText ToJson(double number);
JsonText ToJson(std::integral auto number) {
  if constexpr (std::same_as<decltype(number), bool>) {
    return {number ? "true" : "false"};
  } else {
    return {std::to_string(number)};
  }
}

// {"name": value, …} on one line.
class JsonObject {
 public:
  enum class Style { kSpaced, kCompact };  // compact: without blanks
  explicit JsonObject(Style style = Style::kSpaced) : is_compact_(style == Style::kCompact) {}
  // What every document of jobctl begins with.
  static JsonObject OfKind(std::string_view kind) {
    return std::move(JsonObject().Add("version", 1).Add("kind", kind));
  }
  template <typename T>
  JsonObject& Add(std::string_view name, const T& value) {
    return AddText(name, ToJson(value).text);
  }
  // With the members of an object that another library wrote, compact, first.
  static JsonObject Extending(std::string object) {
    JsonObject made(Style::kCompact);
    made.text_ = std::move(object);
    made.text_.pop_back();
    return made;
  }
  // The same, on a new line.
  template <typename T>
  JsonObject& AddLine(std::string_view name, const T& value) {
    return AddText(name, ToJson(value).text, ",\n ");
  }
  // After what was added so far, for a writer that streams the value that comes next.
  std::string OpenAt(std::string_view name) const {
    return JsonObject(*this).AddText(name, "").text_;
  }
  JsonText Done() const { return {text_ + "}"}; }
  std::string Text() const { return Done().text; }
  std::string Line() const { return Done().text + "\n"; }

 private:
  JsonObject& AddText(std::string_view name, std::string_view json) {
    return AddText(name, json, is_compact_ ? "," : ", ");
  }
  JsonObject& AddText(std::string_view name, std::string_view json, std::string_view between);

  bool is_compact_;
  std::string text_ = "{";
};

// [value, …] on one line, or with `line` ("\n  ") before each value.
class JsonArray {
 public:
  explicit JsonArray(std::string_view line = "") : line_(line) {}
  template <typename T>
  JsonArray& Add(const T& value) {
    return AddText(ToJson(value).text);
  }
  // `end` is what precedes the bracket where there are values.
  JsonText Done(std::string_view end = "") const {
    std::string text = text_;
    if (text_.size() > 1) text += end;
    return {text + "]"};
  }

 private:
  JsonArray& AddText(std::string_view json);

  std::string line_;
  std::string text_ = "[";
};

}  // namespace muster::common
