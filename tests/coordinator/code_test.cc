// The coordinator's side of code that travels with jobs: who has which objects, what a stream may do,
// which submits are accepted, what nodes and people get, and what goes when nothing uses it.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/number_file.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/code/code_check.h"
#include "coordinator/code/code_push.h"
#include "coordinator/gates/code_gate.h"
#include "coordinator/identity/directory.h"
#include "coordinator/periodic/code_garbage.h"
#include "coordinator/periodic/garbage.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/coordinator/workers_daemon.h"
#include "tests/stores/small_disk.h"
#include "tree/manifest.h"
#include "tree/placement.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kHourMs = 3'600'000;

std::string Raw(const std::string& bytes) {
  const tree::Digest digest = tree::DigestOf(bytes);
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

// A tree with one directory and one file, which has its own pack.
struct Code {
  explicit Code(const std::string& text) : pack(text) {
    tree::Manifest tree;
    tree.entries = {{.path = "src", .kind = tree::Kind::kDirectory},
                    {.path = "src/train.py",
                     .kind = tree::Kind::kFile,
                     .size = text.size(),
                     .content = tree::DigestOf(text)}};
    manifest = tree::Encode(tree);
    placement = tree::EncodePlacement(
        tree, tree::IdentityOf(manifest),
        {.objects = {{tree::DigestOf(text), text.size()}}, .places = {{}, {0, 0}}});
  }
  std::vector<std::string> Objects() const { return {manifest, placement, pack}; }
  v1::JobSpec Spec(const std::string& project) const {
    v1::JobSpec spec;
    spec.add_command("true");
    spec.set_project(project);
    spec.mutable_shape()->set_processes(1);
    spec.mutable_shape()->mutable_device()->set_kind("cpu");
    spec.mutable_code()->set_tree(common::Sha256Hex(manifest));
    spec.mutable_code()->set_manifest_bytes(manifest.size());
    spec.mutable_code()->set_placement(common::Sha256Hex(placement));
    spec.mutable_code()->set_placement_bytes(placement.size());
    return spec;
  }

  std::string manifest, placement, pack;
};

v1::ObjectChunk ChunkOf(const std::string& bytes, uint64_t offset = 0) {
  v1::ObjectChunk chunk;
  chunk.set_sha256(Raw(bytes));
  chunk.set_size(bytes.size());
  chunk.set_offset(offset);
  chunk.set_data(bytes.substr(offset));
  return chunk;
}

// One stream of PushObjects, played by the test.
class Stream {
 public:
  Stream(Daemon& daemon, const std::string& principal, std::string project)
      : project_(std::move(project)),
        push_(std::make_shared<CodePush>(daemon.stores, daemon.job_code, daemon.access,
                                         daemon.process, Caller{.principal = principal})) {}

  absl::Status Send(v1::ObjectChunk chunk) { return Begin(std::move(chunk)).get(); }
  std::future<absl::Status> Begin(v1::ObjectChunk chunk) {
    if (!std::exchange(has_begun_, true)) chunk.set_project(project_);
    auto taken = std::make_shared<std::promise<absl::Status>>();
    push_->Take(std::move(chunk),
                [taken](const absl::Status& status) { taken->set_value(status); });
    return taken->get_future();
  }
  absl::StatusOr<v1::PushObjectsResponse> End() {
    std::promise<absl::StatusOr<v1::PushObjectsResponse>> ended;
    push_->End([&](auto totals) { ended.set_value(std::move(totals)); });
    return ended.get_future().get();
  }

 private:
  const std::string project_;
  const std::shared_ptr<CodePush> push_;
  bool has_begun_ = false;
};

struct Pieces final : Sink<v1::BlobChunk> {
  void Write(v1::BlobChunk chunk) override { bytes += chunk.data(); }
  void Close(const absl::Status& status) override { closed.set_value(status); }
  size_t QueuedBytes() const override { return 0; }
  bool Gone() const override { return false; }
  void Observe(std::function<void()>, std::function<void()>) override {}
  std::string bytes;
  std::promise<absl::Status> closed;
};

class CodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start();
    Project("vision", {"uid:1", "uid:3"});
    Project("speech", {"uid:2"});
  }
  void Start() {
    coordinator_.emplace(dir_.path());
    daemon().job_code.quota_bytes = quota_;
  }
  // With a new process's memory, so many hours of uptime later.
  void RestartAfter(int64_t hours) {
    const int64_t lived_ms = daemon().process.clock.Read().lived_ms + hours * kHourMs;
    const std::string path = daemon().process.paths.Lived();
    coordinator_.reset();
    ASSERT_TRUE(WriteNumbers(path, {lived_ms}).ok());
    Start();
    ASSERT_GE(daemon().process.clock.Read().lived_ms, lived_ms);
  }
  Daemon& daemon() { return coordinator_->daemon(); }
  void Project(const std::string& name, const std::vector<std::string>& members) {
    v1::SetProjectRequest request;
    request.set_name(name);
    for (const std::string& member : members) request.add_add_members(member);
    const auto set = daemon().access.directory.SetProject(request, "uid:0");
    ASSERT_TRUE(set.ok()) << set.status();
  }

  template <typename Response, typename Call>
  absl::StatusOr<Response> Ask(Call call) {
    auto answered = std::make_shared<std::promise<absl::StatusOr<Response>>>();
    call([answered](absl::StatusOr<Response> response) {
      answered->set_value(std::move(response));
    });
    return answered->get_future().get();
  }
  absl::StatusOr<v1::PrepareObjectsResponse> Prepare(const std::string& principal,
                                                     const std::string& project,
                                                     const std::vector<std::string>& objects) {
    v1::PrepareObjectsRequest request;
    request.set_project(project);
    for (const std::string& bytes : objects) {
      request.add_objects()->set_sha256(Raw(bytes));
      request.mutable_objects(request.objects_size() - 1)->set_size(bytes.size());
    }
    return Ask<v1::PrepareObjectsResponse>([&](auto answer) {
      call::PrepareObjects::Handle(daemon(), {.principal = principal}, request, answer);
    });
  }
  std::vector<uint64_t> OffsetsOf(const std::string& principal, const std::string& project,
                                  const std::vector<std::string>& objects) {
    const auto prepared = Prepare(principal, project, objects);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    if (!prepared.ok()) return {};
    return {prepared->offsets().begin(), prepared->offsets().end()};
  }
  absl::Status Push(const std::string& principal, const std::string& project,
                    const std::vector<std::string>& objects) {
    Stream stream(daemon(), principal, project);
    for (const std::string& bytes : objects) {
      if (const absl::Status sent = stream.Send(ChunkOf(bytes)); !sent.ok()) {
        stream.End().IgnoreError();
        return sent;
      }
    }
    return stream.End().status();
  }
  absl::StatusOr<uint64_t> Submit(const std::string& principal, const v1::JobSpec& spec) {
    v1::SubmitRequest request;
    *request.mutable_spec() = spec;
    request.set_queue_anyway(true);
    const auto answer = Ask<v1::SubmitResponse>([&](auto answer) {
      call::Submit::Handle(daemon(), {.principal = principal}, request, answer);
    });
    if (!answer.ok()) return answer.status();
    return answer->job();
  }
  absl::StatusOr<std::string> Pull(const Caller& caller, uint64_t job, const std::string& object) {
    v1::PullObjectRequest request;
    request.set_job(common::StrCat(job));
    request.set_sha256(common::Sha256Hex(object));
    const auto pieces = std::make_shared<Pieces>();
    call::PullObject::Handle(daemon(), caller, request, pieces);
    const absl::Status closed = pieces->closed.get_future().get();
    if (!closed.ok()) return closed;
    return pieces->bytes;
  }
  bool HasRow(const std::string& bytes) {
    return !daemon().job_code.store.Referenced({common::Sha256Hex(bytes)})->empty();
  }
  bool HasBlob(const std::string& bytes) {
    return daemon().stores.blobs.Size(common::Sha256Hex(bytes)).ok();
  }
  // All that a round does.
  void Collect() {
    CollectCode(daemon().jobs, daemon().stores, daemon().job_code, daemon().process);
    Settle();
  }
  // Until the loop and the pool did what was asked of them, and what followed from that. Both of the
  // pool's threads meet, so neither does anything else.
  void Settle() {
    for (int round = 0; round < 4; ++round) {
      std::promise<void> asked;
      daemon().jobs.loop.Ask([&](const LoopView&) { return [&] { asked.set_value(); }; });
      asked.get_future().get();
      const auto met = std::make_shared<std::latch>(WorkersDaemon::kThreads);
      const auto left = std::make_shared<std::latch>(WorkersDaemon::kThreads);
      for (int thread = 0; thread < WorkersDaemon::kThreads; ++thread) {
        daemon().process.pool.Post([met, left] {
          met->arrive_and_wait();
          left->count_down();
        });
      }
      left->wait();
    }
  }

  TempDir dir_;
  uint64_t quota_ = 0;
  std::optional<WorkersDaemon> coordinator_;
  const Code code_{"print('training')"};
};

TEST_F(CodeTest, WhatAProjectUploadedIsHereAndIsSentOnce) {
  EXPECT_EQ(OffsetsOf("uid:1", "vision", code_.Objects()), (std::vector<uint64_t>{0, 0, 0}));
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  EXPECT_EQ(
      OffsetsOf("uid:3", "vision", code_.Objects()),
      (std::vector<uint64_t>{code_.manifest.size(), code_.placement.size(), code_.pack.size()}));
  EXPECT_EQ(Prepare("uid:3", "vision", {})->used_bytes(), 3 * CodeStore::kLeastBytes);
  RestartAfter(0);
  EXPECT_EQ(OffsetsOf("uid:3", "vision", {code_.pack}).front(), code_.pack.size());
}

TEST_F(CodeTest, AProjectCannotFindOutWhatAnotherOneHas) {
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  EXPECT_EQ(OffsetsOf("uid:2", "speech", code_.Objects()), (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_EQ(Prepare("uid:2", "speech", {})->used_bytes(), 0u);
  EXPECT_EQ(common::CodeOf(Submit("uid:2", code_.Spec("speech")).status()), "JC1702");
  // Sending less than all of it is refused like for any object, and other bytes like any other bytes.
  Stream guess(daemon(), "uid:2", "speech");
  const absl::Status at_end = guess.Send(ChunkOf(code_.pack, code_.pack.size() - 1));
  EXPECT_EQ(at_end.code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(guess.End().ok());
  Stream unknown(daemon(), "uid:2", "speech");
  const std::string other(code_.pack.size(), 'z');
  const absl::Status never_sent = unknown.Send(ChunkOf(other, other.size() - 1));
  EXPECT_EQ(never_sent.code(), at_end.code());
  EXPECT_FALSE(unknown.End().ok());
  Stream forged(daemon(), "uid:2", "speech");
  v1::ObjectChunk chunk = ChunkOf(code_.pack);
  chunk.set_data(std::string(code_.pack.size(), 'x'));
  EXPECT_EQ(forged.Send(chunk).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(forged.End().ok());
  EXPECT_FALSE(
      daemon()
          .job_code.store.Use("speech", {{common::Sha256Hex(code_.pack), code_.pack.size()}}, 0)
          ->front());
  EXPECT_TRUE(daemon().stores.blobs.Verify(common::Sha256Hex(code_.pack)).ok())
      << "vision's is untouched";
  // It counts once it was sent completely, and to both.
  ASSERT_TRUE(Push("uid:2", "speech", code_.Objects()).ok());
  EXPECT_TRUE(Submit("uid:2", code_.Spec("speech")).ok());
}

TEST_F(CodeTest, OnlyMembersPrepareAndPush) {
  EXPECT_EQ(common::CodeOf(Prepare("uid:2", "vision", {code_.pack}).status()), "JC1338");
  EXPECT_EQ(common::CodeOf(Push("uid:2", "vision", {code_.pack})), "JC1338");
  EXPECT_EQ(common::CodeOf(Push("uid:2", "nowhere", {code_.pack})), "JC1332");
  EXPECT_TRUE(Push("uid:2", "", {code_.pack}).ok()) << "the default project is everybody's";
  EXPECT_EQ(OffsetsOf("uid:1", "default", {code_.pack}).front(), code_.pack.size());
}

TEST_F(CodeTest, ABrokenStreamGoesOnWhereItBrokeInItsProjectOnly) {
  const std::string large(3'000'000, 'x');
  const size_t piece = common::kObjectChunkBytesMax;
  Stream broken(daemon(), "uid:1", "vision");
  v1::ObjectChunk chunk = ChunkOf(large);
  chunk.set_data(large.substr(0, piece));
  ASSERT_TRUE(broken.Send(chunk).ok());
  const absl::Status ended = broken.End().status();
  EXPECT_EQ(common::CodeOf(ended), "JC1705") << ended;
  RestartAfter(0);
  EXPECT_EQ(OffsetsOf("uid:3", "vision", {large}).front(), piece);
  EXPECT_EQ(OffsetsOf("uid:2", "speech", {large}).front(), 0u);
  Stream again(daemon(), "uid:3", "vision");
  for (size_t at = piece; at < large.size(); at += piece) {
    v1::ObjectChunk next;
    if (at == piece) next = ChunkOf(large, piece);
    next.set_data(large.substr(at, piece));
    ASSERT_TRUE(again.Send(next).ok()) << at;
  }
  const auto totals = again.End();
  ASSERT_TRUE(totals.ok()) << totals.status();
  EXPECT_EQ(totals->objects(), 1u);
  EXPECT_EQ(totals->bytes(), large.size() - piece);
  EXPECT_TRUE(daemon().stores.blobs.Verify(common::Sha256Hex(large)).ok());
}

TEST_F(CodeTest, BytesThatAllArrivedButWereNotFinishedAreNotCalledHere) {
  auto upload = *daemon().stores.blobs.OpenUpload(
      {.owner = "vision", .sha256 = common::Sha256Hex("abc"), .size = 3, .offset = 0});
  ASSERT_TRUE(upload->Append("abc").ok());
  upload.reset();
  EXPECT_EQ(OffsetsOf("uid:1", "vision", {"abc"}).front(), 2u);
  Stream stream(daemon(), "uid:1", "vision");
  ASSERT_TRUE(stream.Send(ChunkOf("abc", 2)).ok());
  EXPECT_TRUE(stream.End().ok());
  EXPECT_EQ(OffsetsOf("uid:1", "vision", {"abc"}).front(), 3u);
}

TEST_F(CodeTest, WhatARepairSetAsideIsAskedForAgain) {
  ASSERT_TRUE(Push("uid:1", "vision", {code_.pack}).ok());
  ASSERT_EQ(unlink(daemon().process.paths.BlobFile(common::Sha256Hex(code_.pack)).c_str()), 0);
  EXPECT_EQ(OffsetsOf("uid:1", "vision", {code_.pack}).front(), 0u);
  ASSERT_TRUE(Push("uid:1", "vision", {code_.pack}).ok());
  EXPECT_TRUE(daemon().stores.blobs.Verify(common::Sha256Hex(code_.pack)).ok());
}

// Every way of not keeping the order; each ends its stream, and nothing of it can be found later.
TEST_F(CodeTest, AStreamThatDoesNotKeepTheOrderIsRefused) {
  const std::string bytes = "some bytes";
  const auto expect_refused = [&](const char* what, const std::vector<v1::ObjectChunk>& chunks,
                                  const char* code = "JC1705") {
    Stream stream(daemon(), "uid:1", "vision");
    absl::Status last;
    for (const v1::ObjectChunk& chunk : chunks) last = stream.Send(chunk);
    EXPECT_EQ(common::CodeOf(last), code) << what << ": " << last;
    stream.End().IgnoreError();
    std::printf("| %-44s | %s\n", what, std::string(last.message()).substr(0, 110).c_str());
    EXPECT_TRUE(daemon().job_code.uploads.UnderWay("vision").empty()) << what;
  };
  const auto changed = [&](const std::function<void(v1::ObjectChunk&)>& change) {
    v1::ObjectChunk chunk = ChunkOf(bytes);
    change(chunk);
    return chunk;
  };
  v1::ObjectChunk half = changed([](auto& chunk) { chunk.set_data("some"); });
  v1::ObjectChunk next;
  next.set_data(" bytes");
  expect_refused("no name", {changed([](auto& chunk) { chunk.clear_sha256(); })});
  expect_refused("a name in hex digits",
                 {changed([&](auto& chunk) { chunk.set_sha256(common::Sha256Hex(bytes)); })});
  expect_refused("no bytes at all", {changed([](auto& chunk) { chunk.set_size(0); })});
  expect_refused("more than a tree may have",
                 {changed([](auto& chunk) { chunk.set_size(tree::kTreeBytesMax + 1); })});
  expect_refused("a size beyond all sizes",
                 {changed([](auto& chunk) { chunk.set_size(UINT64_MAX); })});
  expect_refused("beginning at its end",
                 {changed([&](auto& chunk) { chunk.set_offset(bytes.size()); })});
  expect_refused("beginning behind all ends",
                 {changed([](auto& chunk) { chunk.set_offset(UINT64_MAX); })});
  expect_refused("beginning behind what arrived", {changed([](auto& chunk) {
                   chunk.set_offset(5);
                   chunk.set_data("bytes");
                 })});
  expect_refused("more bytes than announced",
                 {changed([](auto& chunk) { chunk.set_data("some bytes more"); })});
  expect_refused("too large a chunk", {changed([](auto& chunk) {
                   chunk.set_size(1 << 20);
                   chunk.set_data(std::string(common::kObjectChunkBytesMax + 1, 'x'));
                 })});
  expect_refused("a gap", {half, [&] {
                             v1::ObjectChunk far = next;
                             far.set_offset(5);
                             return far;
                           }()});
  expect_refused("a step back", {half, [&] {
                                   v1::ObjectChunk back = next;
                                   back.set_offset(3);
                                   return back;
                                 }()});
  expect_refused("another object in between", {half, ChunkOf("other")});
  expect_refused("another project in between", {half, [&] {
                                                  v1::ObjectChunk other = next;
                                                  other.set_project("speech");
                                                  return other;
                                                }()});
  expect_refused("more bytes later", {half, [&] {
                                        v1::ObjectChunk more = next;
                                        more.set_data(" bytes and more");
                                        return more;
                                      }()});
  expect_refused("other bytes than its name says",
                 {changed([](auto& chunk) { chunk.set_data("same bytes"); })});
  expect_refused("a chunk without an object", {next});
  expect_refused("nothing after an object", {ChunkOf(bytes), next});
  EXPECT_EQ(OffsetsOf("uid:1", "vision", {"other"}).front(), 0u);
  Stream empty(daemon(), "uid:1", "vision");
  EXPECT_EQ(common::CodeOf(empty.End().status()), "JC1705");
}

TEST_F(CodeTest, TwoStreamsWithTheSameObjectTakeTurns) {
  Stream first(daemon(), "uid:1", "vision"), second(daemon(), "uid:3", "vision");
  Stream elsewhere(daemon(), "uid:2", "speech");
  v1::ObjectChunk half = ChunkOf(code_.pack);
  half.set_data(code_.pack.substr(0, 5));
  ASSERT_TRUE(first.Send(half).ok());
  std::future<absl::Status> waiting = second.Begin(ChunkOf(code_.pack));
  EXPECT_TRUE(elsewhere.Send(ChunkOf(code_.pack)).ok()) << "another project does not wait";
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  v1::ObjectChunk rest;
  rest.set_data(code_.pack.substr(5));
  ASSERT_TRUE(first.Send(rest).ok());
  EXPECT_TRUE(waiting.get().ok()) << "it is here by now, and what it brings is dropped";
  EXPECT_TRUE(first.End().ok());
  EXPECT_EQ(second.End()->objects(), 1u);
}

TEST_F(CodeTest, AStreamThatBreaksLetsTheNextOneWrite) {
  Stream first(daemon(), "uid:1", "vision"), second(daemon(), "uid:3", "vision");
  v1::ObjectChunk half = ChunkOf(code_.pack);
  half.set_data(code_.pack.substr(0, 5));
  ASSERT_TRUE(first.Send(half).ok());
  std::future<absl::Status> waiting = second.Begin(ChunkOf(code_.pack));
  EXPECT_FALSE(first.End().ok());
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_TRUE(second.End().ok());
  EXPECT_TRUE(daemon().stores.blobs.Verify(common::Sha256Hex(code_.pack)).ok());
}

TEST_F(CodeTest, SoManyStreamsAtOnceAndSoManyOfOnePerson) {
  CodeUploads uploads;
  for (size_t i = 0; i < CodeUploads::kStreamsOfOneMax; ++i) ASSERT_TRUE(uploads.Enter("a").ok());
  const absl::Status own = uploads.Enter("a");
  EXPECT_EQ(common::CodeOf(own), "JC1703") << own;
  size_t streams = CodeUploads::kStreamsOfOneMax;
  for (; streams < CodeUploads::kStreamsMax; ++streams)
    ASSERT_TRUE(uploads.Enter(common::StrCat("p", streams)).ok());
  EXPECT_EQ(common::CodeOf(uploads.Enter("b")), "JC1703");
  uploads.Leave("a");
  EXPECT_TRUE(uploads.Enter("b").ok());
}

TEST_F(CodeTest, WhatOnePersonHasBegunCountsWhileItArrivesAndAfterItWasLeft) {
  daemon().job_code.person_quota_bytes = 100'000;
  const auto begun = [](const std::string& object) {
    v1::ObjectChunk chunk = ChunkOf(object);
    chunk.set_data(object.substr(0, 30'000));
    return chunk;
  };
  Stream first(daemon(), "uid:1", "vision"), second(daemon(), "uid:1", "default");
  Stream third(daemon(), "uid:1", "vision"), last(daemon(), "uid:1", "vision");
  ASSERT_TRUE(first.Send(begun(std::string(60'000, 'a'))).ok());
  EXPECT_EQ(common::CodeOf(second.Send(begun(std::string(60'000, 'b')))), "JC1701") << "at once";
  EXPECT_FALSE(first.End().ok());  // a part of it stays
  EXPECT_EQ(common::CodeOf(third.Send(begun(std::string(80'000, 'c')))), "JC1701");
  EXPECT_TRUE(last.Send(begun(std::string(60'000, 'a'))).ok()) << "the same object continues";
}

TEST_F(CodeTest, TheQuotaIsAProjectsAndIsCheckedBeforeAndWhileItArrives) {
  daemon().job_code.quota_bytes = 100'000;
  const std::string fits(60'000, 'a'), too_much(50'000, 'b');
  const absl::Status refused = Prepare("uid:1", "vision", {fits, too_much}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(common::ProblemOf(refused).what,
            "the code needs 110 KB more, and project vision uses 0 B of its 100 KB");
  EXPECT_EQ(common::CodeOf(refused), "JC1701");
  ASSERT_TRUE(Prepare("uid:1", "vision", {fits}).ok());
  ASSERT_TRUE(Push("uid:1", "vision", {fits}).ok());
  EXPECT_EQ(common::CodeOf(Push("uid:1", "vision", {too_much})), "JC1701");
  EXPECT_TRUE(Push("uid:1", "vision", {fits}).ok()) << "it is here already";
  EXPECT_TRUE(Push("uid:2", "speech", {too_much}).ok()) << "each project has its own";
  // What is arriving, or has arrived in part, counts.
  Stream half(daemon(), "uid:1", "vision");
  const std::string arriving(30'000, 'c');
  v1::ObjectChunk chunk = ChunkOf(arriving);
  chunk.set_data(arriving.substr(0, 10'000));
  ASSERT_TRUE(half.Send(chunk).ok());
  EXPECT_EQ(common::CodeOf(Push("uid:3", "vision", {std::string(20'000, 'd')})), "JC1701");
  EXPECT_FALSE(half.End().ok());
  EXPECT_EQ(common::CodeOf(Push("uid:3", "vision", {std::string(31'000, 'd')})), "JC1701");
  EXPECT_TRUE(Push("uid:3", "vision", {std::string(20'000, 'd')}).ok());
  daemon().job_code.quota_bytes = 0;
  EXPECT_TRUE(Push("uid:1", "vision", {too_much}).ok()) << "0: none";
}

TEST_F(CodeTest, APersonHasAQuotaInAllProjectsTogether) {
  daemon().job_code.person_quota_bytes = 100'000;
  const std::string first(60'000, 'a'), second(50'000, 'b');
  ASSERT_TRUE(Push("uid:1", "vision", {first}).ok());
  const absl::Status refused = Prepare("uid:1", "default", {second}).status();
  EXPECT_EQ(common::ProblemOf(refused).what,
            "the code needs 50 KB more, and uid:1 has brought 60 KB of the 100 KB that one person "
            "may");
  EXPECT_EQ(common::CodeOf(Push("uid:1", "default", {second})), "JC1701");
  EXPECT_TRUE(Push("uid:2", "default", {second}).ok()) << "each person has their own";
  EXPECT_TRUE(Push("uid:1", "default", {second}).ok()) << "it is here already";
  EXPECT_EQ(daemon().job_code.store.Given()->at("uid:1"), 60'000u);
}

TEST_F(CodeTest, AFullDiskIsNamedAndTheNextUploadGoesOn) {
  const std::string uploads = daemon().process.paths.UploadRoot();
  coordinator_.reset();
  SmallDisk disk(uploads);
  if (!disk.IsThere()) GTEST_SKIP() << "no right to mount";
  Start();
  const std::string large(200'000, 'x');
  Stream stream(daemon(), "uid:1", "vision");
  const absl::Status full = stream.Send(ChunkOf(large));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(common::CodeOf(full), "JC1605");
  EXPECT_NE(common::ProblemOf(full).why.find(uploads), std::string::npos) << full;
  EXPECT_FALSE(stream.End().ok());
  EXPECT_GT(OffsetsOf("uid:1", "vision", {large}).front(), 0u) << "what arrived stays";
}

TEST_F(CodeTest, RequestsOutOfBoundsAreRefused) {
  v1::PrepareObjectsRequest request;
  request.set_project("vision");
  request.add_objects()->set_sha256("short");
  const auto prepare = [&] {
    return common::CodeOf(Ask<v1::PrepareObjectsResponse>([&](auto answer) {
                            call::PrepareObjects::Handle(daemon(), {.principal = "uid:1"}, request,
                                                         answer);
                          }).status());
  };
  EXPECT_EQ(prepare(), "JC1705");
  request.mutable_objects(0)->set_sha256(Raw("x"));
  EXPECT_EQ(prepare(), "JC1705") << "without a size";
  request.mutable_objects(0)->set_size(UINT64_MAX);
  EXPECT_EQ(prepare(), "JC1705");
  request.mutable_objects(0)->set_size(1);
  EXPECT_EQ(prepare(), "");
  for (int i = 0; i < 50'000; ++i) *request.add_objects() = request.objects(0);
  EXPECT_EQ(prepare(), "JC1705") << "too many";
}

TEST_F(CodeTest, AJobsCodeMustHaveBeenUploadedByItsProject) {
  const v1::JobSpec spec = code_.Spec("vision");
  const auto expect = [&](const char* code, const v1::JobSpec& each) {
    const absl::Status status = Submit("uid:1", each).status();
    EXPECT_EQ(common::CodeOf(status), code) << status;
  };
  expect("JC1702", spec);
  ASSERT_TRUE(Push("uid:1", "vision", {code_.manifest}).ok());
  expect("JC1702", spec);
  ASSERT_TRUE(Push("uid:1", "vision", {code_.placement}).ok());
  const absl::Status missing = Submit("uid:1", spec).status();
  EXPECT_EQ(common::ProblemOf(missing).what,
            common::StrCat("project vision has not uploaded the code of the job: object ",
                           common::Sha256Hex(code_.pack), " of 17 bytes is missing"));
  ASSERT_TRUE(Push("uid:1", "vision", {code_.pack}).ok());
  EXPECT_TRUE(Submit("uid:1", spec).ok());
  expect("JC1338", code_.Spec("speech"));
  v1::JobSpec changed = spec;
  changed.mutable_code()->set_manifest_bytes(code_.manifest.size() - 1);
  expect("JC1702", changed);
  changed = spec;
  changed.mutable_code()->set_placement_bytes(code_.placement.size() + 1);
  expect("JC1702", changed);
  changed = spec;
  changed.set_workdir("src");
  EXPECT_TRUE(Submit("uid:1", changed).ok());
  for (const char* workdir : {"src/train.py", "nowhere", "sr", "src/train.py/x"}) {
    changed.set_workdir(workdir);
    expect("JC1107", changed);
  }
  changed.set_workdir("/abs");
  expect("JC1107", changed);
  changed = spec;
  changed.mutable_code()->set_tree("../../etc/passwd");
  expect("JC1108", changed);
}

TEST_F(CodeTest, AManifestOrPlacementThatIsNoneIsRefused) {
  const Code other("another tree");
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  ASSERT_TRUE(Push("uid:1", "vision", other.Objects()).ok());
  v1::JobSpec spec = code_.Spec("vision");
  spec.mutable_code()->set_placement(common::Sha256Hex(other.placement));
  spec.mutable_code()->set_placement_bytes(other.placement.size());
  EXPECT_EQ(common::CodeOf(Submit("uid:1", spec).status()), "JC1704");
  spec = code_.Spec("vision");
  spec.mutable_code()->set_tree(common::Sha256Hex(code_.pack));
  spec.mutable_code()->set_manifest_bytes(code_.pack.size());
  EXPECT_EQ(common::CodeOf(Submit("uid:1", spec).status()), "JC1704");
  // A placement that promises an object which only another project has.
  const Code theirs("for speech alone");
  ASSERT_TRUE(Push("uid:2", "speech", theirs.Objects()).ok());
  ASSERT_TRUE(Push("uid:1", "vision", {theirs.manifest, theirs.placement}).ok());
  EXPECT_EQ(common::CodeOf(Submit("uid:1", theirs.Spec("vision")).status()), "JC1702");
}

TEST_F(CodeTest, PlansAndRerunsAreCheckedLikeSubmits) {
  v1::PlanJobRequest plan;
  *plan.mutable_spec() = code_.Spec("vision");
  const auto plan_as = [&](const std::string& principal) {
    return common::CodeOf(Ask<v1::PlanJobResponse>([&](auto answer) {
                            call::PlanJob::Handle(daemon(), {.principal = principal}, plan, answer);
                          }).status());
  };
  EXPECT_EQ(plan_as("uid:1"), "JC1702");
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  EXPECT_EQ(plan_as("uid:1"), "");
  EXPECT_EQ(plan_as("uid:2"), "JC1338");
  const auto job = Submit("uid:1", code_.Spec("vision"));
  ASSERT_TRUE(job.ok()) << job.status();
  v1::RerunJobRequest rerun;
  rerun.set_job(common::StrCat(*job));
  const auto rerun_as = [&](const std::string& principal) {
    return common::CodeOf(Ask<v1::SubmitResponse>([&](auto answer) {
                            call::RerunJob::Handle(daemon(), {.principal = principal}, rerun,
                                                   answer);
                          }).status());
  };
  EXPECT_EQ(rerun_as("uid:2"), "JC1706");
  EXPECT_NE(rerun_as("uid:3"), "JC1706");
}

TEST_F(CodeTest, ManySubmitsOfTheSameCodeLookAtItOnce) {
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  std::vector<std::future<absl::Status>> verdicts;
  for (int i = 0; i < 1'000; ++i) {
    auto verdict = std::make_shared<std::promise<absl::Status>>();
    verdicts.push_back(verdict->get_future());
    daemon().job_code.checks.Check(
        daemon().stores, daemon().job_code, daemon().process, code_.Spec("vision"),
        [verdict](const absl::Status& status) { verdict->set_value(status); });
  }
  for (auto& verdict : verdicts) EXPECT_TRUE(verdict.get().ok());
  // From now on without a look at any file.
  ASSERT_EQ(unlink(daemon().process.paths.BlobFile(common::Sha256Hex(code_.manifest)).c_str()), 0);
  EXPECT_TRUE(Submit("uid:1", code_.Spec("vision")).ok());
  RestartAfter(0);
  EXPECT_EQ(common::CodeOf(Submit("uid:1", code_.Spec("vision")).status()), "JC1702");
}

TEST_F(CodeTest, AnObjectIsPulledOnlyOfAJobsOwnCodeByThoseOfItsProject) {
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  ASSERT_TRUE(Push("uid:1", "vision", {"not of the job"}).ok());
  const uint64_t job = *Submit("uid:1", code_.Spec("vision"));
  for (const std::string& object : code_.Objects())
    EXPECT_EQ(*Pull({.principal = "uid:3"}, job, object), object);
  EXPECT_EQ(*Pull({.principal = "user:root", .role = v1::ROLE_ADMIN}, job, code_.pack), code_.pack);
  EXPECT_EQ(common::CodeOf(
                Pull({.principal = "uid:2", .role = v1::ROLE_OPERATOR}, job, code_.pack).status()),
            "JC1706");
  EXPECT_EQ(common::CodeOf(Pull({.principal = "uid:1"}, job, "not of the job").status()), "JC1706");
}

TEST_F(CodeTest, CodeStaysWithItsJobsAndGoesADayAfterItsLastUse) {
  ASSERT_TRUE(Push("uid:1", "vision", code_.Objects()).ok());
  ASSERT_TRUE(Push("uid:2", "speech", {code_.pack}).ok());
  const uint64_t job = *Submit("uid:1", code_.Spec("vision"));
  RestartAfter(27);
  Collect();
  EXPECT_EQ(daemon().job_code.store.ObjectsOf(CodeNameOf(code_.Spec("vision")))->size(), 3u)
      << "it is queued";
  EXPECT_FALSE(
      daemon().job_code.store.Use("speech", {{common::Sha256Hex(code_.pack), 17}}, 0)->front())
      << "another project's job keeps nothing of this one's";
  EXPECT_TRUE(HasBlob(code_.pack));

  v1::CancelJobsRequest cancel;
  cancel.add_jobs(common::StrCat(job));
  ASSERT_TRUE(Ask<v1::BulkResponse>([&](auto answer) {
                call::CancelJobs::Handle(daemon(), {.principal = "uid:1"}, cancel, answer);
              }).ok());
  RestartAfter(100);
  Collect();
  EXPECT_EQ(daemon().job_code.store.ObjectsOf(CodeNameOf(code_.Spec("vision")))->size(), 3u)
      << "its record is kept";
  for (const std::string& object : code_.Objects()) EXPECT_TRUE(HasRow(object) && HasBlob(object));

  v1::JobReferences remove;
  remove.add_jobs(common::StrCat(job));
  ASSERT_TRUE(Ask<v1::BulkResponse>([&](auto answer) {
                call::RemoveJobs::Handle(daemon(), {.principal = "uid:1"}, remove, answer);
              }).ok());
  Collect();
  EXPECT_TRUE(HasRow(code_.pack)) << "it was used within a day";
  RestartAfter(27);
  Collect();
  EXPECT_TRUE(daemon().job_code.store.ObjectsOf(CodeNameOf(code_.Spec("vision")))->empty());
  for (const std::string& object : code_.Objects()) {
    EXPECT_FALSE(HasRow(object));
    EXPECT_FALSE(HasBlob(object));
  }
}

TEST_F(CodeTest, AnObjectThatNoJobHasGoesAndOneThatWasAskedForStays) {
  ASSERT_TRUE(Push("uid:1", "vision", {"forgotten", "asked for"}).ok());
  RestartAfter(20);
  EXPECT_EQ(OffsetsOf("uid:1", "vision", {"asked for"}).front(), 9u);
  RestartAfter(10);
  Collect();
  EXPECT_FALSE(HasRow("forgotten"));
  EXPECT_FALSE(HasBlob("forgotten"));
  EXPECT_TRUE(HasRow("asked for") && HasBlob("asked for"));
}

TEST_F(CodeTest, ABlobThatIsBothACheckpointFileAndCodeStaysAsLongAsEitherNeedsIt) {
  ASSERT_TRUE(Push("uid:1", "vision", {"shared"}).ok());
  RestartAfter(1);
  // As when the checkpoint that had it was removed.
  CollectBlobs(daemon().jobs, daemon().stores, daemon().job_code, daemon().process,
               {common::Sha256Hex("shared")});
  Settle();
  EXPECT_TRUE(HasBlob("shared"));
  RestartAfter(27);
  auto record = std::make_shared<v1::JobRecord>();
  record->set_id(900);
  record->set_name("old-900");
  record->set_state(v1::JOB_STATE_SUCCEEDED);
  v1::CheckpointFile* file = record->add_checkpoints()->add_files();
  file->set_path("model");
  file->set_sha256(common::Sha256Hex("shared"));
  std::promise<void> written;
  daemon().jobs.loop.RewriteFinished(record, [&] { written.set_value(); });
  written.get_future().get();
  Collect();
  EXPECT_FALSE(HasRow("shared"));
  EXPECT_TRUE(HasBlob("shared")) << "a checkpoint refers to it";
}

}  // namespace
}  // namespace muster::coordinator
