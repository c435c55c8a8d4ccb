// Every field of every request has a length: the test walks the protos, so that a new field cannot come without one.
#include "coordinator/rpc/request_limits.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/rpc/unary_calls.h"
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

// Every field whose length a sender chooses, below what is checked elsewhere.
void Walk(const google::protobuf::Descriptor& message, Path& path,
          const std::function<void(const Path&)>& use) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (LimitOf(field).has_own_check) continue;
    path.push_back(&field);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated() || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) use(path);
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
      if (!seen.insert(Name(found)).second) return;
      const FieldDescriptor& field = *found.back();
      const FieldLimit limit = LimitOf(field);
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
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

TEST(RequestLimits, TheErrorNamesTheFieldItsLengthAndTheLimit) {
  v1::CancelJobsRequest request;
  request.set_reason(std::string(5'000, 'r'));
  const std::string message(CheckRequestLimits(request).message());
  EXPECT_NE(message.find("reason has 5000 bytes, of 4096"), std::string::npos) << message;
}

}  // namespace
}  // namespace muster::coordinator
