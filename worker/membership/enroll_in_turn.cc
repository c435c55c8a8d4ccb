#include "worker/membership/enroll_in_turn.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "common/address_list.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "worker/base/addresses.h"

namespace muster::worker {
namespace {

using Answer = absl::StatusOr<identity::Credentials>;

constexpr std::string_view kIsBusy = "JC1356";
constexpr std::string_view kStandsBy = "JC1630";
constexpr std::string_view kIsForeign = "JC1354";
// Of each, when there are several: a machine that is off must not delay the others for long.
constexpr std::chrono::seconds kOneOfSeveral{10};

// Whether another address may be the one that leads.
bool IsElsewhere(const absl::Status& status) {
  return absl::IsUnavailable(status) || common::CodeOf(status) == kIsForeign;
}

int Weight(const absl::Status& status) {
  const std::string code = common::CodeOf(status);
  return code == kIsBusy ? 2 : code == kStandsBy ? 1 : 0;
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// What `ask` gets from one of several, with all their addresses in place of that one's.
Answer OneOfSeveral(const std::vector<std::string>& addresses, const std::string& known_endpoints,
                    const AskOne& ask) {
  ASSIGN_OR_RETURN(identity::Credentials credentials, AskInTurn(addresses, ask));
  std::vector<std::string> endpoints =
      EndpointsOf(addresses, credentials.http, credentials.endpoint);
  // Those that are known were used; the others are derived, and a balancer of HTTPS need not forward gRPC.
  if (!known_endpoints.empty()) endpoints = MergeHeads(SplitAddresses(known_endpoints), endpoints);
  credentials.endpoint = common::JoinAddresses(endpoints);
  credentials.http = common::JoinAddresses(addresses);
  return credentials;
}

}  // namespace

Answer AskInTurn(const std::vector<std::string>& addresses, const AskOne& ask) {
  absl::Status most;
  for (const std::string& address : addresses) {
    Answer answer = ask(address);
    if (answer.ok() || !IsElsewhere(answer.status())) return answer;
    if (most.ok() || Weight(answer.status()) > Weight(most)) most = answer.status();
  }
  return most;
}

std::vector<std::string> EndpointsOf(const std::vector<std::string>& addresses,
                                     const std::string& answered, const std::string& endpoint) {
  if (HostOf(endpoint) != HostOf(answered)) return {endpoint};
  std::vector<std::string> endpoints;
  for (const std::string& address : addresses)
    endpoints.push_back(common::StrCat(HostOf(address), endpoint.substr(endpoint.rfind(':'))));
  return MergeHeads(endpoints, {});
}

Answer EnrollInTurn(const identity::Enrolling& enrolling) {
  const std::vector<std::string> addresses = SplitAddresses(enrolling.address);
  if (addresses.size() == 1) return identity::Enroll(enrolling);
  return OneOfSeveral(addresses, "", [&](const std::string& address) {
    return identity::Enroll({.address = address,
                             .token = enrolling.token,
                             .node = enrolling.node,
                             .within = kOneOfSeveral});
  });
}

Answer RenewInTurn(const identity::Credentials& old, int64_t now_ms) {
  const std::vector<std::string> addresses = SplitAddresses(old.http);
  if (addresses.size() == 1) return identity::Renew(old, now_ms);
  return OneOfSeveral(addresses, old.endpoint, [&](const std::string& address) {
    identity::Credentials there = old;
    there.http = address;
    return identity::Renew(there, now_ms, kOneOfSeveral);
  });
}

}  // namespace muster::worker
