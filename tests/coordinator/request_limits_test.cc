// Every text and list of every request has a length and every integer a range: the tests walk the protos, so that a new
// field cannot come without one.
#include "coordinator/calls/request_limits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/calls/unary_calls.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Path = std::vector<const FieldDescriptor*>;

// The requests of all calls: those with one answer, and those that are streams.
std::vector<const Message*> Requests() {
  std::vector<const Message*> requests;
  for (const UnaryCall& call : UnaryCalls()) requests.push_back(&call.request);
#define MUSTER_REQUEST(name, Request, Answer, action, object, cost) \
  requests.push_back(&v1::Request::default_instance());
#define MUSTER_NONE(name, Request, Answer, action, object, cost)
  MUSTER_JOB_CALLS(MUSTER_NONE, MUSTER_REQUEST, MUSTER_NONE, MUSTER_REQUEST)
#undef MUSTER_REQUEST
#undef MUSTER_NONE
  return requests;
}

// Every field that is not checked elsewhere.
void Walk(const google::protobuf::Descriptor& message, Path& path,
          const std::function<void(const Path&)>& use) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (LimitOf(field).has_own_check) continue;
    path.push_back(&field);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    use(path);
    if (is_message) Walk(*field.message_type(), path, use);
    path.pop_back();
  }
}

std::string Name(const Path& path) {
  std::string name = path.front()->containing_type()->name();
  for (const FieldDescriptor* field : path) name += "." + field->name();
  return name;
}

// The message that has the path's last field.
Message& Reach(Message& message, const Path& path) {
  Message* at = &message;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    at = path[i]->is_repeated() ? at->GetReflection()->AddMessage(at, path[i])
                                : at->GetReflection()->MutableMessage(at, path[i]);
  }
  return *at;
}

void SetText(Message& message, const FieldDescriptor& field, size_t bytes) {
  const std::string text(bytes, 'x');
  field.is_repeated() ? message.GetReflection()->AddString(&message, &field, text)
                      : message.GetReflection()->SetString(&message, &field, text);
}

void AddOne(Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.AddMessage(&message, &field);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.AddString(&message, &field, "");
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection.AddEnumValue(&message, &field, 0);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      reflection.AddUInt32(&message, &field, 0);
      break;
    default:
      FAIL() << field.full_name() << ": this test does not know its type";
  }
}

TEST(RequestLimits, EveryTextAndListOfEveryRequestHasALength) {
  std::set<std::string> seen;
  for (const Message* prototype : Requests()) {
    Path path;
    Walk(*prototype->GetDescriptor(), path, [&](const Path& found) {
      const FieldDescriptor& field = *found.back();
      const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      if (!is_text && !field.is_repeated()) return;
      if (!seen.insert(Name(found)).second) return;
      const FieldLimit limit = LimitOf(field);
      if (is_text) {
        for (const size_t over : {0u, 1u}) {
          const std::unique_ptr<Message> request(prototype->New());
          SetText(Reach(*request, found), field, limit.bytes + over);
          EXPECT_EQ(CheckRequestLimits(*request).ok(), over == 0) << Name(found);
        }
      }
      if (!field.is_repeated() || field.is_map()) return;
      const std::unique_ptr<Message> request(prototype->New());
      Message& at = Reach(*request, found);
      for (size_t i = 0; i < limit.count; ++i) AddOne(at, field);
      EXPECT_TRUE(CheckRequestLimits(*request).ok()) << Name(found);
      AddOne(at, field);
      EXPECT_FALSE(CheckRequestLimits(*request).ok()) << Name(found);
    });
  }
  EXPECT_GT(seen.size(), 60u) << "the walk has to reach the fields";
}

// False: the field's type has no such value.
bool SetInteger(Message& message, const FieldDescriptor& field, __int128 value) {
  const auto& reflection = *message.GetReflection();
  const auto fits = [&](auto least, auto most) { return value >= least && value <= most; };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (!fits(INT32_MIN, INT32_MAX)) return false;
      reflection.SetInt32(&message, &field, static_cast<int32_t>(value));
      return true;
    case FieldDescriptor::CPPTYPE_INT64:
      if (!fits(INT64_MIN, INT64_MAX)) return false;
      reflection.SetInt64(&message, &field, static_cast<int64_t>(value));
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!fits(uint32_t{0}, UINT32_MAX)) return false;
      reflection.SetUInt32(&message, &field, static_cast<uint32_t>(value));
      return true;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!fits(uint64_t{0}, UINT64_MAX)) return false;
      reflection.SetUInt64(&message, &field, static_cast<uint64_t>(value));
      return true;
    default:
      return false;
  }
}

TEST(RequestLimits, EveryIntegerOfEveryRequestHasARange) {
  std::set<std::string> seen;
  for (const Message* prototype : Requests()) {
    Path path;
    Walk(*prototype->GetDescriptor(), path, [&](const Path& found) {
      const FieldDescriptor& field = *found.back();
      if (field.is_repeated()) return;
      const FieldLimit limit = LimitOf(field);
      const __int128 least = limit.least, most = limit.most;
      for (const __int128 value :
           {__int128{INT64_MIN}, __int128{INT32_MIN}, least - 1, least, __int128{-1}, __int128{0},
            __int128{INT32_MAX}, __int128{UINT32_MAX}, most, most + 1, __int128{UINT64_MAX}}) {
        const std::unique_ptr<Message> request(prototype->New());
        if (!SetInteger(Reach(*request, found), field, value)) continue;
        seen.insert(Name(found));
        EXPECT_EQ(CheckRequestLimits(*request).ok(), least <= value && value <= most)
            << Name(found) << " " << static_cast<int64_t>(value);
      }
    });
  }
  EXPECT_GT(seen.size(), 25u) << "the walk has to reach the fields";
}

TEST(RequestLimits, ANumberThatADatabaseWouldTakeForANegativeOneIsRefused) {
  v1::ListEventsRequest request;
  request.set_after_seq(UINT64_MAX);
  const std::string message(CheckRequestLimits(request).message());
  EXPECT_NE(message.find("after_seq is 18446744073709551615"), std::string::npos) << message;
  EXPECT_NE(message.find("0 to 9223372036854775807"), std::string::npos) << message;
}

TEST(RequestLimits, TheErrorNamesTheFieldItsLengthAndTheLimit) {
  v1::CancelJobsRequest request;
  request.set_reason(std::string(5'000, 'r'));
  const std::string message(CheckRequestLimits(request).message());
  EXPECT_NE(message.find("reason has 5000 bytes, of 4096"), std::string::npos) << message;
}

}  // namespace
}  // namespace muster::coordinator
