#include "coordinator/rpc/code_uploads.h"

#include "common/problem.h"
#include "common/strings.h"

namespace muster::coordinator {

using common::StrCat;

namespace {

constexpr std::chrono::hours kPartsKept{25};

}  // namespace

absl::Status CodeUploads::Enter(const std::string& principal) {
  std::lock_guard lock(mutex_);
  const auto of_one = streams_of_.find(principal);
  const size_t own = of_one == streams_of_.end() ? 0 : of_one->second;
  if (streams_ < kStreamsMax && own < kStreamsOfOneMax) {
    ++streams_;
    streams_of_[principal] = own + 1;
    return absl::OkStatus();
  }
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1703",
       .what = own >= kStreamsOfOneMax
                   ? StrCat(principal, " uploads code over ", own, " streams already")
                   : StrCat("the coordinator takes ", streams_, " uploads of code already"),
       .fix = "try again when one of them has ended"});
}

void CodeUploads::Leave(const std::string& principal) {
  std::lock_guard lock(mutex_);
  --streams_;
  const auto of_one = streams_of_.find(principal);
  if (--of_one->second == 0) streams_of_.erase(of_one);
}

void CodeUploads::Claim(const Object& object, uint64_t size, std::function<void()> granted) {
  {
    std::lock_guard lock(mutex_);
    const auto [writer, is_first] = writers_.try_emplace(object);
    if (!is_first) return writer->second.waiting.push_back(std::move(granted));
    writer->second.size = size;
  }
  granted();
}

void CodeUploads::Release(const Object& object) {
  std::function<void()> next;
  {
    std::lock_guard lock(mutex_);
    const auto writer = writers_.find(object);
    if (writer == writers_.end()) return;
    if (writer->second.waiting.empty()) {
      writers_.erase(writer);
      return;
    }
    next = std::move(writer->second.waiting.front());
    writer->second.waiting.pop_front();
  }
  next();
}

std::map<std::string, uint64_t> CodeUploads::UnderWay(const std::string& project) {
  std::lock_guard lock(mutex_);
  std::map<std::string, uint64_t> under_way;
  for (auto each = writers_.lower_bound({.project = project, .sha256 = ""});
       each != writers_.end() && each->first.project == project; ++each) {
    under_way[each->first.sha256] = each->second.size;
  }
  return under_way;
}

uint64_t CodeUploads::Begin(const Object& object, const std::string& giver, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  ForgetOld();
  begun_[object] = {giver, bytes, Steady::now()};
  return SumOf(giver, [](const Object&) { return false; });
}

uint64_t CodeUploads::SumOf(const std::string& giver,
                            const std::function<bool(const Object&)>& except) const {
  uint64_t begun = 0;
  for (const auto& [object, part] : begun_) {
    if (part.giver == giver && !except(object)) begun += part.bytes;
  }
  return begun;
}

void CodeUploads::Interrupt(const Object& object, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto part = begun_.find(object);
  if (part == begun_.end()) return;
  part->second.bytes = bytes;
  if (bytes == 0) begun_.erase(part);
}

uint64_t CodeUploads::BegunBy(const std::string& giver,
                              const std::function<bool(const Object&)>& except) {
  std::lock_guard lock(mutex_);
  ForgetOld();
  return SumOf(giver, except);
}

std::map<std::string, uint64_t> CodeUploads::Begun() {
  std::lock_guard lock(mutex_);
  ForgetOld();
  std::map<std::string, uint64_t> begun;
  for (const auto& [object, part] : begun_) begun[part.giver] += part.bytes;
  return begun;
}

void CodeUploads::ForgetOld() {
  const Steady::time_point since = Steady::now() - kPartsKept;
  std::erase_if(begun_, [since](const auto& each) { return each.second.at < since; });
}

}  // namespace muster::coordinator
