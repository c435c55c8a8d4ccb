#include "worker/links/link_advice.h"

#include "common/text/strings.h"

namespace muster::worker {
namespace {

bool Holds(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// The other side closed the connection before the first message, as a port with TLS does to a client
// without it, and the other way around. If the stream had been open, the coordinator is just stopping.
bool ClosedAtOnce(std::string_view reason) {
  return Holds(reason, "failed to connect") &&
         (Holds(reason, "Connection reset by peer") || Holds(reason, "Socket closed") ||
          Holds(reason, "Endpoint closing"));
}

std::string Advice(std::string_view meaning, std::string_view fix) {
  return common::StrCat(" meaning=\"", meaning, "\" fix=\"", fix, "\"");
}

}  // namespace

std::string LinkAdvice(const Route& route, std::string_view reason) {
  if (route.endpoint.starts_with("unix:")) return "";
  if (route.credentials == nullptr) {
    if (!ClosedAtOnce(reason)) return "";
    return Advice(
        "it closes connections that are not encrypted, and this node has no certificate of its "
        "cluster",
        "muster-worker join HOST:HTTPS-PORT --token-file FILE, with a token of: jobctl token "
        "create "
        "worker NODE");
  }
  if (Holds(reason, "WRONG_VERSION_NUMBER") || ClosedAtOnce(reason)) {
    return Advice(common::StrCat("it does not encrypt, or takes no certificate of the cluster ",
                                 route.credentials->cluster, ", which this node has joined"),
                  "start the coordinator with the data directory of that cluster, or this worker "
                  "with another --state-dir; a new certificate: muster-worker join HOST:HTTPS-PORT "
                  "--again");
  }
  if (Holds(reason, "CERTIFICATE_VERIFY_FAILED")) {
    return Advice(common::StrCat("it is not of the cluster ", route.credentials->cluster,
                                 ", which this node has joined"),
                  "dial that cluster's coordinator, or join this one: muster-worker join "
                  "HOST:HTTPS-PORT --again");
  }
  return "";
}

}  // namespace muster::worker
