#include "coordinator/core/state/spec_hash.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace muster::coordinator {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendNumber(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendText(std::string_view text, std::string* out) {
  AppendNumber(text.size(), 8, out);
  out->append(text);
}

// Appends the value of a singular field, or value number `at` of a repeated one.
void AppendValue(const Message& message, const FieldDescriptor* field, int at, std::string* out) {
  const Reflection& get = *message.GetReflection();
  const bool repeated = field->is_repeated();
  const auto number = [&](auto value) {
    AppendNumber(static_cast<uint64_t>(static_cast<int64_t>(value)), 8, out);
  };
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return number(repeated ? get.GetRepeatedBool(message, field, at)
                             : get.GetBool(message, field));
    case FieldDescriptor::CPPTYPE_INT32:
      return number(repeated ? get.GetRepeatedInt32(message, field, at)
                             : get.GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return number(repeated ? get.GetRepeatedInt64(message, field, at)
                             : get.GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return number(repeated ? get.GetRepeatedUInt32(message, field, at)
                             : get.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return number(repeated ? get.GetRepeatedUInt64(message, field, at)
                             : get.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return number(repeated ? get.GetRepeatedEnumValue(message, field, at)
                             : get.GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(std::bit_cast<uint64_t>(repeated ? get.GetRepeatedDouble(message, field, at)
                                                     : get.GetDouble(message, field)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return number(std::bit_cast<uint32_t>(repeated ? get.GetRepeatedFloat(message, field, at)
                                                     : get.GetFloat(message, field)));
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendText(repeated ? get.GetRepeatedStringReference(message, field, at, &scratch)
                                 : get.GetStringReference(message, field, &scratch),
                        out);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendText(CanonicalBytes(repeated ? get.GetRepeatedMessage(message, field, at)
                                                : get.GetMessage(message, field)),
                        out);
  }
}

// An environment is most of a spec, so its entries are not copied into messages first.
void AppendTexts(const google::protobuf::Map<std::string, std::string>& map, std::string* out) {
  std::vector<std::pair<std::string_view, std::string_view>> entries(map.begin(), map.end());
  std::sort(entries.begin(), entries.end());
  for (const auto& [key, value] : entries) {
    AppendText(key, out);
    AppendText(value, out);
  }
}

void AppendMap(const Message& message, const FieldDescriptor* field, int size, std::string* out) {
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < size; ++i) {
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, field, i);
    auto& [order, bytes] = entries.emplace_back();
    AppendValue(entry, key, 0, &bytes);
    // Texts are ordered by the bytes behind their length.
    order = key->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? bytes.substr(8) : bytes;
    AppendValue(entry, value, 0, &bytes);
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& [order, bytes] : entries) out->append(bytes);
}

}  // namespace

std::string CanonicalBytes(const Message& message) {
  std::string bytes;
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    AppendNumber(static_cast<uint32_t>(field->number()), 4, &bytes);
    AppendNumber(static_cast<uint64_t>(size), 8, &bytes);
    if (field->is_map()) {
      const auto* spec = google::protobuf::DynamicCastToGenerated<v1::JobSpec>(&message);
      if (spec != nullptr && field->number() == v1::JobSpec::kEnvFieldNumber) {
        AppendTexts(spec->env(), &bytes);
      } else {
        AppendMap(message, field, size, &bytes);
      }
      continue;
    }
    for (int i = 0; i < size; ++i) AppendValue(message, field, i, &bytes);
  }
  return bytes;
}

uint64_t HashBytes(std::string_view bytes) {
  uint64_t hash = 14695981039346656037ull;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ull;
  return hash;
}

uint64_t HashSpec(const v1::JobSpec& spec) { return HashBytes(CanonicalBytes(spec)); }

uint64_t HashSpecAs020(const v1::JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  return HashBytes(bytes);
}

}  // namespace muster::coordinator
