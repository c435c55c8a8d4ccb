// HTTP of a coordinator that stands by: the same addresses and certificates as when it leads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/server/server_tls.h"
#include "coordinator/stores/leading.h"

namespace muster::coordinator::http {

class HttpStandby {
 public:
  struct Options {
    std::vector<std::string> listen;  // "ADDR:PORT", "unix:PATH"; at least one
    std::vector<std::string> host_names;
    std::string data_dir;
    std::shared_ptr<const ServerTls> tls = nullptr;  // of every TCP listener; null: not encrypted
    std::string authority_pem = {};                  // of the cluster; empty: there is none to join
  };
  // Listens, but answers nothing yet.
  static absl::StatusOr<std::unique_ptr<HttpStandby>> Open(Options options);
  // Frees the addresses.
  ~HttpStandby();
  // "ADDR:PORT" of the first TCP listener beyond loopback, otherwise of the first one; empty: none.
  std::string Address() const;

  struct Among {
    std::string name;        // of this coordinator
    std::string advertised;  // HOST:PORT that leads here, and may be named in the Host field
    std::function<HeadsView()> view;                             // any thread
    std::function<absl::StatusOr<Sessions::Secrets>()> secrets;  // StandbySite::Options
  };
  // Once.
  void Serve(Among among);

 private:
  struct Parts;
  explicit HttpStandby(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::coordinator::http
