// Whom a job tells about its end: what may be asked for.
#include "common/job/notify.h"

#include "common/job/refuse.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/url.h"
#include "muster/v1/job.pb.h"

namespace muster::job {

using common::StrCat;

absl::Status CheckNotify(const v1::JobSpec& spec) {
  if (spec.notify_size() > kNotifyMax) {
    return Refuse("JC1108",
                  StrCat("notify has ", spec.notify_size(), " entries; the limit is ", kNotifyMax),
                  "let one receiver pass it on");
  }
  for (const v1::Notify& notify : spec.notify()) {
    const absl::StatusOr<common::HttpUrl> url = common::ParseHttpUrl(notify.webhook());
    if (!url.ok()) {
      return Refuse("JC1108", StrCat("notify.webhook ", common::FromAbsl(url.status().message())),
                    "webhook: https://HOST/PATH");
    }
    for (const int on : notify.on()) {
      if (on != v1::NOTIFY_ON_END && on != v1::NOTIFY_ON_FAILURE)
        return Refuse("JC1108", StrCat("notify.on ", on, " is not known"), "on: [end, failure]");
    }
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

}  // namespace muster::job
