#include "coordinator/http/api/query.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator::http {
namespace {

using common::StrAppend;
using common::StrCat;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status BadParameter(std::string_view name, std::string why, std::string fix) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1316",
       .what = StrCat("the parameter ", common::Printable(name), " cannot be used"),
       .why = std::move(why),
       .fix = std::move(fix)});
}

const FieldDescriptor* FieldNamed(const Descriptor& type, const std::string& name) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  return field != nullptr ? field : type.FindFieldByCamelcaseName(name);
}

absl::Status UnknownParameter(std::string_view whole, const Descriptor& type,
                              const std::string& name) {
  std::vector<std::string_view> known;
  for (int at = 0; at < type.field_count(); ++at) known.push_back(type.field(at)->json_name());
  const std::string_view nearest = common::Nearest(name, known);
  std::string list;
  for (const std::string_view each : known) StrAppend(&list, list.empty() ? "" : ", ", each);
  return BadParameter(
      whole, StrCat(type.name(), " has no ", common::Printable(name)),
      nearest.empty() ? StrCat("it has: ", list) : StrCat("did you mean ", nearest, "?"));
}

template <typename Number>
std::optional<Number> NumberOf(const std::string& text) {
  Number number{};
  return absl::SimpleAtoi(text, &number) ? std::optional<Number>(number) : std::nullopt;
}

// Sets or, for a repeated field, adds.
#define MUSTER_PUT(Type, value)                                         \
  (field->is_repeated() ? reflection->Add##Type(&message, field, value) \
                        : reflection->Set##Type(&message, field, value))

bool PutNumber(Message& message, const FieldDescriptor* field, const std::string& text) {
  const Reflection* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (const auto number = NumberOf<int32_t>(text)) return MUSTER_PUT(Int32, *number), true;
      return false;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (const auto number = NumberOf<uint32_t>(text)) return MUSTER_PUT(UInt32, *number), true;
      return false;
    case FieldDescriptor::CPPTYPE_INT64:
      if (const auto number = NumberOf<int64_t>(text)) return MUSTER_PUT(Int64, *number), true;
      return false;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (const auto number = NumberOf<uint64_t>(text)) return MUSTER_PUT(UInt64, *number), true;
      return false;
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number = 0;
      if (!absl::SimpleAtod(text, &number)) return false;
      return MUSTER_PUT(Double, number), true;
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      float number = 0;
      if (!absl::SimpleAtof(text, &number)) return false;
      return MUSTER_PUT(Float, number), true;
    }
    default:
      return false;
  }
}

bool PutBool(Message& message, const FieldDescriptor* field, const std::string& text) {
  const Reflection* reflection = message.GetReflection();
  if (text != "true" && text != "false") return false;
  return MUSTER_PUT(Bool, text == "true"), true;
}

bool PutEnum(Message& message, const FieldDescriptor* field, const std::string& text) {
  const Reflection* reflection = message.GetReflection();
  const EnumValueDescriptor* value = field->enum_type()->FindValueByName(text);
  if (value == nullptr) return false;
  return MUSTER_PUT(Enum, value), true;
}
#undef MUSTER_PUT

std::string WordsOfEnum(const EnumDescriptor& type) {
  std::string words;
  for (int at = 0; at < type.value_count(); ++at)
    StrAppend(&words, at == 0 ? "" : ", ", type.value(at)->name());
  return words;
}

absl::Status PutValue(Message& message, const FieldDescriptor* field, std::string_view whole,
                      const std::string& text) {
  const Reflection* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (field->type() == FieldDescriptor::TYPE_BYTES) break;
      field->is_repeated() ? reflection->AddString(&message, field, text)
                           : reflection->SetString(&message, field, text);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL:
      if (PutBool(message, field, text)) return absl::OkStatus();
      return BadParameter(whole, "it is not true or false", "write true or false");
    case FieldDescriptor::CPPTYPE_ENUM:
      if (PutEnum(message, field, text)) return absl::OkStatus();
      return BadParameter(whole, "it is not one of the known words",
                          StrCat("one of: ", WordsOfEnum(*field->enum_type())));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
    default:
      if (PutNumber(message, field, text)) return absl::OkStatus();
      return BadParameter(whole, StrCat("it is not a number of type ", field->type_name()),
                          "write a number in its range");
  }
  return BadParameter(whole, "no query can express it", "send a POST with a JSON body");
}

absl::Status PutParameter(Message& message, std::string_view whole, std::string_view path,
                          const std::string& value) {
  const size_t dot = path.find('.');
  const std::string name(path.substr(0, dot));
  const FieldDescriptor* field = FieldNamed(*message.GetDescriptor(), name);
  if (field == nullptr) return UnknownParameter(whole, *message.GetDescriptor(), name);
  if (dot == std::string_view::npos) {
    const bool is_taken = !field->is_repeated() &&
                          field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
                          message.GetReflection()->HasField(message, field);
    if (is_taken) return BadParameter(whole, "it is given twice", "give it once");
    return PutValue(message, field, whole, value);
  }
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) {
    return BadParameter(whole, StrCat(name, " has no parts that a query can name"),
                        "send a POST with a JSON body");
  }
  return PutParameter(*message.GetReflection()->MutableMessage(&message, field), whole,
                      path.substr(dot + 1), value);
}

}  // namespace

absl::Status FillFromQuery(const Query& query, Message& message) {
  for (const auto& [name, value] : query) {
    RETURN_IF_ERROR(PutParameter(message, name, name, value));
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator::http
