#include "common/audit_chain.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "common/hash/hex.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr size_t kHashBytes = 32;

void AppendNumber(std::string& bytes, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>((number >> shift) & 0xff);
}

void AppendText(std::string& bytes, const std::string& text) {
  AppendNumber(bytes, text.size());
  bytes += text;
}

}  // namespace

std::string AuditHash(const v1::AuditEntry& entry) {
  std::string bytes;
  AppendNumber(bytes, entry.number());
  AppendNumber(bytes, static_cast<uint64_t>(entry.at_ms()));
  for (const std::string* text :
       {&entry.who(), &entry.role(), &entry.from(), &entry.way(), &entry.what(), &entry.object(),
        &entry.result(), &entry.previous()}) {
    AppendText(bytes, *text);
  }
  return *FromHex(Sha256Hex(bytes));
}

std::string HeadText(const v1::AuditHead& head) {
  return StrCat(head.number(), ":", absl::BytesToHexString(head.hash()));
}

std::optional<v1::AuditHead> ParseHead(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  const std::string_view hash = text.substr(colon + 1);
  if (!absl::SimpleAtoi(ToAbsl(text.substr(0, colon)), &number) || number == 0 ||
      hash.size() != 2 * kHashBytes || !IsSha256Hex(hash)) {
    return std::nullopt;
  }
  v1::AuditHead head;
  head.set_number(number);
  head.set_hash(*FromHex(hash));
  return head;
}

AuditChain::AuditChain(std::vector<v1::AuditHead> kept) : kept_(std::move(kept)) {}

void AuditChain::Find(std::string finding) {
  if (findings_.size() < kFindingsMax) findings_.push_back(std::move(finding));
}

void AuditChain::Add(const v1::AuditEntry& entry) {
  if (first_ == 0) {
    first_ = entry.number();
    if (entry.number() == 1 && !entry.previous().empty())
      Find("entry 1 claims to follow another one");
    if (entry.number() > 1) {
      before_.set_number(entry.number() - 1);
      before_.set_hash(entry.previous());
    }
  } else if (entry.number() != head_.number() + 1) {
    Find(entry.number() > head_.number()
             ? StrCat("entries ", head_.number() + 1, " to ", entry.number() - 1, " are missing")
             : StrCat("entry ", entry.number(), " comes after entry ", head_.number()));
  } else if (entry.previous() != head_.hash()) {
    Find(StrCat("entry ", entry.number(), " does not follow the entry ", head_.number(),
                " that is there: one of them was replaced"));
  }
  if (AuditHash(entry) != entry.hash()) {
    Find(StrCat("entry ", entry.number(), " was changed: its hash does not match"));
  }
  for (const v1::AuditHead& kept : kept_) {
    if (kept.number() == entry.number() && kept.hash() != entry.hash()) {
      Find(StrCat("entry ", entry.number(),
                  " is not the one whose hash was kept: the audit was "
                  "rewritten from there or before"));
    }
  }
  head_.set_number(entry.number());
  head_.set_hash(entry.hash());
}

void AuditChain::Finish() {
  for (const v1::AuditHead& kept : kept_) {
    if (kept.number() > head_.number()) {
      Find(StrCat("the audit ends with entry ", head_.number(), ", but the hash of entry ",
                  kept.number(), " was kept: its end was cut off"));
    } else if (kept.number() < first_) {
      Find(StrCat("the audit begins with entry ", first_, ", so entry ", kept.number(),
                  ", whose hash was kept, cannot be compared"));
    }
  }
}

}  // namespace muster::common
