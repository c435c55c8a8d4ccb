#include "tests/delivery/pack_store_model.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "coordinator/local/log_reader.h"
#include "tests/delivery/broken.h"

namespace muster::delivery {
namespace {

using coordinator::LogKey;
using coordinator::ObjectPart;
using coordinator::Objects;
using coordinator::ObjectUpload;
using coordinator::PackTurns;
using coordinator::PresignedUrl;

constexpr char kPrefix[] = "c/";

std::string Made(const std::string& directory) {
  std::filesystem::create_directories(directory);
  return directory;
}

}  // namespace

class PackStoreModel::Turns final : public PackTurns {
 public:
  explicit Turns(sim::EventQueue& queue) : queue_(queue) {}
  ~Turns() override { *is_alive_ = false; }

  void Begin(std::function<int64_t()> after_tasks) override {
    after_tasks_ = std::move(after_tasks);
  }
  void Post(std::function<void()> task) override {
    At(0, [this, task = std::move(task)] {
      task();
      WakeWhenDue();
    });
  }
  void PostTo(Pool pool, std::function<void()> task, std::chrono::milliseconds after) override {
    int64_t delay = after.count() + queue_.Draw(0, queue_.Chance(0.1) ? 400 : 20);
    if (pool == Pool::kState) {
      state_ms_ = std::max(state_ms_, queue_.now_ms() + delay);
      delay = state_ms_ - queue_.now_ms();
    }
    At(delay, std::move(task));
  }
  int64_t NowMs() const override { return queue_.now_ms() + 1; }
  void Stop() override { *is_alive_ = false; }

 private:
  void At(int64_t delay, std::function<void()> task) {
    queue_.After(delay, [is_alive = is_alive_, task = std::move(task)] {
      if (*is_alive) task();
    });
  }
  void WakeWhenDue() {
    const int64_t due_ms = after_tasks_();
    Expect(due_ms == 0 || due_ms > NowMs(), "what is due is not done");
    if (due_ms == 0 || (wake_ms_ != 0 && wake_ms_ <= due_ms)) return;
    wake_ms_ = due_ms;
    At(due_ms - NowMs(), [this, due_ms] {
      if (wake_ms_ == due_ms) wake_ms_ = 0;
      WakeWhenDue();
    });
  }

  sim::EventQueue& queue_;
  std::function<int64_t()> after_tasks_;
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  int64_t state_ms_ = 0;
  int64_t wake_ms_ = 0;  // 0: not going to
};

// Fails before or after it did what was asked.
class PackStoreModel::Names final : public coordinator::MemoryPackNames {
 public:
  Names(PackStoreModel& model, uint64_t term)
      : MemoryPackNames(model.state_, kPrefix, term), model_(model) {}
  absl::Status Record(const std::vector<coordinator::RecordedPack>& packs) override {
    if (model_.Fails()) return absl::ResourceExhaustedError("no room in the state");
    const absl::Status done = MemoryPackNames::Record(packs);
    if (model_.Fails()) return absl::UnavailableError("recorded, but not told");
    return done;
  }
  absl::Status Merge(const coordinator::PackMerge& merge) override {
    if (model_.Fails()) return absl::ResourceExhaustedError("no room in the state");
    return MemoryPackNames::Merge(merge);
  }

 private:
  PackStoreModel& model_;
};

class PackStoreModel::FailingObjects final : public Objects {
 public:
  explicit FailingObjects(PackStoreModel& model) : model_(model) {}
  std::string Name() const override { return "failing objects"; }
  absl::Status Put(const std::string& key, const common::ByteSource& bytes) override {
    if (model_.Fails()) return absl::UnavailableError("not put");
    const absl::Status put = model_.objects_->Put(key, bytes);
    if (model_.Fails()) return absl::UnavailableError("put, but not told");
    return put;
  }
  absl::Status Fetch(const std::string& key, const Range& range, const Sink& sink) override {
    if (model_.Fails()) return absl::UnavailableError("not fetched");
    return model_.objects_->Fetch(key, range, sink);
  }
  absl::StatusOr<coordinator::ObjectInfo> Head(const std::string& key) override {
    return model_.objects_->Head(key);
  }
  absl::StatusOr<Page> List(const std::string&, const std::string&) override { return None(); }
  absl::Status Delete(const std::vector<std::string>&) override { return None(); }
  absl::StatusOr<ObjectUpload> BeginUpload(const std::string&) override { return None(); }
  absl::StatusOr<ObjectPart> PutPart(const ObjectUpload&, int, const common::ByteSource&) override {
    return None();
  }
  bool CanPresign() const override { return false; }
  absl::StatusOr<PresignedUrl> PresignPart(const ObjectUpload&, int, uint64_t,
                                           std::chrono::seconds) override {
    return None();
  }
  absl::StatusOr<std::vector<ObjectPart>> Parts(const ObjectUpload&) override { return None(); }
  absl::Status Complete(const ObjectUpload&, const std::vector<ObjectPart>&) override {
    return None();
  }
  absl::Status Abort(const ObjectUpload&) override { return None(); }
  absl::StatusOr<UploadPage> OpenUploads(const std::string&) override { return None(); }
  absl::StatusOr<PresignedUrl> PresignGet(const std::string&, std::chrono::seconds) override {
    return None();
  }

 private:
  static absl::Status None() { return absl::UnimplementedError("packs do not use it"); }
  PackStoreModel& model_;
};

class PackStoreModel::Uploader final : public coordinator::LogUploader {
 public:
  Uploader(PackStoreModel& model, uint64_t link) : model_(model), link_(link) {}
  void Consumed(size_t) override {}
  void Acknowledge(const v1::LogAck& ack) override { model_.Acknowledged(link_, ack); }
  void SendAgain() override {}

 private:
  PackStoreModel& model_;
  const uint64_t link_;
};

PackStoreModel::PackStoreModel(sim::EventQueue& queue, const std::string& root,
                               Acknowledge acknowledge)
    : queue_(queue),
      paths_(Made(root)),
      acknowledge_(std::move(acknowledge)),
      objects_(*coordinator::ObjectFiles::Open(Made(root + "-objects"))),
      failing_(std::make_unique<FailingObjects>(*this)) {
  Reopen();
}

void PackStoreModel::Append(const v1::LogChunk& chunk, uint64_t link) {
  auto& uploader = term_->uploaders[link];
  if (uploader == nullptr) uploader = std::make_shared<Uploader>(*this, link);
  term_->logs->Append(chunk, uploader);
}

void PackStoreModel::Crash(bool power) {
  if (term_ == nullptr) return;
  // One that is deposed instead continues, and learns of it when it asks the state.
  if (!power) deposed_.push_back(std::move(term_));
  term_ = nullptr;
}

void PackStoreModel::Reopen() {
  term_ = std::make_unique<Term>();
  state_->leader = ++terms_;
  term_->names = std::make_unique<Names>(*this, terms_);
  const auto packs = std::make_shared<coordinator::Packs>(
      *failing_, *term_->names, kPrefix,
      coordinator::PackTerm{.epoch = terms_, .life = std::to_string(terms_)},
      std::make_unique<Turns>(queue_),
      coordinator::PackPace{.every = std::chrono::milliseconds(queue_.Draw(20, 600)),
                            .bytes = static_cast<size_t>(queue_.Draw(1'000, 600'000)),
                            .merged = static_cast<size_t>(queue_.Draw(2, 8)),
                            .record_every = std::chrono::milliseconds(queue_.Draw(0, 200)),
                            .idle = std::chrono::milliseconds(queue_.Draw(30, 2'000))});
  term_->logs = std::make_unique<coordinator::PackLogStore>(
      packs, std::make_unique<coordinator::LocalLogReader>(paths_), paths_);
  for (const auto& [key, offset] : acknowledged_) {
    const coordinator::StreamEnd end = RecordedEnd(key);
    Expect(end.offset + (end.ended ? 1 : 0) >= offset,
           "rank " + std::to_string(key.rank) + " was acknowledged to " + std::to_string(offset) +
               ", the next coordinator has " + std::to_string(end.offset));
  }
}

coordinator::StreamEnd PackStoreModel::RecordedEnd(const LogKey& key) const {
  const coordinator::MemoryPackNames names(state_, kPrefix, 0);
  const coordinator::PackReader reader(*objects_, names, kPrefix);
  const auto lanes = names.Lanes(coordinator::PackKind::kLogs, key.job, key.attempt);
  coordinator::StreamEnd end;
  for (const coordinator::LanePacks& packs : *lanes) {
    const auto ends = reader.Ends(packs);
    Expect(ends.ok(), "the newest pack cannot be read: " + std::string(ends.status().message()));
    const auto found = ends->find({key.rank, static_cast<uint32_t>(key.stream)});
    if (found != ends->end()) end = found->second;
  }
  return end;
}

void PackStoreModel::Acknowledged(uint64_t link, const v1::LogAck& ack) {
  const LogKey key{ack.job(), ack.attempt(), ack.rank(), ack.stream()};
  const coordinator::StreamEnd end = RecordedEnd(key);
  Expect(end.offset + (end.ended ? 1 : 0) >= ack.durable_offset(),
         "rank " + std::to_string(key.rank) + " is acknowledged to " +
             std::to_string(ack.durable_offset()) + ", recorded are " + std::to_string(end.offset));
  uint64_t& known = acknowledged_[key];
  known = std::max(known, ack.durable_offset());
  acknowledge_(link, ack);
}

bool PackStoreModel::EndIsDurable(const LogKey& key, uint64_t end) const {
  const coordinator::StreamEnd recorded = RecordedEnd(key);
  return recorded.ended && recorded.offset == end;
}

Content PackStoreModel::Read(const LogKey& key, bool has_end) const {
  if (!has_end) {
    if (term_ == nullptr) return {};
    return ReadStream(term_->logs->Reader(), key, false);
  }
  // As a coordinator that never saw the job.
  const coordinator::MemoryPackNames names(state_, kPrefix, 0);
  const coordinator::PackReader packs(*objects_, names, kPrefix);
  const coordinator::LocalLogReader before(paths_);
  return ReadStream(coordinator::PackLogReader(packs, before, paths_), key, true);
}

}  // namespace muster::delivery
