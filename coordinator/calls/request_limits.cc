#include "coordinator/calls/request_limits.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A sentence, a name, a path, a pattern.
// limit: calls: a text of a request; refused (JC1004), with the field. Fields that differ have rows in that file
constexpr size_t kTextBytes = common::kReasonBytesMax;
// Jobs of a bulk change, so that its answer fits into a message (jobctl splits larger ones); names of metrics.
// limit: calls: entries of a list of a request; refused (JC1004), with the field
constexpr size_t kCount = 2'500;

constexpr std::string_view kBytes = "bytes", kEntries = "entries";

struct Row {
  std::string_view field;  // "SubmitRequest.spec"
  FieldLimit limit;
};

constexpr FieldLimit kChecksItself = {.has_own_check = true};
constexpr FieldLimit Bytes(size_t bytes) { return {.bytes = bytes}; }
constexpr FieldLimit Count(size_t count) { return {.bytes = kTextBytes, .count = count}; }

constexpr FieldLimit AtLeast(int64_t least) { return {.bytes = kTextBytes, .least = least}; }
// The code that uses it takes any value: there it is only compared, clamped or refused.
constexpr FieldLimit kAnyInteger = AtLeast(INT64_MIN);

// Fields that differ from the rule.
constexpr Row kRows[] = {
    // Kept in memory for as long as the job is known.
    {"SubmitRequest.idempotency_key", Bytes(256)},
    {"RerunJobRequest.idempotency_key", Bytes(256)},
    // common/job/validate.h.
    {"SubmitRequest.spec", kChecksItself},
    {"PlanJobRequest.spec", kChecksItself},
    // Up to 50,000 objects: calls/code.cc.
    {"PrepareObjectsRequest.objects", kChecksItself},
    // coordinator/identity/directory.h.
    {"SetSecretRequest.value", kChecksItself},
    {"StreamLogsRequest.ranks", Count(common::kRanksMax)},
    {"StreamLogsRequest.nodes", Count(common::kNodesMax)},
    // A position of each stream of each rank.
    {"StreamLogsRequest.resume", Count(2 * common::kRanksMax)},
    // -1: all of them; -2: the newest.
    {"StreamLogsRequest.attempt", AtLeast(-2)},
    {"QueryMetricsRequest.attempt", AtLeast(-1)},
    // common/job/rules.h.
    {"SetJobsRequest.priority", kAnyInteger},
    {"SetQuotaRequest.max_priority", kAnyInteger},
    {"QueryMetricsRequest.rank", AtLeast(-1)},
    // Clamped: log_merge.cc, samples.cc.
    {"StreamLogsRequest.since_ms", kAnyInteger},
    {"QuerySamplesRequest.since_ms", kAnyInteger},
    // Compared with the existing steps; below 0: the latest.
    {"RerunJobRequest.step", kAnyInteger},
    {"CheckpointReference.step", kAnyInteger},
    {"PullFileRequest.step", kAnyInteger},
    {"QueryCurvesRequest.from_step", kAnyInteger},
    {"QueryCurvesRequest.to_step", kAnyInteger},
    // Refused with a more precise error: core/decide/decide.cc, identity/directory_credentials.cc.
    {"SignalJobRequest.signal", kAnyInteger},
    {"CreateTokenRequest.lives_ms", kAnyInteger},
};

std::string_view WithoutPackage(const FieldDescriptor& field) {
  std::string_view name = field.full_name();
  constexpr std::string_view kPackage = "muster.v1.";
  if (name.starts_with(kPackage)) name.remove_prefix(kPackage.size());
  return name;
}

// `what`: the bytes of a text, the entries of a list.
absl::Status Exceeds(const FieldDescriptor& field, size_t has, std::string_view what, size_t most) {
  return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                             {.code = "JC1004",
                              .what = StrCat("the request's ", field.name(), " has ", has, " ",
                                             what, ", of ", most, " that it may have"),
                              .fix = what == kBytes ? "shorten it" : "name fewer per request"});
}

template <typename Integer>
absl::Status CheckInteger(const FieldDescriptor& field, Integer value, const FieldLimit& limit) {
  if (std::cmp_greater_equal(value, limit.least) && std::cmp_less_equal(value, limit.most))
    return absl::OkStatus();
  return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                             {.code = "JC1004",
                              .what = StrCat("the request's ", field.name(), " is ", value),
                              .why = StrCat("it may be ", limit.least, " to ", limit.most),
                              .fix = "give a number in this range"});
}

absl::Status CheckIntegers(const Message& message, const FieldDescriptor& field,
                           const FieldLimit& limit) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckInteger(field, reflection.GetInt32(message, &field), limit);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckInteger(field, reflection.GetInt64(message, &field), limit);
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckInteger(field, reflection.GetUInt32(message, &field), limit);
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckInteger(field, reflection.GetUInt64(message, &field), limit);
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckValue(const Message& message, const FieldDescriptor& field, int index,
                        size_t most) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return CheckRequestLimits(index < 0 ? reflection.GetMessage(message, &field)
                                        : reflection.GetRepeatedMessage(message, &field, index));
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return absl::OkStatus();
  std::string scratch;
  const size_t bytes =
      (index < 0 ? reflection.GetStringReference(message, &field, &scratch)
                 : reflection.GetRepeatedStringReference(message, &field, index, &scratch))
          .size();
  return bytes > most ? Exceeds(field, bytes, kBytes, most) : absl::OkStatus();
}

absl::Status CheckField(const Message& message, const FieldDescriptor& field) {
  const FieldLimit limit = LimitOf(field);
  if (limit.has_own_check) return absl::OkStatus();
  if (!field.is_repeated()) {
    RETURN_IF_ERROR(CheckIntegers(message, field, limit));
    return CheckValue(message, field, -1, limit.bytes);
  }
  const int count = message.GetReflection()->FieldSize(message, &field);
  if (static_cast<size_t>(count) > limit.count)
    return Exceeds(field, static_cast<size_t>(count), kEntries, limit.count);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
      field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return absl::OkStatus();
  }
  for (int i = 0; i < count; ++i) RETURN_IF_ERROR(CheckValue(message, field, i, limit.bytes));
  return absl::OkStatus();
}

}  // namespace

FieldLimit LimitOf(const FieldDescriptor& field) {
  const std::string_view name = WithoutPackage(field);
  for (const Row& row : kRows) {
    if (row.field != name) continue;
    FieldLimit limit = row.limit;
    if (limit.count == 0) limit.count = kCount;
    return limit;
  }
  return {.bytes = kTextBytes, .count = kCount};
}

absl::Status CheckRequestLimits(const Message& request) {
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* field : fields) RETURN_IF_ERROR(CheckField(request, *field));
  return absl::OkStatus();
}

}  // namespace muster::coordinator
