// Reads nlohmann's tree of hostile JSON: what is missing or of another kind becomes a FormatError that names its place. No torch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace muster {

class JsonReader {
 public:
  using Json = nlohmann::json;

  // Of parse and of all that is read from its tree.
  explicit JsonReader(std::string where) : where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& rule) const;

  Json parse(std::string_view text) const;

  // The member; null if it is missing or null.
  const Json* find(const Json& object, const char* key) const;
  const Json& at(const Json& object, const char* key) const;
  const Json& array(const Json& object, const char* key) const;
  const Json& object(const Json& parent, const char* key) const;

  // `what`: for the message.
  const std::string& text(const Json& value, const char* what) const;
  bool boolean(const Json& value, const char* what) const;
  int64_t integer(const Json& value, const char* what) const;
  // torch writes the numbers that JSON lacks as texts.
  double real(const Json& value, const char* what) const;

  const std::string& text_at(const Json& object, const char* key) const;
  bool boolean_at(const Json& object, const char* key) const;
  int64_t integer_at(const Json& object, const char* key) const;

 private:
  std::string where_;
};

}  // namespace muster
