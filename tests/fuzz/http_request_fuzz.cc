// A request from any page of any site: its target, and the fields that decide who may ask. The first
// line is the target, the second the Host, the third a Cookie or Authorization.
#include <google/protobuf/util/json_util.h>

#include "common/text/percent.h"
#include "common/text/text.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/api/query.h"
#include "coordinator/http/server/target.h"
#include "fuzz/harness.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator::http {
namespace {

std::string_view NextLine(std::string_view& bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return line;
}

void Address(std::string_view text) {
  const absl::StatusOr<Target> target = ParseTarget(text);
  if (!target.ok()) return;
  FUZZ_EXPECT(target->path.starts_with('/') && common::IsUtf8Text(target->path));
  FUZZ_EXPECT(target->query.size() <= kQueryParametersMax);
  for (const auto& [name, value] : target->query) {
    const absl::StatusOr<Target> again =
        ParseTarget("/?" + common::PercentEncode(name) + "=" + common::PercentEncode(value));
    FUZZ_EXPECT(again.ok() && again->Get(name) == value);
  }
  v1::StreamLogsRequest request;
  if (!FillFromQuery(target->query, request).ok()) return;
  std::string json;
  FUZZ_EXPECT(google::protobuf::util::MessageToJsonString(request, &json).ok());
}

void Host(std::string_view text) {
  const Peer loopback = {.principal = "peer:127.0.0.1", .local_address = "127.0.0.1"};
  if (!IsOurHost(text, loopback, {})) return;
  const std::string name = HostName(text);
  FUZZ_EXPECT(name == "localhost" || name == "::1" ||
              name.find_first_not_of("0123456789.") == std::string::npos);
}

// Without the token nothing is a proof.
void Proof(std::string_view text) {
  const Sessions sessions({.token = std::string(64, 'a'), .metrics_token = std::string(64, 'b')},
                          "muster", false);
  const std::string value(text);
  const bool names_a_token = value.find(std::string(64, 'a')) != std::string::npos ||
                             value.find(std::string(64, 'b')) != std::string::npos;
  FUZZ_EXPECT(names_a_token ||
              sessions.SessionOf({{"authorization", value}}, 0).proof == Sessions::Proof::kNone);
  FUZZ_EXPECT(sessions.SessionOf({{"cookie", value}}, 0).proof == Sessions::Proof::kNone);
}

}  // namespace
}  // namespace muster::coordinator::http

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes = muster::testing::Text(data, size);
  muster::coordinator::http::Address(muster::coordinator::http::NextLine(bytes));
  muster::coordinator::http::Host(muster::coordinator::http::NextLine(bytes));
  muster::coordinator::http::Proof(muster::coordinator::http::NextLine(bytes));
  return 0;
}
