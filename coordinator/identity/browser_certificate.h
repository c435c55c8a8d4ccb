// The certificate that an operator provides for browsers, which do not know the cluster's authority:
// checked, and kept beside the cluster's keys. jobctl and workers get the cluster's own certificate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator {

struct BrowserCertificate {
  std::string certificate_pem;  // followed by its chain
  std::string key_pem;

  bool operator==(const BrowserCertificate&) const = default;
};

struct BrowserFiles {
  std::string certificate;
  std::string key;
};
// "KEYS/browser.pem" and "KEYS/browser.key".
BrowserFiles BrowserFilesIn(const std::string& keys_dir);

// JC1369, which names the file and what is wrong with it: it cannot be read, is not a certificate or key,
// the key is another certificate's, the certificate is not valid now, or it is for none of the given `hosts`.
absl::StatusOr<BrowserCertificate> ReadBrowserCertificate(const BrowserFiles& files,
                                                          const std::vector<std::string>& hosts,
                                                          int64_t now_ms);
// The DNS names and addresses that a certificate in PEM is for, in the form of a Host field.
std::vector<std::string> HostsOfCertificate(std::string_view pem);

}  // namespace muster::coordinator
