#include "coordinator/core/decide/notices.h"

#include <algorithm>
#include <string>

#include "common/text/text.h"

namespace muster::coordinator {
namespace {

constexpr size_t kSentenceBytesMax = 512;
constexpr int kRanksTold = 16;
constexpr size_t kOutcomeBytesMax = 1'024;
constexpr size_t kOutputBytesMax = 2'048;

bool WantsIt(const v1::Notify& notify) {
  return std::find(notify.on().begin(), notify.on().end(), v1::NOTIFY_ON_FINDING) !=
         notify.on().end();
}

std::string Cut(const std::string& text, size_t bytes_max) {
  return common::Printable(text.substr(0, bytes_max));
}

// The finding stays in the job's record, so it keeps only what a receiver reads.
v1::Finding InShort(const v1::Finding& finding) {
  v1::Finding kept;
  kept.set_code(finding.code());
  kept.set_severity(finding.severity());
  kept.set_sentence(Cut(finding.sentence(), kSentenceBytesMax));
  kept.set_cause(Cut(finding.cause(), kSentenceBytesMax));
  kept.set_fix(Cut(finding.fix(), kSentenceBytesMax));
  for (int i = 0; i < std::min(finding.ranks_size(), kRanksTold); ++i)
    kept.add_ranks(finding.ranks(i));
  kept.set_node(finding.node());
  kept.set_device(finding.device());
  kept.set_attempt(finding.attempt());
  return kept;
}

}  // namespace

bool WantsFindings(const v1::JobSpec& spec) {
  return std::any_of(spec.notify().begin(), spec.notify().end(), WantsIt);
}

bool IsNoticed(const v1::JobRecord& job, std::string_view code, uint32_t attempt) {
  return std::any_of(job.noticed().begin(), job.noticed().end(), [&](const v1::Finding& known) {
    return known.attempt() == attempt && known.code() == code;
  });
}

Decision DecideOn(const ClusterState& state, const FindingInput& input, Now now) {
  Decision decision;
  const auto found = state.jobs.find(input.job);
  if (found == state.jobs.end() || !WantsFindings(found->second.spec())) return decision;
  const v1::JobRecord& job = found->second;
  const v1::Finding& finding = input.finding;
  if (finding.code().empty() || job.noticed_size() >= kNoticedMax ||
      IsNoticed(job, finding.code(), finding.attempt())) {
    return decision;
  }
  v1::Event& event = decision.facts.emplace_back();
  event.set_job(job.id());
  event.set_attempt(finding.attempt());
  event.set_at_ms(now.wall_ms);
  event.set_skippable(true);
  *event.mutable_finding_noticed()->mutable_finding() = InShort(finding);
  for (int i = 0; i < job.spec().notify_size(); ++i) {
    if (WantsIt(job.spec().notify(i)))
      event.mutable_finding_noticed()->add_entries(static_cast<uint32_t>(i));
  }
  return decision;
}

Decision DecideOn(const ClusterState&, const NotifiedInput& input, Now now) {
  Decision decision;
  v1::Event& event = decision.facts.emplace_back();
  event.set_job(input.job);
  event.set_attempt(input.attempt);
  event.set_at_ms(now.wall_ms);
  event.set_skippable(true);
  v1::Notified& notified = *event.mutable_notified();
  notified = input.notified;
  notified.set_outcome(Cut(notified.outcome(), kOutcomeBytesMax));
  notified.set_output(Cut(notified.output(), kOutputBytesMax));
  return decision;
}

}  // namespace muster::coordinator
