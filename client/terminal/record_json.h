// One object for programs, as JSON or YAML: {"version": 1, "kind": KIND, its fields}. Every command
// that prints one object uses it, as every list uses listing.h. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/command_line/command.h"
#include "client/terminal/listing.h"

namespace google::protobuf {
class Message;
}

namespace muster::client {

inline constexpr Flag kRecordOutputFlag = {"output", 'o', "FORMAT", "json or yaml instead of text",
                                           "json|yaml"};

// The fields of a JSON object, in the order in which they were added.
class RecordFields {
 public:
  RecordFields& Add(std::string_view name, const Value& value);
  RecordFields& AddTexts(std::string_view name, const std::vector<std::string>& texts);
  RecordFields& AddNumbers(std::string_view name, const std::vector<int>& numbers);
  RecordFields& AddList(std::string_view name, std::vector<RecordFields> list);
  RecordFields& AddObject(std::string_view name, RecordFields object);

  // A field per line, indented by `depth` + 1 spaces; without a newline at the end.
  std::string Json(size_t depth = 0) const;

 private:
  struct Field {
    std::string name;
    std::vector<std::string> scalars;  // as JSON
    std::vector<RecordFields> objects;
    bool is_list = false;
  };
  static std::string ValueOf(const Field& field, size_t depth);

  std::vector<Field> fields_;
};

// `format`: json or yaml. Bytes that are not UTF-8 become U+FFFD, invisible characters \uXXXX.
absl::StatusOr<std::string> RecordText(std::string_view kind, const RecordFields& fields,
                                       std::string_view format);
// The fields are those of the message, in protobuf's JSON: 64-bit numbers as strings.
absl::StatusOr<std::string> MessageText(std::string_view kind,
                                        const google::protobuf::Message& message,
                                        std::string_view format);

// The same without version and kind, with a newline at the end.
absl::StatusOr<std::string> MessageJson(const google::protobuf::Message& message);
// Adds an object as one more member to another object, which is not empty; both as above.
std::string WithMember(std::string json, std::string_view name, std::string member);
// A JSON object that starts with "{\n", with version and kind in front of its fields.
std::string WithKind(std::string_view kind, std::string_view json);
absl::StatusOr<std::string> YamlOfJson(const std::string& json);

}  // namespace muster::client
