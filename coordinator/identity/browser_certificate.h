// The certificate that an operator brings along for browsers, which do not know the cluster's authority:
// checked, and kept beside the cluster's keys. jobctl and workers are shown the cluster's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator {

struct BrowserCertificate {
  std::string certificate_pem;  // its chain behind it
  std::string key_pem;

  bool operator==(const BrowserCertificate&) const = default;
};

struct BrowserFiles {
  std::string certificate;
  std::string key;
};
// "KEYS/browser.pem" and "KEYS/browser.key".
BrowserFiles BrowserFilesIn(const std::string& keys_dir);

// JC1369, which names the file and what is wrong with it: it cannot be read, is no certificate or key, the
// key is another certificate's, it is not valid now, or for none of `hosts`, if there are any.
absl::StatusOr<BrowserCertificate> ReadBrowserCertificate(const BrowserFiles& files,
                                                          const std::vector<std::string>& hosts,
                                                          int64_t now_ms);
// The DNS names and addresses that a certificate in PEM is for, as a Host field has them.
std::vector<std::string> HostsOfCertificate(std::string_view pem);

}  // namespace muster::coordinator
