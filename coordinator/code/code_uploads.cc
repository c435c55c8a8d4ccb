#include "coordinator/code/code_uploads.h"

#include <iterator>

#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {

using common::StrCat;

namespace {

constexpr std::chrono::hours kPartsKept{25};
constexpr std::chrono::minutes kPartsLookedAt{10};

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
  if (const auto part = begun_.find(object); part != begun_.end()) Forget(part);
  return Keep(object, giver, bytes);
}

uint64_t CodeUploads::Keep(const Object& object, const std::string& giver, uint64_t bytes) {
  begun_[object] = {giver, bytes, Steady::now()};
  return begun_by_[giver] += bytes;
}

void CodeUploads::Interrupt(const Object& object, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto part = begun_.find(object);
  if (part == begun_.end()) return;
  const std::string giver = part->second.giver;
  Forget(part);
  if (bytes > 0) Keep(object, giver, bytes);
}

uint64_t CodeUploads::BegunBy(const std::string& giver,
                              const std::function<bool(const Object&)>& except) {
  std::lock_guard lock(mutex_);
  ForgetOld();
  uint64_t begun = 0;
  for (const auto& [object, part] : begun_) {
    if (part.giver == giver && !except(object)) begun += part.bytes;
  }
  return begun;
}

std::map<std::string, uint64_t> CodeUploads::Begun() {
  std::lock_guard lock(mutex_);
  ForgetOld();
  return begun_by_;
}

CodeUploads::Parts::iterator CodeUploads::Forget(Parts::iterator part) {
  const auto giver = begun_by_.find(part->second.giver);
  giver->second -= part->second.bytes;
  if (giver->second == 0) begun_by_.erase(giver);
  return begun_.erase(part);
}

void CodeUploads::ForgetOld() {
  const Steady::time_point now = Steady::now();
  if (now - looked_at_ < kPartsLookedAt) return;
  looked_at_ = now;
  for (auto part = begun_.begin(); part != begun_.end();)
    part = now - part->second.at > kPartsKept ? Forget(part) : std::next(part);
}

}  // namespace muster::coordinator
