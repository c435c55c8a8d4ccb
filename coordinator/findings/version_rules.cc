// Driver, toolkit and framework that do not match: from versions where they are recorded, and from
// what ranks printed when that made them fail.
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/strings.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

// The oldest Linux driver that runs programs of a CUDA major version. Source: NVIDIA, CUDA
// Compatibility, table "Minor Version Compatibility".
struct OldestDriver {
  int toolkit;
  int driver;
};
constexpr OldestDriver kOldestDrivers[] = {{11, 450}, {12, 525}, {13, 580}};

// What frameworks and libraries print. Lower case.
struct Printed {
  std::string_view text;
  std::string_view cause;
  std::string_view fix;
};
constexpr Printed kPrinted[] = {
    {"driver version is insufficient for cuda runtime",
     "the framework was built for a newer CUDA than the node's driver runs",
     "a newer driver on the node, or a framework built for an older CUDA"},
    {"nvidia driver on your system is too old",
     "the framework was built for a newer CUDA than the node's driver runs",
     "a newer driver on the node, or a framework built for an older CUDA"},
    {"no kernel image is available for execution",
     "the framework has no code for this device model",
     "a framework build that lists the device's compute capability"},
    {"driver/library version mismatch",
     "the driver was updated and the old kernel module is still loaded",
     "reboot the node, or reload its nvidia modules"},
    {"forward compatibility was attempted on non supported hw",
     "the CUDA compatibility package is installed for a device that does not support it",
     "remove cuda-compat from LD_LIBRARY_PATH"},
    {"torch not compiled with cuda enabled", "a framework build for CPUs runs on a device",
     "install the CUDA build of the framework"},
    {"libascend_hal.so: cannot open", "the Ascend driver is not installed or not mounted",
     "install the driver, or mount /usr/local/Ascend/driver"},
};

int Major(const std::string& version) {
  int number = 0;
  return absl::SimpleAtoi(version.substr(0, version.find('.')), &number) ? number : 0;
}

// Null: the rank printed none of these.
const Printed* FindPrinted(const v1::RankExit& exit) {
  std::string text = absl::StrCat(exit.error_message(), "\n", exit.last_lines());
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const Printed& printed : kPrinted) {
    if (text.find(printed.text) != std::string::npos) return &printed;
  }
  return nullptr;
}

std::optional<v1::Finding> FromVersions(const Evidence& evidence, const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    const auto found = evidence.versions.find(part.node());
    if (found == evidence.versions.end() || part.device_kind() != "gpu") continue;
    const int toolkit = Major(found->second.toolkit);
    const int driver = Major(found->second.driver);
    for (const OldestDriver& row : kOldestDrivers) {
      if (toolkit != row.toolkit || driver == 0 || driver >= row.driver) continue;
      v1::Finding finding =
          MakeFinding(v1::FINDING_SEVERITY_ERROR,
                      {absl::StrCat("the driver on ", part.node(), " (", found->second.driver,
                                    ") is too old for CUDA ", found->second.toolkit),
                       absl::StrCat("CUDA ", toolkit, " needs driver ", row.driver,
                                    " or newer: the framework finds no device"),
                       absl::StrCat("driver ", row.driver, " on ", part.node(),
                                    ", or a framework built for an older CUDA")});
      AddNumber(finding, "driver", driver);
      AddNumber(finding, "oldest that fits", row.driver);
      finding.set_node(part.node());
      return finding;
    }
  }
  return std::nullopt;
}

}  // namespace

// The driver is too old for the toolkit that the framework was built with, or the framework does
// not support the device.
// Silent: where versions are not recorded and nothing was printed about it; about an attempt that
// ended for another reason; when a later attempt runs.
std::optional<v1::Finding> VersionMismatch(const Evidence& evidence, const v1::Ledger&) {
  if (evidence.job.attempts().empty()) return std::nullopt;
  const v1::Attempt& attempt = *evidence.job.attempts().rbegin();
  if (std::optional<v1::Finding> finding = FromVersions(evidence, attempt)) return finding;
  if (!attempt.has_culprit()) return std::nullopt;
  const Printed* printed = FindPrinted(attempt.culprit());
  if (printed == nullptr) return std::nullopt;
  v1::Finding finding =
      MakeFinding(v1::FINDING_SEVERITY_ERROR,
                  {common::StrCat("driver, toolkit or framework on ", attempt.culprit().node(),
                                  " do not match: ", printed->text),
                   std::string(printed->cause), std::string(printed->fix)});
  finding.add_ranks(attempt.culprit().rank());
  finding.set_node(attempt.culprit().node());
  return finding;
}

}  // namespace muster::coordinator
