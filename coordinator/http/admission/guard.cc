#include "coordinator/http/admission/guard.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/base/loopback.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/http/server/answers.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr size_t kHostShown = 200;
constexpr unsigned kMisdirected = 421;

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

absl::Status ForeignOrigin(std::string_view field, std::string_view value) {
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1314",
       .what = StrCat("the request was sent by a page of another origin (", field, ": ",
                      value.substr(0, kHostShown), ")"),
       .fix = "use the page that the coordinator serves, or a client that is not a browser, with "
              "the token"});
}

bool ChangesNothing(const RequestHead& head) {
  return head.method == "GET" || head.method == "HEAD";
}

}  // namespace

std::string HostName(std::string_view host_field) {
  std::string_view host = host_field;
  std::string_view rest;
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos) return "";
    rest = host.substr(close + 1);
    host = host.substr(1, close - 1);
    // The zone of a link-local address is the client's own name for the link.
    host = host.substr(0, host.find('%'));
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    rest = host.substr(colon);
    host = host.substr(0, colon);
  }
  if (!rest.empty() && (rest.front() != ':' || !IsPort(rest.substr(1)))) return "";
  const bool is_clean = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == ':' || c == '_';
  });
  return is_clean ? absl::AsciiStrToLower(common::ToAbsl(host)) : "";
}

std::optional<HostAndPort> ParseHostAndPort(std::string_view text) {
  HostAndPort at{.host = HostName(text), .port = {}};
  const size_t colon = text.rfind(':');
  if (at.host.empty() || colon == std::string_view::npos) return std::nullopt;
  at.port = std::string(text.substr(colon + 1));
  uint32_t port = 0;
  if (!IsPort(at.port) || !absl::SimpleAtoi(at.port, &port) || port == 0 || port > UINT16_MAX)
    return std::nullopt;
  // As in a name with leading zeros: what is not written as we would write it is not one of ours.
  if (StrCat(port) != at.port) return std::nullopt;
  return at;
}

std::string TextOf(const HostAndPort& at) {
  return at.host.find(':') == std::string::npos ? StrCat(at.host, ":", at.port)
                                                : StrCat("[", at.host, "]:", at.port);
}

bool IsOurHost(std::string_view host_field, const Peer& peer,
               const std::vector<std::string>& names) {
  const std::string host = HostName(host_field);
  if (host.empty()) return false;
  if (host == peer.local_address) return true;
  const bool is_local = peer.local_address.empty() || common::IsLoopbackHost(peer.local_address);
  if (is_local && common::IsLoopbackHost(host)) return true;
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return absl::AsciiStrToLower(name) == host; });
}

absl::Status CheckAddressed(const RequestHead& head, const std::vector<std::string>& names) {
  const size_t count = CountFields(head.fields, "host");
  if (count != 1) {
    return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                               {.code = "JC1316",
                                .what = StrCat("the request has ", count, " Host fields"),
                                .fix = "send exactly one"});
  }
  const std::string_view host = FieldOf(head.fields, "host");
  if (IsOurHost(host, head.peer, names)) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1314",
       .what = StrCat("this coordinator is not ", host.substr(0, kHostShown)),
       .why = "the Host field names neither the address that the request arrived at nor a name "
              "from --http-host",
       .fix = "use the address that the coordinator printed, or start it with --http-host NAME"});
}

std::optional<Response> RefuseForeign(const RequestHead& head,
                                      const std::vector<std::string>& names) {
  const absl::Status ours = CheckAddressed(head, names);
  if (ours.ok()) return std::nullopt;
  return ErrorResponse(ours,
                       absl::IsPermissionDenied(ours) ? kMisdirected : HttpStatusOf(ours.code()));
}

absl::Status CheckOrigin(const RequestHead& head, bool is_stream, bool by_cookie) {
  if (ChangesNothing(head) && !is_stream) return absl::OkStatus();
  const std::string_view host = FieldOf(head.fields, "host");
  const std::string_view site = FieldOf(head.fields, "sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return ForeignOrigin("Sec-Fetch-Site", site);
  }
  if (CountFields(head.fields, "origin") > 1) return ForeignOrigin("Origin", "several");
  const std::string_view origin = FieldOf(head.fields, "origin");
  if (origin.empty()) {
    // Browsers send the origin with every request that may change something; those that omit it for an
    // event stream of the same origin tell where it comes from in Sec-Fetch-Site.
    if (!by_cookie || (is_stream && site == "same-origin")) return absl::OkStatus();
    return ForeignOrigin("Origin", "none");
  }
  // https although we do not encrypt: a proxy in front of us has the certificate. If we do encrypt, a
  // page that came unencrypted is not ours, whatever its address.
  const std::string own = absl::AsciiStrToLower(common::ToAbsl(host));
  const std::string sent = absl::AsciiStrToLower(common::ToAbsl(origin));
  if (sent == StrCat("https://", own)) return absl::OkStatus();
  if (!head.peer.is_encrypted && sent == StrCat("http://", own)) return absl::OkStatus();
  return ForeignOrigin("Origin", origin);
}

}  // namespace muster::coordinator::http
