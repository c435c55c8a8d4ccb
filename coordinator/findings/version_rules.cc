// Rules about a driver, toolkit and framework that do not match: judged from recorded versions, and
// from what ranks printed when the mismatch made them fail.
#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "coordinator/core/views/last_words.h"
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

// Messages that frameworks and libraries print, in lower case.
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

// Null: the rank printed none of these just before it ended, or did not end because of what it
// printed.
const Printed* FindPrinted(const v1::RankExit& exit) {
  if (exit.stopped_by_us() || IsSentByPeople(exit.signal())) return nullptr;
  std::string text =
      absl::StrCat(exit.error_message(), "\n", absl::StrJoin(FreshLines(exit), "\n"));
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const Printed& printed : kPrinted) {
    if (text.find(printed.text) != std::string::npos) return &printed;
  }
  return nullptr;
}

// The newest CUDA major version that the driver runs; 0: not known.
int NewestFor(const v1::Versions& versions) {
  if (const int reported = Major(versions.driver_cuda()); reported > 0) return reported;
  const int driver = Major(versions.driver());
  int newest = 0;
  for (const OldestDriver& row : kOldestDrivers) {
    if (driver >= row.driver) newest = row.toolkit;
  }
  return newest;
}

// "driver 580 or newer"
std::string DriverFor(int toolkit) {
  for (const OldestDriver& row : kOldestDrivers) {
    if (row.toolkit == toolkit) return absl::StrCat("driver ", row.driver, " or newer");
  }
  return absl::StrCat("a driver for CUDA ", toolkit);
}

// True if a device of the part was seen working: then the framework has found it, whatever the
// versions are.
bool SeesDevice(const Evidence& evidence, const v1::NodePart& part) {
  return std::any_of(
      evidence.samples.devices().begin(), evidence.samples.devices().end(),
      [&](const auto& entry) { return entry.first.first == part.node() && entry.second.busy > 0; });
}

v1::Finding BuiltWithout(const v1::NodePart& part) {
  return MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {absl::StrCat(part.versions().framework(), " on ", part.node(), " is a build without CUDA"),
       absl::StrCat("the job holds devices of ", part.node(), ", and the framework sees none"),
       "install the framework's CUDA build, or ask for --devices cpu"});
}

std::optional<v1::Finding> TooNew(const v1::NodePart& part) {
  const v1::Versions& versions = part.versions();
  const int toolkit = Major(versions.toolkit());
  const int newest = NewestFor(versions);
  if (toolkit == 0 || newest == 0 || toolkit <= newest) return std::nullopt;
  const std::string limit =
      versions.driver_cuda().empty() ? absl::StrCat(newest) : versions.driver_cuda();
  v1::Finding finding =
      MakeFinding(v1::FINDING_SEVERITY_ERROR,
                  {absl::StrCat(versions.framework(), " is built for CUDA ", versions.toolkit(),
                                ", the driver on ", part.node(), " runs CUDA up to ", limit),
                   absl::StrCat("driver ", versions.driver(), " is too old for CUDA ", toolkit,
                                ": the framework finds no device"),
                   absl::StrCat(DriverFor(toolkit), " on ", part.node(),
                                ", or the framework's build for CUDA ", newest)});
  AddNumber(finding, "driver", Major(versions.driver()));
  AddNumber(finding, "newest CUDA of the driver", newest);
  AddNumber(finding, "CUDA of the framework", toolkit);
  return finding;
}

std::optional<v1::Finding> FromVersions(const Evidence& evidence, const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (!common::IsCudaKind(part.device_kind()) || !part.has_versions() ||
        SeesDevice(evidence, part))
      continue;
    std::optional<v1::Finding> finding = TooNew(part);
    if (!finding.has_value() && part.versions().toolkit() == "cpu") finding = BuiltWithout(part);
    if (!finding.has_value()) continue;
    finding->set_node(part.node());
    return finding;
  }
  return std::nullopt;
}

}  // namespace

// The driver does not fit the toolkit that the framework was built with, or the framework the
// device.
// Silent: where versions are not recorded and nothing was printed about it; without GPUs; once a
// device was busy; about text that was printed long before the end, by an attempt before the
// newest, or by a rank that was ended by Muster or by a signal that people send.
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
