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

// Checks a chain, starting with the first entry that still exists.
class AuditChain {
 public:
  // Heads that were kept elsewhere, in any order.
  explicit AuditChain(std::vector<v1::AuditHead> kept = {});

  // The next entry, in the order of the file.
  void Add(const v1::AuditEntry& entry);
  // Call it after the last entry: checks that the chain contains the heads that were kept
  // elsewhere.
  void Finish();

  // The errors found, one sentence each; at most kFindingsMax.
  static constexpr size_t kFindingsMax = 100;
  const std::vector<std::string>& findings() const { return findings_; }
  uint64_t first() const { return first_; }
  // The head of the entry before the first existing one, which vouches for entries that were moved away; number
  // 0: none were.
  const v1::AuditHead& before() const { return before_; }
  // The head of the last entry; number 0: the chain has no entries.
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
