#include "coordinator/local/audit_files.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "common/audit_chain.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::string_view kAuditSuffix = ".jsonl";
constexpr size_t kNumberDigits = 20;
// A batch may make the file larger than its limit.
constexpr size_t kReadBytesMax = 16 * kAuditFileBytes;

std::optional<v1::AuditEntry> EntryOfLine(std::string_view line) {
  v1::AuditEntry entry;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(line.data(), line.size()), &entry);
  if (!parsed.ok() || entry.number() == 0) return std::nullopt;
  return entry;
}

absl::Status CutAt(const AuditFile& file, uint64_t size) {
  if (truncate(file.path.c_str(), static_cast<off_t>(size)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut ", file.path));
  }
  return absl::OkStatus();
}

}  // namespace

std::string AuditFilePath(const std::string& directory, uint64_t first) {
  std::string digits = StrCat(first);
  digits.insert(0, kNumberDigits - digits.size(), '0');
  return StrCat(directory, "/", digits, kAuditSuffix);
}

absl::StatusOr<std::vector<AuditFile>> ListAuditFiles(const std::string& directory) {
  std::vector<AuditFile> files;
  if (!common::Exists(directory)) return files;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, common::ListDirectory(directory));
  for (const std::string& name : names) {
    uint64_t first = 0;
    if (name.size() == kNumberDigits + kAuditSuffix.size() && name.ends_with(kAuditSuffix) &&
        absl::SimpleAtoi(name.substr(0, kNumberDigits), &first) && first > 0) {
      files.push_back({first, StrCat(directory, "/", name)});
    }
  }
  return files;
}

std::string AuditLine(const v1::AuditEntry& entry) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  // Cannot fail: our own message, without Any or NaN, and audit.cc has made its texts printable.
  CHECK(google::protobuf::util::MessageToJsonString(entry, &line, options).ok());
  line += '\n';
  return line;
}

absl::StatusOr<AuditPart> ReadAuditFile(const AuditFile& file) {
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(file.path, kReadBytesMax));
  AuditPart part;
  part.bytes = text.size();
  size_t begin = 0;
  for (size_t number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    auto entry = EntryOfLine(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (entry.has_value()) {
      part.entries.push_back(*std::move(entry));
      part.sound_bytes = begin;
    } else {
      part.damaged.push_back(StrCat(file.path.substr(file.path.rfind('/') + 1), ", line ", number));
    }
  }
  return part;
}

absl::StatusOr<AuditEnd> RecoverAudit(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<AuditFile> files, ListAuditFiles(directory));
  AuditEnd end;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    ASSIGN_OR_RETURN(const AuditPart part, ReadAuditFile(*file));
    if (part.sound_bytes < part.bytes) {
      ASSIGN_OR_RETURN(const std::string text, common::ReadFile(file->path, kReadBytesMax));
      const std::string cut = text.substr(part.sound_bytes);
      if (cut.find('\n') != std::string::npos) {
        RETURN_IF_ERROR(common::WriteFileDurably(
            StrCat(directory, "/cut-", file->first, "-", part.sound_bytes), cut));
      }
      RETURN_IF_ERROR(CutAt(*file, part.sound_bytes));
      end.cut_bytes += cut.size();
    }
    if (end.path.empty()) {
      end.path = file->path;
      end.size = part.sound_bytes;
    }
    if (part.entries.empty()) continue;
    end.head.set_number(part.entries.back().number());
    end.head.set_hash(part.entries.back().hash());
    break;
  }
  return end;
}

absl::Status CheckAudit(const std::string& directory,
                        const std::function<void(const std::string& finding)>& found,
                        uint64_t* entries, uint64_t* first) {
  ASSIGN_OR_RETURN(const std::vector<AuditFile> files, ListAuditFiles(directory));
  common::AuditChain chain;
  for (const AuditFile& file : files) {
    ASSIGN_OR_RETURN(const AuditPart part, ReadAuditFile(file));
    for (const std::string& line : part.damaged) found(StrCat(line, " is not an entry"));
    for (const v1::AuditEntry& entry : part.entries) chain.Add(entry);
    *entries += part.entries.size();
  }
  for (const std::string& finding : chain.findings()) found(finding);
  *first = chain.first();
  return absl::OkStatus();
}

}  // namespace muster::coordinator
