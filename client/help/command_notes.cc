#include "client/help/command_notes.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "client/launchers/launchers.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

// A launcher that Muster does not recognize starts its own processes, which is rarely intended.
void NoteInnerLauncher(Session& session, const Arguments& arguments, const v1::JobSpec& spec) {
  const std::vector<std::string> command(spec.command().begin(), spec.command().end());
  const std::string launcher = InnerLauncher(command);
  if (launcher.empty()) return;
  const bool one = spec.shape().processes() == 1;
  const bool understood = launcher.starts_with("torch") || launcher.starts_with("accelerate");
  const std::string verb = arguments.has_rest() ? std::string(arguments.command().name) : "submit";
  session.Note(StrCat("note: ", one ? "one rank runs and starts " : "every rank starts ", launcher,
                      " itself, so Muster does not see its processes; to let Muster run the ranks: "
                      "jobctl ",
                      verb, understood ? StrCat(" -- ", launcher, " …") : " -n N -- PROGRAM …"));
}

// "jobctl run python train.py -n 2": without "--" all of these words belong to the program.
void NoteFlagsBehindProgram(Session& session, const Arguments& arguments) {
  if (!arguments.rest_is_bare() || arguments.Has("processes") || arguments.Has("nodes")) return;
  for (size_t i = 1; i < arguments.rest().size(); ++i) {
    const std::string& word = arguments.rest()[i];
    if (word != "-n" && !word.starts_with("--processes") && !word.starts_with("--nodes")) continue;
    return session.Note(StrCat("note: ", common::Printable(word),
                               " comes after the program, which gets it; for jobctl: jobctl ",
                               std::string(arguments.command().name), " -n N -- ",
                               common::Printable(arguments.rest()[0]), " …"));
  }
}

bool IsSetForRanks(const v1::JobSpec& spec, std::string_view name) {
  return spec.env().contains(std::string(name)) || name.starts_with("MUSTER_") ||
         IsRankVariable(name);
}

// "${LR}" in `word`, if the ranks have LR. A word with blanks is itself a script (python -c, awk), as is every word
// of a shell.
std::string VariableIn(const v1::JobSpec& spec, std::string_view word) {
  if (word.find_first_of(" \t\n") != word.npos) return "";
  for (size_t at = word.find("${"); at != word.npos; at = word.find("${", at + 1)) {
    const size_t end = word.find('}', at);
    if (end == word.npos) return "";
    if (IsSetForRanks(spec, word.substr(at + 2, end - at - 2)))
      return std::string(word.substr(at, end + 1 - at));
  }
  return "";
}

void NoteVariables(Session& session, const v1::JobSpec& spec) {
  if (spec.command().empty()) return;
  const std::string program = std::filesystem::path(spec.command(0)).filename();
  if (program.ends_with("sh")) return;
  for (const std::string& word : spec.command()) {
    const std::string variable = VariableIn(spec, word);
    if (variable.empty()) continue;
    return session.Note(StrCat(
        "note: the program gets ", common::Printable(variable),
        " as it is written, since no shell reads the command; for its value: sh -c '…', in a "
        "job file a command that is one string"));
  }
}

}  // namespace

void NoteCommand(Session& session, const Arguments& arguments, const v1::JobSpec& spec) {
  NoteInnerLauncher(session, arguments, spec);
  NoteFlagsBehindProgram(session, arguments);
  NoteVariables(session, spec);
}

}  // namespace muster::client
