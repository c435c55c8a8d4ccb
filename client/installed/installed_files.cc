#include "client/installed/installed_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "client/installed/files_list.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/hex.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/keys.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;
using common::StrCat;

constexpr size_t kListBytesMax = 8 << 20;
constexpr size_t kKeyBytesMax = 64 << 10;
constexpr std::string_view kOfDebian = "share/muster/files";
constexpr std::string_view kOfWheel = "muster.files";
constexpr std::string_view kSuffix = ".files";
constexpr std::string_view kCompiled = "__pycache__";
constexpr const char* kPrograms[] = {"jobctl",      "muster-coordinator", "muster-worker",
                                     "muster-shim", "muster-rendezvous",  "muster-unwind"};

// The entries of a directory, sorted.
std::vector<fs::path> In(const fs::path& directory, std::error_code* error) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& each : fs::directory_iterator(directory, *error))
    found.push_back(each.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Empty if there is none.
std::vector<fs::path> In(const fs::path& directory) {
  std::error_code ignored;
  return In(directory, &ignored);
}

// Paths in Debian packages start at the root directory that contains /usr, those of the wheel in
// site-packages.
fs::path RootOf(const fs::path& list) {
  const fs::path directory = list.parent_path();
  if (list.filename() == kOfWheel) return directory.parent_path();
  return directory.parent_path().parent_path().parent_path().parent_path();
}

std::string Text(const fs::path& path) { return path.lexically_normal().string(); }

void CompareFile(const fs::path& root, const ListedFile& file, InstalledPackage& package) {
  const std::string path = Text(root / file.path);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0)
    return (errno == ENOENT || errno == ENOTDIR ? package.missing : package.unread).push_back(path);
  if (!S_ISREG(info.st_mode)) return package.changed.push_back(path);
  const absl::StatusOr<std::string> found = common::Sha256HexOfFile(path);
  if (!found.ok()) return package.unread.push_back(path);
  if (*found != file.sha256) package.changed.push_back(path);
}

void FindExtra(const fs::path& directory, InstalledPackage& package) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(directory, error);
  if (status.type() == fs::file_type::not_found) return;
  // A link may be changed to lead to another directory later.
  if (fs::is_symlink(status)) return package.changed.push_back(Text(directory));
  const std::vector<fs::path> found = In(directory, &error);
  if (error) return package.unread.push_back(Text(directory));
  for (const fs::path& each : found) {
    if (fs::is_directory(fs::symlink_status(each, error))) {
      if (each.filename() != kCompiled) FindExtra(each, package);
    } else if (!package.files.contains(Text(each))) {
      package.extra.push_back(Text(each));
    }
  }
}

// "…/muster-worker.files" is the list of "muster-worker 0.3.0". The wheel's has its own name.
bool IsOf(const fs::path& list, const std::string& package) {
  return list.filename() == kOfWheel || package.substr(0, package.find(' ')) == list.stem();
}

absl::StatusOr<identity::KeyHandle> KeyFor(const std::string& list, const std::string& key_pem) {
  if (!key_pem.empty()) return identity::SigningKeyFromPem(key_pem);
  ASSIGN_OR_RETURN(const std::string beside, common::ReadFile(list + ".pub", kKeyBytesMax));
  return identity::SigningKeyFromPem(beside);
}

std::string FingerprintOf(const identity::KeyHandle& key) {
  return StrCat("SHA256:", common::ToHex(identity::PublicKeyHash(key.get())));
}

void CheckSignature(const std::string& list, const std::string& text, const std::string& key_pem,
                    const std::string& signed_by, InstalledPackage& package) {
  package.key = signed_by;
  const absl::StatusOr<std::string> signature = common::ReadFile(list + ".sig", kKeyBytesMax);
  if (!signature.ok()) {
    package.signature = signed_by.empty() ? Signature::kUnsigned : Signature::kMissing;
    return;
  }
  const absl::StatusOr<identity::KeyHandle> key = KeyFor(list, key_pem);
  const bool is_valid = key.ok() && identity::IsSignedAsIs(key->get(), text, *signature);
  package.signature = is_valid ? Signature::kValid : Signature::kBad;
  if (is_valid) package.key = FingerprintOf(*key);
}

}  // namespace

std::vector<std::string> FindLists(const std::string& program) {
  const fs::path prefix = fs::path(program).parent_path().parent_path();
  std::vector<std::string> lists;
  for (const fs::path& each : In(prefix / kOfDebian)) {
    if (each.extension() == kSuffix) lists.push_back(each.string());
  }
  for (const fs::path& python : In(prefix / "lib")) {
    if (!python.filename().string().starts_with("python3")) continue;
    for (const std::string_view packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& each : In(python / packages)) {
        const fs::path list = each / kOfWheel;
        const bool is_ours = each.filename().string().starts_with("muster_train-");
        if (is_ours && common::Exists(list.string())) lists.push_back(list.string());
      }
    }
  }
  return lists;
}

std::vector<std::string> UnlistedPrograms(const std::string& program,
                                          const std::vector<InstalledPackage>& packages) {
  const fs::path prefix = fs::path(program).parent_path().parent_path();
  std::vector<std::string> unlisted;
  for (const char* folder : {"bin", "libexec/muster"}) {
    for (const char* name : kPrograms) {
      const std::string path = Text(prefix / folder / name);
      const bool is_listed = std::any_of(
          packages.begin(), packages.end(),
          [&](const InstalledPackage& package) { return package.files.contains(path); });
      if (!is_listed && common::Exists(path)) unlisted.push_back(path);
    }
  }
  return unlisted;
}

absl::StatusOr<InstalledPackage> CompareInstalled(const std::string& list,
                                                  const std::string& key_pem) {
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(list, kListBytesMax));
  const absl::StatusOr<FilesList> read = ParseFilesList(text);
  if (!read.ok()) return absl::DataLossError(StrCat(list, ": ", read.status().message()));
  if (!IsOf(list, read->package))
    return absl::DataLossError(StrCat(list, " is the list of ", common::Printable(read->package)));
  InstalledPackage package{.name = read->package};
  CheckSignature(list, text, key_pem, read->signed_by, package);
  const fs::path root = RootOf(list);
  for (const ListedFile& file : read->files) {
    CompareFile(root, file, package);
    package.files.insert(Text(root / file.path));
  }
  for (const std::string& directory : read->whole) FindExtra(root / directory, package);
  return package;
}

absl::StatusOr<std::string> FingerprintOfKey(const std::string& key_pem) {
  ASSIGN_OR_RETURN(const identity::KeyHandle key, identity::SigningKeyFromPem(key_pem));
  return FingerprintOf(key);
}

}  // namespace muster::client
