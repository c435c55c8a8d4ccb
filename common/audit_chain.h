// The audit as a chain: each entry's hash covers its fields and the hash of the entry before, so that
// the newest hash, kept elsewhere, vouches for all entries up to it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/identity.pb.h"

namespace muster::common {

// SHA-256 over all fields but `hash`: numbers as 8 bytes, texts behind their length in 8 bytes, both
// little-endian, in the order of docs/formats.md.
std::string AuditHash(const v1::AuditEntry& entry);

// "NUMBER:HEX", as heads are logged and given on command lines.
std::string HeadText(const v1::AuditHead& head);
std::optional<v1::AuditHead> ParseHead(std::string_view text);

// Follows a chain from its first entry that is still there.
class AuditChain {
 public:
  // Heads that were kept elsewhere, in any order.
  explicit AuditChain(std::vector<v1::AuditHead> kept = {});

  // The next entry, in the order of the file.
  void Add(const v1::AuditEntry& entry);
  // After the last one: is what was kept elsewhere in the chain?
  void Finish();

  // What is wrong, one sentence each; at most kFindingsMax.
  static constexpr size_t kFindingsMax = 100;
  const std::vector<std::string>& findings() const { return findings_; }
  uint64_t first() const { return first_; }
  // Of the entry before the first one that is there, which vouches for what was moved away; number 0:
  // nothing was.
  const v1::AuditHead& before() const { return before_; }
  // Of the last entry; number 0: there was none.
  const v1::AuditHead& head() const { return head_; }

 private:
  void Find(std::string finding);

  std::vector<v1::AuditHead> kept_;
  std::vector<std::string> findings_;
  uint64_t first_ = 0;
  v1::AuditHead before_;
  v1::AuditHead head_;
};

}  // namespace muster::common
