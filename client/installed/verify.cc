#include "client/installed/verify.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/installed/installed_files.h"
#include "client/session/session.h"
#include "client/terminal/record_json.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr size_t kKeyFileMax = 64 << 10;

struct Verified {
  std::vector<InstalledPackage> packages;
  std::vector<std::string> unlisted;
  std::string key;  // the fingerprint of --key; empty: none was given
};

std::string_view Word(Signature signature) {
  switch (signature) {
    case Signature::kUnsigned:
      return "unsigned";
    case Signature::kValid:
      return "valid";
    case Signature::kMissing:
      return "missing";
    case Signature::kBad:
      return "bad";
  }
  return "";
}

std::string SignatureText(const InstalledPackage& package, const std::string& key) {
  switch (package.signature) {
    case Signature::kUnsigned:
      return "unsigned";
    case Signature::kValid:
      return StrCat("signed by ", package.key);
    case Signature::kMissing:
      return StrCat("its signature by ", common::Printable(package.key), " is missing");
    case Signature::kBad:
      return key.empty() ? std::string("its signature does not fit")
                         : StrCat("not signed by ", key);
  }
  return "";
}

bool IsGood(const InstalledPackage& package, bool must_be_signed) {
  const bool is_signed = package.signature == Signature::kValid;
  const bool may_be_unsigned = package.signature == Signature::kUnsigned && !must_be_signed;
  return package.IsAsListed() && (is_signed || may_be_unsigned);
}

bool IsGood(const Verified& verified) {
  return verified.unlisted.empty() &&
         std::all_of(verified.packages.begin(), verified.packages.end(),
                     [&](const auto& each) { return IsGood(each, !verified.key.empty()); });
}

void AppendPaths(std::string* text, std::string_view what, const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    StrAppend(text, "  ", what, std::string(9 - what.size(), ' '), common::Printable(path), "\n");
}

std::string TextOf(const Verified& verified) {
  std::string text;
  for (const InstalledPackage& package : verified.packages) {
    StrAppend(&text, IsGood(package, !verified.key.empty()) ? "✓ " : "✗ ",
              common::Printable(package.name), ": ", common::Counted(package.files.size(), "file"),
              package.IsAsListed() ? " as listed; " : ", not as listed; ",
              SignatureText(package, verified.key), "\n");
    AppendPaths(&text, "changed", package.changed);
    AppendPaths(&text, "missing", package.missing);
    AppendPaths(&text, "extra", package.extra);
    AppendPaths(&text, "unread", package.unread);
  }
  if (!verified.unlisted.empty()) text += "✗ programs that no package lists\n";
  AppendPaths(&text, "extra", verified.unlisted);
  text += "Not compared: settings, manuals, compiled Python (__pycache__).\n";
  if (verified.key.empty())
    text +=
        "Lists and keys lie beside the files: who can replace one can replace all. Proof needs "
        "--key FILE, the public key from where you have the packages, and a jobctl that you "
        "trust.\n";
  return text;
}

absl::StatusOr<std::string> RecordOf(const Verified& verified, const std::string& format) {
  std::vector<RecordFields> packages;
  for (const InstalledPackage& each : verified.packages) {
    RecordFields& fields = packages.emplace_back();
    fields.Add("package", each.name).Add("files", static_cast<int64_t>(each.files.size()));
    fields.Add("signature", std::string(Word(each.signature))).Add("key", each.key);
    fields.AddTexts("changed", each.changed).AddTexts("missing", each.missing);
    fields.AddTexts("extra", each.extra).AddTexts("unread", each.unread);
  }
  RecordFields fields;
  fields.Add("good", IsGood(verified)).Add("trusted_key", verified.key);
  fields.AddList("packages", std::move(packages)).AddTexts("unlisted", verified.unlisted);
  return RecordText("Installed", fields, format);
}

absl::StatusOr<std::string> ReadKey(const Arguments& arguments, Verified& verified) {
  if (!arguments.Has("key")) return std::string();
  const std::string& path = arguments.Get("key");
  absl::StatusOr<std::string> pem = common::ReadFileOrPipe(path, kKeyFileMax);
  if (!pem.ok()) {
    return Usage("JC1005", StrCat("the key ", path, " cannot be read"),
                 std::string(pem.status().message()));
  }
  absl::StatusOr<std::string> fingerprint = FingerprintOfKey(*pem);
  if (!fingerprint.ok()) {
    return Usage("JC1005", StrCat(path, " is ", std::string(fingerprint.status().message())),
                 "name the public key that the packages were signed with, in PEM");
  }
  verified.key = *std::move(fingerprint);
  return pem;
}

absl::Status NotFromAPackage(const std::string& program) {
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1014",
       .what = StrCat(program, " was not installed by a package"),
       .why = "there is no list of a package's files beside it",
       .fix =
           "install the Debian packages or the wheel; to compare a local build, build it again"});
}

}  // namespace

absl::StatusOr<int> VerifyInstalled(Session& session, const Arguments& arguments) {
  Verified verified;
  ASSIGN_OR_RETURN(const std::string key_pem, ReadKey(arguments, verified));
  std::error_code ignored;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  for (const std::string& list : FindLists(program)) {
    ASSIGN_OR_RETURN(InstalledPackage package, CompareInstalled(list, key_pem));
    verified.packages.push_back(std::move(package));
  }
  if (verified.packages.empty()) return NotFromAPackage(program);
  verified.unlisted = UnlistedPrograms(program, verified.packages);
  if (arguments.Has("output")) {
    ASSIGN_OR_RETURN(const std::string text, RecordOf(verified, arguments.Get("output")));
    session.Print(text);
  } else {
    session.Print(TextOf(verified));
  }
  return IsGood(verified) ? kExitOk : kExitFailed;
}

}  // namespace muster::client
