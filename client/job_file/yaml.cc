#include "client/job_file/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

constexpr size_t kDepthMax = 16;
constexpr size_t kValuesMax = 20'000;

// Thrown and caught only inside ParseYaml: yaml-cpp has no other way to stop.
struct Stop {};

bool IsBareBoolean(std::string_view text) {
  constexpr std::string_view kWords[] = {"yes", "no", "on", "off"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    return absl::EqualsIgnoreCase(common::ToAbsl(word), common::ToAbsl(text));
  });
}

bool HasLeadingZero(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Builder final : public YAML::EventHandler {
 public:
  Builder(std::vector<YamlProblem>* problems, bool lenient)
      : problems_(problems), lenient_(lenient) {}

  YamlNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Fail(mark, "a second document starts here; use one per file");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Place(Node(mark, YamlNode::Kind::kNull), mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Add(mark, "aliases (*name) are not allowed; write out the value");
    Place(Node(mark, YamlNode::Kind::kNull), mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    YamlNode node = Node(mark, YamlNode::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    if (!tag.empty() && tag != "!" && tag != "?")
      Add(mark, common::StrCat("tags (", tag, ") are not allowed"));
    if (!node.quoted && !lenient_ && !AtKey()) CheckPlain(mark, value);
    if (!node.quoted && (value == "~" || value == "null" || value == "Null" || value == "NULL")) {
      node.kind = YamlNode::Kind::kNull;
    }
    Place(std::move(node), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    YamlNode node;
    bool has_key = false;
    YamlNode::Entry entry;
  };

  static YamlNode Node(const YAML::Mark& mark, YamlNode::Kind kind) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void Add(const YAML::Mark& mark, std::string text) {
    problems_->push_back({mark.line + 1, mark.column + 1, std::move(text)});
  }
  void Fail(const YAML::Mark& mark, std::string text) {
    Add(mark, std::move(text));
    throw Stop();
  }
  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0)
      Add(mark, "anchors (&name) are not allowed; write out the value where it is used");
  }
  bool AtKey() const {
    return !levels_.empty() && levels_.back().node.kind == YamlNode::Kind::kMap &&
           !levels_.back().has_key;
  }
  void CheckPlain(const YAML::Mark& mark, const std::string& value) {
    if (IsBareBoolean(value)) {
      Add(mark, common::StrCat(
                    "`", value,
                    "` means different things to different readers; write true or false, or \"",
                    value, "\" for the word"));
    } else if (HasLeadingZero(value)) {
      Add(mark, common::StrCat(
                    "`", value,
                    "` has a leading zero, which some readers take as octal; write it without, "
                    "or \"",
                    value, "\" for the text"));
    }
  }
  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    RefuseAnchor(mark, anchor);
    if (AtKey()) Fail(mark, "a key must be a word");
    if (levels_.size() >= kDepthMax)
      Fail(mark, common::StrCat("more than ", kDepthMax, " levels deep"));
    levels_.push_back({Node(mark, kind), false, {}});
  }
  void Close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    YAML::Mark mark;
    Place(std::move(node), mark);
  }
  void Place(YamlNode node, const YAML::Mark& mark) {
    if (++values_ > kValuesMax) Fail(mark, common::StrCat("more than ", kValuesMax, " values"));
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(node));
    } else if (!level.has_key) {
      TakeKey(&level, std::move(node), mark);
    } else {
      level.entry.value = std::move(node);
      level.node.entries.push_back(std::move(level.entry));
      level.entry = {};
      level.has_key = false;
    }
  }
  void TakeKey(Level* level, YamlNode key, const YAML::Mark& mark) {
    level->has_key = true;
    level->entry.key = key.text;
    level->entry.line = key.line;
    level->entry.column = key.column;
    if (key.kind != YamlNode::Kind::kScalar) Add(mark, "a key must be a word");
    if (key.text == "<<" && !key.quoted)
      Add(mark, "`<<` (merge) is not allowed; write out the keys");
    for (const YamlNode::Entry& other : level->node.entries) {
      if (other.key == key.text) {
        Add(mark,
            common::StrCat("\"", key.text, "\" is given twice; the first is on line ", other.line));
        return;
      }
    }
  }

  std::vector<YamlProblem>* problems_;
  bool lenient_;
  std::vector<Level> levels_;
  YamlNode root_;
  size_t values_ = 0;
  int documents_ = 0;
};

// Column (from 1) of a tab in the indentation of line `number` (from 1), or 0.
int IndentingTab(std::string_view content, int number) {
  for (int line = 1; line < number; ++line) {
    const size_t end = content.find('\n');
    if (end == std::string_view::npos) return 0;
    content.remove_prefix(end + 1);
  }
  const size_t tab = content.find_first_not_of(' ');
  return number > 0 && tab != std::string_view::npos && content[tab] == '\t'
             ? static_cast<int>(tab) + 1
             : 0;
}

// What yaml-cpp failed on. For a tab, it reports how it interpreted the line, but does not mention
// the tab.
YamlProblem Explained(std::string_view content, const YAML::Exception& error) {
  const int line = error.mark.line + 1;
  for (const int suspect : {line, line - 1}) {
    if (const int column = IndentingTab(content, suspect); column > 0) {
      return {suspect, column,
              "this line is indented with a tab, and YAML allows only spaces for that; use spaces"};
    }
  }
  return {line, error.mark.column + 1, common::StrCat("not valid YAML: ", error.msg)};
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlNode ParseYaml(std::string_view content, std::vector<YamlProblem>* problems, bool lenient) {
  int line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] == '\n') {
      if (!common::IsUtf8Text(content.substr(
              line_start, i - line_start - (i > line_start && content[i - 1] == '\r')))) {
        problems->push_back({line, 1, "this line has control characters or is not UTF-8"});
        return {};
      }
      ++line;
      line_start = i + 1;
    }
  }
  if (!common::IsUtf8Text(content.substr(line_start))) {
    problems->push_back({line, 1, "this line has control characters or is not UTF-8"});
    return {};
  }
  Builder builder(problems, lenient);
  try {
    std::istringstream stream{std::string(content)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
  } catch (const YAML::Exception& error) {
    problems->push_back(Explained(content, error));
  }
  return builder.Take();
}

std::string FormatProblems(std::string_view file, std::vector<YamlProblem> problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const YamlProblem& a, const YamlProblem& b) {
                     return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                   });
  std::string out;
  for (const YamlProblem& problem : problems) {
    const std::string place =
        problem.line > 0 ? common::StrCat(file, ":", problem.line, ":", problem.column, ": ")
                         : std::string();
    common::StrAppend(&out, out.empty() ? "" : "\n", place, problem.text);
  }
  return out;
}

}  // namespace muster::client
