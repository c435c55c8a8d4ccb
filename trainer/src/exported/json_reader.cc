#include "exported/json_reader.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/errors.h"

namespace muster {

using Json = nlohmann::json;

void JsonReader::fail(const std::string& rule) const { throw FormatError(where_ + ": " + rule); }

Json JsonReader::parse(std::string_view text) const {
  Json tree = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (tree.is_discarded()) fail("it is not JSON");
  return tree;
}

const Json* JsonReader::find(const Json& object, const char* key) const {
  if (!object.is_object()) fail(std::string("an object with '") + key + "' is missing");
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonReader::at(const Json& object, const char* key) const {
  const Json* found = find(object, key);
  if (found == nullptr) fail(std::string("'") + key + "' is missing");
  return *found;
}

const Json& JsonReader::array(const Json& object, const char* key) const {
  const Json& value = at(object, key);
  if (!value.is_array()) fail(std::string("'") + key + "' is not a list");
  return value;
}

const Json& JsonReader::object(const Json& parent, const char* key) const {
  const Json& value = at(parent, key);
  if (!value.is_object()) fail(std::string("'") + key + "' is not an object");
  return value;
}

const std::string& JsonReader::text(const Json& value, const char* what) const {
  if (!value.is_string()) fail(std::string(what) + " is not a text");
  return value.get_ref<const std::string&>();
}

bool JsonReader::boolean(const Json& value, const char* what) const {
  if (!value.is_boolean()) fail(std::string(what) + " is not true or false");
  return value.get<bool>();
}

int64_t JsonReader::integer(const Json& value, const char* what) const {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) fail(std::string(what) + " is not a whole number of 64 bits");
  return value.get<int64_t>();
}

double JsonReader::real(const Json& value, const char* what) const {
  if (value.is_number()) return value.get<double>();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fail(std::string(what) + " is not a number");
}

const std::string& JsonReader::text_at(const Json& object, const char* key) const {
  return text(at(object, key), key);
}
bool JsonReader::boolean_at(const Json& object, const char* key) const {
  return boolean(at(object, key), key);
}
int64_t JsonReader::integer_at(const Json& object, const char* key) const {
  return integer(at(object, key), key);
}

}  // namespace muster
