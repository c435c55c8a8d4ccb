// Compares the installed files of packages with the list of files in each package, and checks the
// list's signature. Reads every listed file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

enum class Signature {
  kUnsigned,  // the package was made without a key
  kValid,
  kMissing,  // the list names its signer, but the signature is missing
  kBad,      // the signature is not for this list, or not made with the requested key
};

// One package.
struct InstalledPackage {
  std::string name;  // "muster-worker 0.3.0"
  std::set<std::string> files;
  Signature signature = Signature::kUnsigned;
  std::string
      key;  // "SHA256:5f0c…": the key that signed it if the signature is valid, otherwise the key that should have; empty: none
  std::vector<std::string> changed;
  std::vector<std::string> missing;
  std::vector<std::string> extra;  // unlisted files in a directory that should have no others
  std::vector<std::string>
      unread;  // files that cannot be read, and directories that cannot be listed

  bool IsAsListed() const {
    return changed.empty() && missing.empty() && extra.empty() && unread.empty();
  }
};

// Finds the lists beside a program: in PREFIX/share/muster/files for Debian packages, and in the
// site-packages below PREFIX/lib for the wheel. `program`: PREFIX/bin/jobctl.
std::vector<std::string> FindLists(const std::string& program);

// Programs of Muster next to this one that no package's list contains: a list may have been
// removed.
std::vector<std::string> UnlistedPrograms(const std::string& program,
                                          const std::vector<InstalledPackage>& packages);

// Compares the package to which this list belongs. `key_pem`: the public key that must have signed it; empty:
// the key next to it. DATA_LOSS: the list cannot be read, or is another package's.
absl::StatusOr<InstalledPackage> CompareInstalled(const std::string& list,
                                                  const std::string& key_pem);

// "SHA256:5f0c…" of a public key that Ed25519 signatures are checked with. INVALID_ARGUMENT.
absl::StatusOr<std::string> FingerprintOfKey(const std::string& key_pem);

}  // namespace muster::client
