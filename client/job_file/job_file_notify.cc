#include "client/job_file/job_file_notify.h"

#include "common/text/strings.h"
#include "common/text/url.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

using common::StrCat;
using NodeKind = YamlNode::Kind;
using Problems = std::vector<YamlProblem>;

void AddWhen(const YamlNode& node, v1::Notify* notify, Problems* problems) {
  if (node.kind == NodeKind::kScalar && node.text == "end") {
    notify->add_on(v1::NOTIFY_ON_END);
  } else if (node.kind == NodeKind::kScalar && node.text == "failure") {
    notify->add_on(v1::NOTIFY_ON_FAILURE);
  } else if (node.kind == NodeKind::kScalar && node.text == "finding") {
    notify->add_on(v1::NOTIFY_ON_FINDING);
  } else {
    problems->push_back(
        {node.line, node.column, "notify.on takes end, failure, finding, or a list of them"});
  }
}

void ReadUrl(const YamlNode& node, v1::Notify* notify, Problems* problems) {
  const auto url = common::ParseHttpUrl(node.text);
  if (node.kind != NodeKind::kScalar || !url.ok()) {
    problems->push_back(
        {node.line, node.column,
         StrCat("notify.webhook ", node.kind != NodeKind::kScalar
                                       ? "takes a URL"
                                       : common::FromAbsl(url.status().message()))});
    return;
  }
  notify->set_webhook(node.text);
}

// One string is a line for the shell, like the job's own command.
void ReadNotifyCommand(const YamlNode& node, v1::Notify* notify, Problems* problems) {
  if (node.kind == NodeKind::kScalar && !node.text.empty()) {
    for (const char* word : {"sh", "-c"}) notify->add_command(word);
    notify->add_command(node.text);
    return;
  }
  for (const YamlNode& item : node.items) {
    if (item.kind == NodeKind::kScalar) notify->add_command(item.text);
  }
  if (node.kind != NodeKind::kList || notify->command_size() == 0 ||
      notify->command_size() != static_cast<int>(node.items.size())) {
    problems->push_back({node.line, node.column,
                         "notify.command takes a list of words, or one line for the shell: "
                         "command: [mail, -s, \"it is over\", me@example.org]"});
  }
}

void ReadEntry(const YamlNode::Entry& entry, v1::Notify* notify, Problems* problems) {
  const YamlNode& value = entry.value;
  if (entry.key == "on" && value.kind == NodeKind::kList) {
    for (const YamlNode& item : value.items) AddWhen(item, notify, problems);
  } else if (entry.key == "on") {
    AddWhen(value, notify, problems);
  } else if (entry.key == "webhook") {
    ReadUrl(value, notify, problems);
  } else if (entry.key == "secret_env" && value.kind == NodeKind::kScalar) {
    notify->set_secret_env(value.text);
  } else if (entry.key == "command") {
    ReadNotifyCommand(value, notify, problems);
  } else {
    problems->push_back({entry.line, entry.column,
                         StrCat("unknown key \"", entry.key,
                                "\" in notify: it has on, webhook, secret_env and command")});
  }
}

}  // namespace

void ReadNotify(const YamlNode& node, v1::JobSpec* spec, Problems* problems) {
  if (node.kind != NodeKind::kList) {
    problems->push_back({node.line, node.column,
                         "notify takes a list: notify: [{on: [failure], webhook: \"https://…\"}]"});
    return;
  }
  for (const YamlNode& item : node.items) {
    v1::Notify* notify = spec->add_notify();
    if (item.kind != NodeKind::kMap) {
      problems->push_back(
          {item.line, item.column, "an item of notify takes on, and webhook or command"});
      continue;
    }
    const size_t before = problems->size();
    for (const YamlNode::Entry& entry : item.entries) ReadEntry(entry, notify, problems);
    if (notify->webhook().empty() && notify->command().empty() && problems->size() == before)
      problems->push_back(
          {item.line, item.column, "an item of notify needs a webhook or a command"});
  }
}

}  // namespace muster::client
