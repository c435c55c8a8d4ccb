#include "client/text/code_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "client/job_file/job_file.h"
#include "client/text/record_text.h"
#include "common/job/code.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr size_t kHashShown = 12;

// The script of a setup that was written as one text; empty: it was not.
std::string ScriptOf(const v1::JobSpec& spec) {
  const std::vector<std::string> setup(spec.setup().begin(), spec.setup().end());
  if (setup.empty() || setup != ScriptCommand(setup.back())) return "";
  return setup.back();
}

std::string MountText(const v1::Mount& mount) {
  return StrCat(mount.source(),
                job::TargetOf(mount) == mount.source() ? "" : StrCat(" at ", mount.target()),
                mount.read_only() ? " read-only" : "");
}

}  // namespace

std::string WithCommas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string CountedFiles(uint64_t files) {
  return StrCat(WithCommas(files), files == 1 ? " file" : " files");
}

std::string CommitText(const v1::CodeTree& code) {
  if (code.git_commit().empty()) return "";
  return StrCat(code.git_commit().substr(0, kHashShown), code.git_dirty() ? " with changes" : "");
}

std::string CodeText(const v1::CodeTree& code) {
  std::string text = StrCat(code.tree().substr(0, kHashShown), ": ", CountedFiles(code.files()),
                            ", ", common::HumanBytes(code.bytes()));
  if (const std::string commit = CommitText(code); !commit.empty())
    StrAppend(&text, ", commit ", commit);
  if (!code.from().empty()) StrAppend(&text, ", from ", code.from());
  return text;
}

std::string DirectoryText(const v1::JobSpec& spec) {
  if (!spec.has_code()) return spec.workdir();
  return spec.workdir().empty() ? "of the code" : StrCat(spec.workdir(), " of the code");
}

std::string SetupText(const v1::JobSpec& spec) {
  if (const std::string script = ScriptOf(spec); !script.empty()) return script;
  std::string text;
  for (const std::string& word : spec.setup())
    StrAppend(&text, text.empty() ? "" : " ", ShellQuote(word));
  return text;
}

std::string ContainerText(const v1::ContainerSpec& container) {
  std::string text = container.image();
  const auto add = [&text](const std::string& part) {
    StrAppend(&text, text.empty() ? "" : ", ", part);
  };
  for (const v1::Mount& mount : container.mounts()) add(MountText(mount));
  if (container.shm_bytes() > 0)
    add(StrCat(common::ExactBytes(container.shm_bytes()), " of /dev/shm"));
  return text;
}

std::string PreparationText(const v1::Preparation& preparation, const v1::JobSpec& spec) {
  if (!preparation.doing().empty()) return preparation.doing();
  std::string text;
  const auto add = [&text](const std::string& part) {
    StrAppend(&text, text.empty() ? "" : "; ", part);
  };
  if (spec.has_code()) {
    add(preparation.fetched_bytes() == 0
            ? "code was there"
            : StrCat("code: ", common::HumanBytes(preparation.fetched_bytes()), " fetched"));
  }
  if (!spec.setup().empty()) {
    const std::string took = Took(preparation.setup_ms());
    add(preparation.setup_failed() ? StrCat("setup failed after ", took)
        : preparation.ran_setup()  ? StrCat("setup took ", took)
                                   : StrCat("setup cached (it took ", took, ")"));
  }
  if (!preparation.image().empty()) add(StrCat("image ", preparation.image()));
  return text;
}

std::string SetupOutputText(const v1::NodePart& part) {
  const v1::Preparation& preparation = part.preparation();
  const std::string head = StrCat("[", common::Printable(part.node()), "] ");
  const std::string took = Took(preparation.setup_ms());
  std::string text = head;
  if (!preparation.doing().empty()) {
    StrAppend(&text, common::Printable(preparation.doing()), "\n");
  } else if (preparation.setup_failed()) {
    StrAppend(&text, "setup failed after ", took, "\n");
  } else {
    StrAppend(&text, preparation.ran_setup() ? "setup took " : "setup was done before; it took ",
              took, "\n");
  }
  std::string_view left = preparation.setup_output();
  while (!left.empty()) {
    const size_t end = std::min(left.find('\n'), left.size());
    StrAppend(&text, head, common::Printable(left.substr(0, end)), "\n");
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return text;
}

std::string CodeFlags(const v1::JobSpec& spec) {
  std::string flags;
  if (spec.has_code()) {
    const std::string& from = spec.code().from();
    const size_t colon = from.find(':');
    const std::string root = colon == std::string::npos ? "" : from.substr(colon + 1);
    StrAppend(&flags, " ", ShellQuote(root.empty() ? "--sync" : StrCat("--sync=", root)));
  }
  if (!spec.workdir().empty()) StrAppend(&flags, " --workdir ", ShellQuote(spec.workdir()));
  if (!spec.setup().empty()) StrAppend(&flags, " --setup ", ShellQuote(SetupText(spec)));
  for (const std::string& path : spec.outputs()) StrAppend(&flags, " --outputs ", ShellQuote(path));
  if (!spec.container().image().empty())
    StrAppend(&flags, " --image ", ShellQuote(spec.container().image()));
  return flags;
}

}  // namespace muster::client
