#include "tree/manifest.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/utf8.h"
#include "tree/bytes.h"

namespace muster::tree {
namespace {

constexpr std::string_view kMagic = "MSTRTRE1";
constexpr size_t kEntryBytesMin = 1 + 2 + 2 + 1;

absl::Status Invalid(std::string_view path, std::string_view why) {
  return absl::InvalidArgumentError(
      common::StrCat("the tree's manifest is not valid: \"", common::Printable(path), "\" ", why));
}

void WriteEntry(const Entry& entry, std::string_view before, ByteWriter& out) {
  out.U8(static_cast<uint8_t>(entry.kind));
  out.Path(entry.path, before);
  if (entry.IsFile()) {
    out.U64(entry.size);
    out.Hash(entry.content);
  } else if (entry.kind == Kind::kLink) {
    out.U16(static_cast<uint16_t>(entry.target.size()));
    out.Raw(entry.target);
  }
}

Entry ReadEntry(std::string_view before, ByteReader& in) {
  Entry entry;
  const uint8_t kind = in.U8();
  if (kind > static_cast<uint8_t>(Kind::kDirectory)) in.Fail();
  entry.kind = static_cast<Kind>(kind);
  entry.path = in.Path(before);
  if (entry.IsFile()) {
    entry.size = in.U64();
    entry.content = in.Hash();
  } else if (entry.kind == Kind::kLink) {
    entry.target = in.Raw(in.U16());
  }
  return entry;
}

// Checks entries in order. The check of an entry depends only on the entries before it.
class EntryRules {
 public:
  absl::Status Check(const Entry& entry) {
    if (const std::string_view why = PathProblem(entry.path); !why.empty()) {
      return Invalid(entry.path, why);
    }
    if (!last_.empty() && !PathLess(last_, entry.path)) {
      return Invalid(entry.path, "is not in order, or there twice");
    }
    last_ = entry.path;
    const std::string_view parent = ParentOf(entry.path);
    while (!open_.empty() && open_.back() != parent) open_.pop_back();
    if (open_.empty() && !parent.empty()) return Invalid(entry.path, "is not in a directory");
    if (entry.kind == Kind::kDirectory) open_.push_back(entry.path);
    names_bytes_ += entry.path.size() + entry.target.size();
    if (names_bytes_ > kPathsBytesMax) return Invalid(entry.path, "exceeds 256 MiB of names");
    return entry.IsFile() ? CheckFile(entry) : absl::OkStatus();
  }

 private:
  absl::Status CheckFile(const Entry& entry) {
    if (entry.size > kTreeBytesMax - bytes_) return Invalid(entry.path, "exceeds 1 TiB of files");
    bytes_ += entry.size;
    static const Digest kEmpty = DigestOf("");
    if ((entry.size == 0) != (entry.content == kEmpty)) {
      return Invalid(entry.path, "has a size that its SHA-256 contradicts");
    }
    return absl::OkStatus();
  }

  std::string last_;
  std::vector<std::string> open_;  // the directories that enclose the last entry
  uint64_t bytes_ = 0;
  size_t names_bytes_ = 0;
};

}  // namespace

uint64_t Manifest::TotalBytes() const {
  uint64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.size;
  return bytes;
}

std::string Encode(const Manifest& manifest) {
  ByteWriter out;
  out.Reserve(16 + manifest.entries.size() * 64);
  out.Raw(kMagic);
  out.U32(static_cast<uint32_t>(manifest.entries.size()));
  std::string_view before;
  for (const Entry& entry : manifest.entries) {
    WriteEntry(entry, before, out);
    before = entry.path;
  }
  return out.Take();
}

absl::StatusOr<Manifest> Decode(std::string_view bytes) {
  if (bytes.size() > kManifestBytesMax) {
    return absl::InvalidArgumentError("the tree's manifest has more than 320 MiB");
  }
  ByteReader in(bytes);
  if (in.Raw(kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("this is not a manifest of a tree, or of a newer version");
  }
  const uint32_t count = in.U32();
  if (count > kEntriesMax || count > in.left() / kEntryBytesMin) {
    return absl::InvalidArgumentError(
        common::StrCat("the tree's manifest declares ", count, " entries, more than it can have"));
  }
  Manifest manifest;
  manifest.entries.reserve(count);
  EntryRules rules;
  for (uint32_t i = 0; i < count; ++i) {
    Entry entry = ReadEntry(i == 0 ? std::string_view() : manifest.entries.back().path, in);
    if (!in.ok()) break;
    RETURN_IF_ERROR(rules.Check(entry));
    manifest.entries.push_back(std::move(entry));
  }
  if (!in.AtEnd()) {
    return absl::InvalidArgumentError(common::StrCat(
        "the tree's manifest is cut, too long or damaged after entry ", manifest.entries.size()));
  }
  LinkRules links(manifest);
  for (const Entry& entry : manifest.entries) {
    if (entry.kind != Kind::kLink) continue;
    if (const std::string_view why = links.Problem(entry); !why.empty()) {
      return Invalid(entry.path, why);
    }
  }
  if (Encode(manifest) != bytes) {
    return absl::InvalidArgumentError("the tree's manifest is not in its one encoding");
  }
  return manifest;
}

}  // namespace muster::tree
