// Validates `notify`: whom a job tells about its end and its findings.
#include "common/job/notify.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/job/refuse.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/url.h"
#include "muster/v1/job.pb.h"

namespace muster::job {

using common::StrCat;

namespace {

absl::Status CheckReceiver(const v1::Notify& notify) {
  if (notify.command().empty()) {
    const absl::StatusOr<common::HttpUrl> url = common::ParseHttpUrl(notify.webhook());
    if (url.ok()) return absl::OkStatus();
    return Refuse("JC1108", StrCat("notify.webhook ", common::FromAbsl(url.status().message())),
                  "webhook: https://HOST/PATH");
  }
  if (!notify.webhook().empty() || !notify.secret_env().empty()) {
    return Refuse("JC1108", "an entry of notify has a command and a webhook",
                  "write two entries of notify, one for each");
  }
  const bool is_cut =
      std::any_of(notify.command().begin(), notify.command().end(),
                  [](const std::string& word) { return word.find('\0') != std::string::npos; });
  if (notify.command(0).empty() || is_cut) {
    return Refuse(
        "JC1108",
        is_cut ? "a word of notify.command holds a zero byte" : "notify.command names no program",
        "command: [PROGRAM, ARGUMENT]");
  }
  return absl::OkStatus();
}

absl::Status CheckOn(const v1::Notify& notify) {
  constexpr v1::NotifyOn kKnown[] = {v1::NOTIFY_ON_END, v1::NOTIFY_ON_FAILURE,
                                     v1::NOTIFY_ON_FINDING};
  for (const int on : notify.on()) {
    if (std::count(std::begin(kKnown), std::end(kKnown), on) == 0) {
      return Refuse("JC1108", StrCat("notify.on ", on, " is not known"),
                    "on: [end, failure, finding]");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNotify(const v1::JobSpec& spec) {
  if (spec.notify_size() > kNotifyMax) {
    return Refuse("JC1108",
                  StrCat("notify has ", spec.notify_size(), " entries; the limit is ", kNotifyMax),
                  "let one receiver pass it on");
  }
  for (const v1::Notify& notify : spec.notify()) {
    RETURN_IF_ERROR(CheckReceiver(notify));
    RETURN_IF_ERROR(CheckOn(notify));
    if (!notify.secret_env().empty() && !spec.env().contains(notify.secret_env())) {
      return Refuse("JC1108",
                    StrCat("notify.secret_env names ", common::Printable(notify.secret_env()),
                           ", which is not in the job's environment"),
                    StrCat("export it before submitting, or -e ",
                           common::Printable(notify.secret_env()), "=SECRET"));
    }
  }
  return absl::OkStatus();
}

void HideWebhooks(v1::JobSpec& spec) {
  for (v1::Notify& notify : *spec.mutable_notify()) {
    if (notify.webhook().empty()) continue;
    const absl::StatusOr<common::HttpUrl> url = common::ParseHttpUrl(notify.webhook());
    if (url.ok() && url->target == "/") continue;
    const char* const scheme = url.ok() && url->is_https ? "https://" : "http://";
    notify.set_webhook(url.ok() ? StrCat(scheme, url->Authority(), "/(hidden)") : "(hidden)");
  }
}

}  // namespace muster::job
