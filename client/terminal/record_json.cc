#include "client/terminal/record_json.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/status.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

std::string YamlOf(const nlohmann::ordered_json& value, int indent);

std::string YamlEntries(const nlohmann::ordered_json& value, int indent) {
  std::string out;
  const std::string pad(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, child] : value.items())
      StrAppend(&out, pad, YamlQuote(key), ":", YamlOf(child, indent));
    return out;
  }
  for (const auto& child : value) {
    if (child.is_structured() && !child.empty()) {
      std::string inner = YamlEntries(child, indent + 2);
      inner[indent] = '-';
      out += inner;
    } else {
      StrAppend(&out, pad, "-", YamlOf(child, indent));
    }
  }
  return out;
}

std::string YamlOf(const nlohmann::ordered_json& value, int indent) {
  if (value.is_structured()) {
    if (value.empty()) return value.is_object() ? " {}\n" : " []\n";
    return "\n" + YamlEntries(value, indent + 2);
  }
  return StrCat(" ", value.is_string() ? YamlQuote(value.get<std::string>()) : value.dump(), "\n");
}

}  // namespace

absl::StatusOr<std::string> YamlOfJson(const std::string& json) {
  const auto parsed = nlohmann::ordered_json::parse(json, nullptr, false);
  if (parsed.is_discarded()) return absl::InternalError("the record cannot be written as YAML");
  return YamlEntries(parsed, 0);
}

std::string WithKind(std::string_view kind, std::string_view json) {
  return StrCat("{\n \"version\": 1,\n \"kind\": ", common::JsonQuote(kind), ",\n",
                json.substr(json.find('\n') + 1));
}

std::string WithMember(std::string json, std::string_view name, std::string member) {
  // Both end with "}\n".
  json.erase(json.rfind('}'));
  while (!json.empty() && json.back() == '\n') json.pop_back();
  member.erase(member.rfind('}') + 1);
  return StrCat(json, ",\n ", common::JsonQuote(name), ": ", member, "\n}\n");
}

absl::StatusOr<std::string> MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return absl::InternalError("the record cannot be written as JSON");
  return common::EscapeHiddenJson(json);
}

RecordFields& RecordFields::Add(std::string_view name, const Value& value) {
  fields_.push_back({std::string(name), {JsonValue(value)}, {}});
  return *this;
}

RecordFields& RecordFields::AddTexts(std::string_view name, const std::vector<std::string>& texts) {
  Field field{.name = std::string(name), .is_list = true};
  for (const std::string& text : texts) field.scalars.push_back(common::JsonQuote(text));
  fields_.push_back(std::move(field));
  return *this;
}

RecordFields& RecordFields::AddNumbers(std::string_view name, const std::vector<int>& numbers) {
  Field field{.name = std::string(name), .is_list = true};
  for (const int number : numbers) field.scalars.push_back(std::to_string(number));
  fields_.push_back(std::move(field));
  return *this;
}

RecordFields& RecordFields::AddList(std::string_view name, std::vector<RecordFields> list) {
  fields_.push_back({std::string(name), {}, std::move(list), true});
  return *this;
}

RecordFields& RecordFields::AddObject(std::string_view name, RecordFields object) {
  fields_.push_back({std::string(name), {}, {std::move(object)}});
  return *this;
}

std::string RecordFields::ValueOf(const Field& field, size_t depth) {
  if (!field.is_list) {
    return field.objects.empty() ? field.scalars[0] : field.objects[0].Json(depth);
  }
  std::string out;
  const std::string pad(depth + 1, ' ');
  for (const std::string& scalar : field.scalars)
    StrAppend(&out, out.empty() ? "" : ",\n", pad, scalar);
  for (const RecordFields& object : field.objects)
    StrAppend(&out, out.empty() ? "" : ",\n", pad, object.Json(depth + 1));
  return out.empty() ? "[]" : StrCat("[\n", out, "\n", std::string(depth, ' '), "]");
}

std::string RecordFields::Json(size_t depth) const {
  std::string out;
  for (const Field& field : fields_) {
    StrAppend(&out, out.empty() ? "" : ",\n", std::string(depth + 1, ' '),
              common::JsonQuote(field.name), ": ", ValueOf(field, depth + 1));
  }
  return StrCat("{\n", out, "\n", std::string(depth, ' '), "}");
}

absl::StatusOr<std::string> RecordText(std::string_view kind, const RecordFields& fields,
                                       std::string_view format) {
  const std::string json = WithKind(kind, fields.Json() + "\n");
  return format == "yaml" ? YamlOfJson(json) : json;
}

absl::StatusOr<std::string> MessageText(std::string_view kind,
                                        const google::protobuf::Message& message,
                                        std::string_view format) {
  ASSIGN_OR_RETURN(const std::string fields, MessageJson(message));
  const std::string json = WithKind(kind, fields);
  return format == "yaml" ? YamlOfJson(json) : json;
}

}  // namespace muster::client
