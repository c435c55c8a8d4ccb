#include "coordinator/http/api/openapi.h"

#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "common/base/version.h"
#include "common/text/strings.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/api/api_calls.h"

namespace muster::coordinator::http {
namespace {

using Json = nlohmann::ordered_json;
using common::Action;
using common::StrCat;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Messages whose schemas are still to be written, each once.
class SchemaQueue {
 public:
  Json Refer(const Descriptor& type) {
    if (seen_.insert(type.name()).second) waiting_.push_back(&type);
    return {{"$ref", StrCat("#/components/schemas/", type.name())}};
  }
  const Descriptor* Next() {
    if (waiting_.empty()) return nullptr;
    const Descriptor* type = waiting_.back();
    waiting_.pop_back();
    return type;
  }

 private:
  std::set<std::string> seen_;
  std::vector<const Descriptor*> waiting_;
};

Json SchemaOfEnum(const EnumDescriptor& type) {
  Json words = Json::array();
  for (int at = 0; at < type.value_count(); ++at) words.push_back(type.value(at)->name());
  return {{"type", "string"}, {"enum", std::move(words)}};
}

Json WholeNumber(const char* format, bool is_unsigned) {
  Json schema = {{"type", "integer"}, {"format", format}};
  if (is_unsigned) schema["minimum"] = 0;
  return schema;
}

// A value in protobuf's JSON form: 64-bit integers are strings.
Json SchemaOfValue(const FieldDescriptor& field, SchemaQueue& queue) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return WholeNumber("int32", false);
    case FieldDescriptor::CPPTYPE_UINT32:
      return WholeNumber("uint32", true);
    case FieldDescriptor::CPPTYPE_INT64:
      return {{"type", "string"}, {"format", "int64"}, {"pattern", "^-?[0-9]{1,19}$"}};
    case FieldDescriptor::CPPTYPE_UINT64:
      return {{"type", "string"}, {"format", "uint64"}, {"pattern", "^[0-9]{1,20}$"}};
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return {{"oneOf",
               {{{"type", "number"}},
                {{"type", "string"}, {"enum", {"NaN", "Infinity", "-Infinity"}}}}}};
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_ENUM:
      return SchemaOfEnum(*field.enum_type());
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() == FieldDescriptor::TYPE_BYTES)
        return {{"type", "string"}, {"format", "byte"}};
      return {{"type", "string"}};
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return queue.Refer(*field.message_type());
  }
  return Json::object();
}

Json SchemaOfField(const FieldDescriptor& field, SchemaQueue& queue) {
  if (field.is_map()) {
    return {{"type", "object"},
            {"additionalProperties", SchemaOfValue(*field.message_type()->map_value(), queue)}};
  }
  Json value = SchemaOfValue(field, queue);
  if (!field.is_repeated()) return value;
  return {{"type", "array"}, {"items", std::move(value)}};
}

Json SchemaOfMessage(const Descriptor& type, SchemaQueue& queue) {
  Json properties = Json::object();
  for (int at = 0; at < type.field_count(); ++at) {
    properties[type.field(at)->json_name()] = SchemaOfField(*type.field(at), queue);
  }
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

Json ErrorSchema() {
  const Json text = {{"type", "string"}};
  return {{"type", "object"},
          {"required", {"error"}},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", {"what", "status", "grpcStatus"}},
              {"properties",
               {{"code", text},
                {"what", text},
                {"why", text},
                {"fix", text},
                {"status", {{"type", "integer"}}},
                {"grpcStatus", text}}}}}}}};
}

Json JsonContent(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

// Parameters for all fields that one word can express; nested fields need a POST.
Json ParametersOf(const Descriptor& type, SchemaQueue& queue) {
  Json parameters = Json::array();
  for (int at = 0; at < type.field_count(); ++at) {
    const FieldDescriptor& field = *type.field(at);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
        field.type() == FieldDescriptor::TYPE_BYTES) {
      continue;
    }
    parameters.push_back(
        {{"name", field.json_name()}, {"in", "query"}, {"schema", SchemaOfField(field, queue)}});
  }
  return parameters;
}

Json ResponsesOf(const ApiCall& call, SchemaQueue& queue) {
  Json answer = queue.Refer(*call.answer->GetDescriptor());
  if (call.is_stream) {
    answer = {{"type", "object"},
              {"required", {"messages", "more"}},
              {"properties",
               {{"messages", {{"type", "array"}, {"items", std::move(answer)}}},
                {"more", {{"type", "boolean"}}}}}};
  }
  return {{"200", {{"description", "the answer"}, {"content", JsonContent(std::move(answer))}}},
          {"default",
           {{"description", "an error"},
            {"content", JsonContent({{"$ref", "#/components/schemas/Error"}})}}}};
}

Json PathOf(const ApiCall& call, SchemaQueue& queue) {
  const Json responses = ResponsesOf(call, queue);
  const Descriptor& request = *call.request->GetDescriptor();
  Json path = Json::object();
  if (call.row->action == Action::kRead) {
    path["get"] = {{"operationId", StrCat("get", call.row->name)},
                   {"parameters", ParametersOf(request, queue)},
                   {"responses", responses}};
  }
  path["post"] = {
      {"operationId", std::string(call.row->name)},
      {"requestBody", {{"required", true}, {"content", JsonContent(queue.Refer(request))}}},
      {"responses", responses}};
  return path;
}

}  // namespace

std::string OpenApiDocument() {
  SchemaQueue queue;
  Json paths = Json::object();
  for (const ApiCall& call : ApiCalls()) {
    paths[StrCat(kApiRoot, call.row->name)] = PathOf(call, queue);
  }
  Json schemas = {{"Error", ErrorSchema()}};
  while (const Descriptor* type = queue.Next()) {
    schemas[type->name()] = SchemaOfMessage(*type, queue);
  }
  const Json document = {
      {"openapi", "3.0.3"},
      {"info",
       {{"title", "Muster"},
        {"version", common::kVersion},
        {"description", "The calls of JobService (proto/muster/v1) as protobuf JSON."}}},
      {"security", {{{"token", Json::array()}}}},
      {"paths", std::move(paths)},
      {"components",
       {{"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}},
        {"schemas", std::move(schemas)}}}};
  return document.dump(1) + "\n";
}

}  // namespace muster::coordinator::http
