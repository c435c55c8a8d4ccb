#include "client/job_file/job_file.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_split.h"
#include "client/command_line/command.h"
#include "client/command_line/errors.h"
#include "client/command_line/peer_words.h"
#include "client/job_file/job_file_notify.h"
#include "client/job_file/job_sets.h"
#include "client/job_file/yaml.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/job/shape.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

using common::StrCat;
using Kind = YamlNode::Kind;

const JobKey* FindKey(std::string_view path) {
  for (const JobKey& key : JobKeys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

std::string Shown(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a section";
    case Kind::kScalar:
      break;
  }
  return StrCat("\"", node.text, "\"");
}

class Reader {
 public:
  Reader(v1::JobSpec* spec, JobFile* file, std::vector<YamlProblem>* problems)
      : spec_(spec), file_(file), problems_(problems) {}

  void ReadMap(const YamlNode& map, const std::string& section) {
    for (const YamlNode::Entry& entry : map.entries) {
      const std::string path = section.empty() ? entry.key : StrCat(section, ".", entry.key);
      const JobKey* key = FindKey(path);
      if (key == nullptr) {
        Unknown(entry, section);
      } else if (key->type == KeyType::kSection) {
        if (entry.value.kind == Kind::kMap) {
          ReadMap(entry.value, path);
        } else if (entry.value.kind != Kind::kNull) {
          Wrong(entry.value, path, "a section of keys");
        }
      } else {
        ReadKey(*key, entry.value);
      }
    }
  }

 private:
  void Add(int line, int column, std::string text) {
    problems_->push_back({line, column, std::move(text)});
  }
  void Wrong(const YamlNode& node, std::string_view path, std::string_view wanted) {
    Add(node.line, node.column, StrCat(path, " takes ", wanted, ", not ", Shown(node)));
  }

  void Unknown(const YamlNode::Entry& entry, const std::string& section) {
    const std::string unknown =
        StrCat("unknown key \"", entry.key, "\"", section.empty() ? "" : StrCat(" in ", section));
    // A peer's name first, then the nearest key of this section, then the same key in another
    // section.
    std::string nearest(PeerKey(entry.key));
    const Absent* absent =
        nearest.empty() && FindKey(entry.key) == nullptr ? FindAbsent(entry.key) : nullptr;
    if (absent != nullptr) {
      Add(entry.line, entry.column, StrCat(unknown, ": ", absent->what, "; ", absent->fix));
      return;
    }
    if (nearest.empty()) {
      std::vector<std::string_view> names;
      for (const JobKey& key : JobKeys()) {
        const size_t dot = key.path.rfind('.');
        const std::string_view parent =
            dot == std::string_view::npos ? "" : key.path.substr(0, dot);
        if (parent == section)
          names.push_back(dot == std::string_view::npos ? key.path : key.path.substr(dot + 1));
      }
      nearest = common::Nearest(entry.key, names);
      if (nearest.empty() && !section.empty() && FindKey(entry.key) != nullptr) {
        nearest = StrCat(entry.key, "\" outside of \"", section);
      }
    } else if (!section.empty() && nearest.starts_with(section + ".")) {
      nearest = nearest.substr(section.size() + 1);
    }
    Add(entry.line, entry.column, StrCat(unknown, common::DidYouMean(nearest)));
  }

  void ReadKey(const JobKey& key, const YamlNode& node) {
    if (node.kind == Kind::kNull) {
      Add(node.line, node.column, StrCat(key.path, " has no value; give one or remove the key"));
      return;
    }
    KeyValue value;
    if (!ReadValue(key, node, &value)) return;
    if (key.path == "clean_env") file_->clean_env = value.number != 0;
    if (key.path == "env_from") file_->env_from_shell = true;
    if (key.path == "sync") file_->sync = value.number != 0;
    if (key.apply != nullptr) key.apply(value, spec_);
  }

  bool ReadValue(const JobKey& key, const YamlNode& node, KeyValue* value) {
    switch (key.type) {
      case KeyType::kString:
        return ReadText(key, node, &value->text);
      case KeyType::kCommand:
        return ReadCommand(key, node, value);
      case KeyType::kStringList:
        return ReadList(key, node, value);
      case KeyType::kStringMap:
        return ReadStringMap(key, node, value);
      case KeyType::kInteger:
        return ReadInteger(key, node, value);
      case KeyType::kDuration:
        return ReadDuration(key, node, value);
      case KeyType::kBoolean:
        return ReadBoolean(key, node, value);
      case KeyType::kChoice:
        return ReadChoice(key, node, value);
      case KeyType::kNodes:
        return ReadNodes(key, node, value);
      case KeyType::kDevices: {
        if (!ReadText(key, node, &value->text)) return false;
        const absl::Status parsed = job::ParseDevices(
            value->text, spec_->mutable_shape()->mutable_device(), &file_->device_total);
        if (!parsed.ok()) Add(node.line, node.column, StrCat(key.path, ": ", Sentence(parsed)));
        return parsed.ok();
      }
      case KeyType::kCpus:
        return ReadLimit(key, node, job::ParseCpus);
      case KeyType::kMemory:
        return ReadLimit(key, node, job::ParseRankMemory);
      case KeyType::kNotify:
        ReadNotify(node, spec_, problems_);
        return false;
      case KeyType::kScript:
        if (node.kind != Kind::kScalar) return ReadList(key, node, value);
        value->list = ScriptCommand(node.text);
        return true;
      case KeyType::kMounts:
        return ReadMounts(key, node);
      case KeyType::kSize:
        return ReadSize(key, node, value);
      case KeyType::kSection:
        break;
    }
    return false;
  }

  bool ReadLimit(const JobKey& key, const YamlNode& node,
                 absl::Status (*parse)(std::string_view, v1::RankLimits*)) {
    std::string text;
    if (!ReadText(key, node, &text)) return false;
    const absl::Status parsed = parse(text, spec_->mutable_shape()->mutable_limits());
    if (!parsed.ok()) Add(node.line, node.column, StrCat(key.path, ": ", Sentence(parsed)));
    return parsed.ok();
  }

  bool ReadText(const JobKey& key, const YamlNode& node, std::string* text) {
    if (node.kind != Kind::kScalar) {
      Wrong(node, key.path, "a text");
      return false;
    }
    *text = node.text;
    return true;
  }

  bool ReadList(const JobKey& key, const YamlNode& node, KeyValue* value) {
    if (node.kind == Kind::kScalar) {
      value->list = {node.text};
      return true;
    }
    if (node.kind != Kind::kList) {
      Wrong(node, key.path, "a list of texts");
      return false;
    }
    bool good = true;
    for (const YamlNode& item : node.items) {
      if (item.kind == Kind::kScalar) {
        value->list.push_back(item.text);
      } else {
        Wrong(item, StrCat("an item of ", key.path), "a text");
        good = false;
      }
    }
    return good;
  }

  bool ReadCommand(const JobKey& key, const YamlNode& node, KeyValue* value) {
    if (node.kind == Kind::kScalar) {
      value->list = {"sh", "-c", node.text};
      return true;
    }
    return ReadList(key, node, value);
  }

  bool ReadStringMap(const JobKey& key, const YamlNode& node, KeyValue* value) {
    if (node.kind != Kind::kMap) {
      Wrong(node, key.path, "a map of names to texts");
      return false;
    }
    bool good = true;
    for (const YamlNode::Entry& entry : node.entries) {
      if (entry.value.kind == Kind::kScalar) {
        value->map.emplace_back(entry.key, entry.value.text);
      } else if (entry.value.kind == Kind::kNull) {
        value->map.emplace_back(entry.key, "");
      } else {
        Wrong(entry.value, StrCat(key.path, ".", entry.key), "a text");
        good = false;
      }
    }
    return good;
  }

  bool ReadInteger(const JobKey& key, const YamlNode& node, KeyValue* value) {
    const absl::StatusOr<int64_t> number = common::ParseInteger(node.text);
    if (node.kind != Kind::kScalar || node.quoted || !number.ok() || *number < key.least ||
        *number > key.most) {
      Wrong(node, key.path, StrCat("a whole number from ", key.least, " to ", key.most));
      return false;
    }
    value->number = *number;
    return true;
  }

  bool ReadDuration(const JobKey& key, const YamlNode& node, KeyValue* value) {
    const absl::StatusOr<int64_t> duration = common::ParseDurationMs(node.text);
    if (node.kind != Kind::kScalar || !duration.ok() || *duration < key.least ||
        *duration > key.most) {
      Wrong(node, key.path,
            StrCat("a duration like 30s, 10m or 2h, from ", common::HumanDuration(key.least),
                   " to ", common::HumanDuration(key.most)));
      return false;
    }
    value->number = *duration;
    return true;
  }

  bool ReadBoolean(const JobKey& key, const YamlNode& node, KeyValue* value) {
    if (node.kind != Kind::kScalar || node.quoted ||
        (node.text != "true" && node.text != "false")) {
      Wrong(node, key.path, "true or false");
      return false;
    }
    value->number = node.text == "true" ? 1 : 0;
    return true;
  }

  bool ReadChoice(const JobKey& key, const YamlNode& node, KeyValue* value) {
    std::string_view left = key.choices;
    for (int index = 0; node.kind == Kind::kScalar && !left.empty(); ++index) {
      const size_t bar = std::min(left.find('|'), left.size());
      if (left.substr(0, bar) == node.text) {
        value->number = index;
        return true;
      }
      left.remove_prefix(std::min(bar + 1, left.size()));
    }
    std::string wanted(key.choices);
    if (const size_t bar = wanted.find('|'); bar != std::string::npos)
      wanted.replace(bar, 1, " or ");
    Wrong(node, key.path, wanted);
    return false;
  }

  bool ReadSize(const JobKey& key, const YamlNode& node, KeyValue* value) {
    const absl::StatusOr<uint64_t> bytes = common::ParseByteSize(node.text);
    if (node.kind != Kind::kScalar || !bytes.ok() || *bytes > uint64_t{INT64_MAX}) {
      Wrong(node, key.path, "a size like 512MiB (powers of 1,024) or 4GB (powers of 1,000)");
      return false;
    }
    value->number = static_cast<int64_t>(*bytes);
    return true;
  }

  // "SRC", "SRC:DST" or "SRC:DST:ro".
  bool ReadMounts(const JobKey& key, const YamlNode& node) {
    KeyValue texts;
    if (!ReadList(key, node, &texts)) return false;
    bool good = true;
    for (size_t i = 0; i < texts.list.size(); ++i) {
      const std::vector<std::string> parts = absl::StrSplit(texts.list[i], ':');
      const bool whole = std::none_of(parts.begin(), parts.end(),
                                      [](const std::string& part) { return part.empty(); });
      if (!whole || parts.size() > 3 || (parts.size() == 3 && parts[2] != "ro")) {
        const YamlNode& item = node.kind == Kind::kList ? node.items[i] : node;
        Wrong(item, StrCat("an item of ", key.path), "SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro");
        good = false;
        continue;
      }
      v1::Mount* mount = spec_->mutable_container()->add_mounts();
      mount->set_source(parts[0]);
      if (parts.size() > 1) mount->set_target(parts[1]);
      mount->set_read_only(parts.size() == 3);
    }
    return good;
  }

  bool ReadNodes(const JobKey& key, const YamlNode& node, KeyValue* value) {
    const size_t colon = node.text.find(':');
    const absl::StatusOr<int64_t> least = common::ParseInteger(node.text.substr(0, colon));
    const absl::StatusOr<int64_t> most =
        colon == std::string::npos ? least : common::ParseInteger(node.text.substr(colon + 1));
    if (node.kind != Kind::kScalar || !least.ok() || !most.ok() || *least < key.least ||
        *most < *least || *most > key.most) {
      Wrong(node, key.path, StrCat("N or MIN:MAX from ", key.least, " to ", key.most));
      return false;
    }
    value->number = *least;
    value->number2 = *most;
    return true;
  }

  v1::JobSpec* spec_;
  JobFile* file_;
  std::vector<YamlProblem>* problems_;
};

}  // namespace

std::vector<std::string> ScriptCommand(const std::string& script) {
  return {"/bin/sh", "-e", "-c", script};
}

absl::StatusOr<JobFile> ParseJobFile(const std::string& name, std::string_view content,
                                     const std::vector<std::string>& sets, v1::JobSpec* spec) {
  JobFile file;
  std::vector<YamlProblem> problems;
  YamlNode root = ParseYaml(content, &problems);
  if (problems.empty() && root.kind != YamlNode::Kind::kMap) {
    problems.push_back(
        {1, 1, "a job file is a map of keys; the smallest is `command: [python, train.py]`"});
  }
  ApplySets(sets, &root, &problems);
  Reader(spec, &file, &problems).ReadMap(root, "");
  if (problems.empty()) return file;
  const bool only_sets = std::all_of(problems.begin(), problems.end(),
                                     [](const YamlProblem& problem) { return problem.line < 0; });
  const bool is_script =
      content.starts_with("#!") || name.ends_with(".py") || name.ends_with(".sh");
  if (is_script && root.kind != YamlNode::Kind::kMap) {
    return Usage(
        "JC1101", StrCat(name, " is a script, not a job file"),
        StrCat("jobctl submit -- ", name.ends_with(".py")                 ? StrCat("python ", name)
                                    : name.ends_with(".sh")               ? StrCat("sh ", name)
                                    : name.find('/') == std::string::npos ? StrCat("./", name)
                                                                          : name));
  }
  NameSets(sets, &problems);
  const std::string count = common::Counted(problems.size(), "error");
  if (only_sets) {
    return Usage("JC1101", StrCat(count, " in --set\n", FormatProblems(name, std::move(problems))),
                 "correct it; jobctl help jobfile lists the keys");
  }
  return Usage("JC1101",
               StrCat(name, " has ", count, "\n", FormatProblems(name, std::move(problems))),
               StrCat("correct the lines, then run jobctl validate ", name));
}

std::string JobFileName(const std::string& path) { return path == "-" ? "stdin" : path; }

absl::StatusOr<std::string> ReadJobFile(const std::string& path) {
  std::string content;
  if (path == "-") {
    // One byte over the limit is enough to know.
    content.resize(common::kSpecBytesMax + 1);
    std::cin.read(content.data(), static_cast<std::streamsize>(content.size()));
    content.resize(static_cast<size_t>(std::cin.gcount()));
  } else {
    absl::StatusOr<std::string> read = common::ReadFileOrPipe(path, common::kSpecBytesMax + 1);
    if (read.ok()) {
      content = *std::move(read);
    } else if (read.status().code() == absl::StatusCode::kResourceExhausted ||
               read.status().code() == absl::StatusCode::kOutOfRange ||
               read.status().code() == absl::StatusCode::kInvalidArgument) {
      content.resize(common::kSpecBytesMax + 1);
    } else {
      return Usage(
          "JC1005",
          StrCat("the job file cannot be read: ", common::FromAbsl(read.status().message())),
          StrCat("ls -l ", path));
    }
  }
  if (content.size() <= common::kSpecBytesMax) return content;
  return Usage("JC1102",
               StrCat(JobFileName(path), " is larger than ", common::kSpecBytesMax / 1024, " KiB"),
               "move data into files next to the job");
}

}  // namespace muster::client
