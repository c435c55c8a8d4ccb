#include "client/job_file_notify.h"

#include "common/strings.h"
#include "common/url.h"
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
    problems->push_back(
        {node.line, node.column, "notify.on: finding is not supported yet; use end or failure"});
  } else {
    problems->push_back(
        {node.line, node.column, "notify.on takes end, failure, or a list of them"});
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
    problems->push_back({entry.line, entry.column,
                         "notify.command is not supported yet; use a webhook, or a script that "
                         "waits: jobctl wait JOB && COMMAND"});
  } else {
    problems->push_back(
        {entry.line, entry.column,
         StrCat("unknown key \"", entry.key, "\" in notify: it has on, webhook and secret_env")});
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
      problems->push_back({item.line, item.column, "an item of notify takes on and webhook"});
      continue;
    }
    const size_t before = problems->size();
    for (const YamlNode::Entry& entry : item.entries) ReadEntry(entry, notify, problems);
    if (notify->webhook().empty() && problems->size() == before)
      problems->push_back({item.line, item.column, "an item of notify needs a webhook"});
  }
}

}  // namespace muster::client
