// What packages have installed here, compared with the list of its files that each brought along,
// and the signature of that. Reads every listed file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

enum class Signature {
  kUnsigned,  // the package was made without a key
  kValid,
  kMissing,  // the list names its signer, but its signature is not there
  kBad,      // not of this list, or of another key than the one that was asked for
};

// One package.
struct InstalledPackage {
  std::string name;  // "muster-worker 0.3.0"
  std::set<std::string> files;
  Signature signature = Signature::kUnsigned;
  std::string
      key;  // "SHA256:5f0c…": signed it if that is valid, should have otherwise; empty: none
  std::vector<std::string> changed;
  std::vector<std::string> missing;
  std::vector<std::string> extra;  // in a directory that should have nothing else
  std::vector<std::string>
      unread;  // files that cannot be read, and directories that cannot be listed

  bool IsAsListed() const {
    return changed.empty() && missing.empty() && extra.empty() && unread.empty();
  }
};

// Finds the lists beside a program: in PREFIX/share/muster/files for Debian packages, and in the
// site-packages below PREFIX/lib for the wheel. `program`: PREFIX/bin/jobctl.
std::vector<std::string> FindLists(const std::string& program);

// Programs of Muster beside this one that no package's list has: a list may have been taken away.
std::vector<std::string> UnlistedPrograms(const std::string& program,
                                          const std::vector<InstalledPackage>& packages);

// Compares the package to which this list belongs. `key_pem`: the public key that must have signed it;
// empty: the one that lies beside it. DATA_LOSS: the list cannot be read, or is another package's.
absl::StatusOr<InstalledPackage> CompareInstalled(const std::string& list,
                                                  const std::string& key_pem);

// "SHA256:5f0c…" of a public key that Ed25519 signatures are checked with. INVALID_ARGUMENT.
absl::StatusOr<std::string> FingerprintOfKey(const std::string& key_pem);

}  // namespace muster::client
