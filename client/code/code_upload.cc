#include "client/code/code_upload.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/digest.h"
#include "tree/object_source.h"
#include "tree/snapshot_index.h"

namespace muster::client {
namespace {

using common::StrCat;

// limit: code: snapshots of a directory that changes while it is sent; an error
constexpr int kSnapshotsMax = 3;  // tries for a directory whose files change while they are sent
constexpr int kLossesMax = 3;     // snapshots because the coordinator lost objects
// limit: code: streams in a row that bring nothing; an error
constexpr int kPushesMax = 6;  // in a row without progress
constexpr int kPushesInAllMax = 1'000;

absl::Status ProtocolError(std::string_view what) {
  return common::MakeProblem(absl::StatusCode::kInternal,
                             {.code = "JC1716",
                              .what = StrCat("the coordinator's answer makes no sense: ", what),
                              .fix = "install the same release on both sides; jobctl version"});
}

// The snapshot's errors, as people see them.
absl::Status SnapshotProblem(const absl::Status& status, const std::string& root) {
  const std::string what = common::MessageOf(status);
  const std::string where = common::Printable(root);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return common::MakeProblem(
          status.code(), {.code = "JC1710",
                          .what = what,
                          .fix = StrCat("remove them, or list them in ", where, "/.musterignore")});
    case absl::StatusCode::kResourceExhausted:
      return common::MakeProblem(status.code(),
                                 {.code = "JC1711",
                                  .what = what,
                                  .fix = StrCat("list what the job does not need in ", where,
                                                "/.musterignore (data sets, checkpoints)")});
    case absl::StatusCode::kAborted:
      return common::MakeProblem(
          status.code(),
          {.code = "JC1712",
           .what = what,
           .fix = StrCat("run the command again when nothing writes to it, or list it "
                         "in ",
                         where, "/.musterignore")});
    default:
      return common::MakeProblem(status.code(),
                                 {.code = "JC1713",
                                  .what = StrCat("the directory cannot be sent: ", what),
                                  .fix = StrCat("ls -ld ", where)});
  }
}

// One thing to send: one of two texts, or an object of the placement.
struct Item {
  tree::Digest name;
  uint64_t size = 0;
  std::string_view text;  // of a text
  uint32_t object = tree::kNoObject;
};

struct Missing {
  const Item* item;
  uint64_t offset;
};

// The chunks of the missing items, one after the other.
class ChunkSource {
 public:
  ChunkSource(std::string project, std::vector<Missing> missing, tree::ObjectSource* objects,
              std::function<void(uint64_t bytes)> on_sent)
      : project_(std::move(project)),
        missing_(std::move(missing)),
        objects_(objects),
        on_sent_(std::move(on_sent)) {}

  absl::StatusOr<bool> Next(v1::ObjectChunk* chunk) {
    if (at_ == missing_.size()) return false;
    const auto& [item, offset] = missing_[at_];
    if (!is_open_) {
      if (at_ == 0) chunk->set_project(project_);
      RETURN_IF_ERROR(Open(*item, offset, chunk));
    }
    RETURN_IF_ERROR(Fill(*item, chunk->mutable_data()));
    on_sent_(chunk->data().size());
    if (sent_ == item->size) {
      ++at_;
      is_open_ = false;
    }
    return true;
  }
  // Why Next failed: a file has changed.
  const absl::Status& problem() const { return problem_; }

 private:
  absl::Status Open(const Item& item, uint64_t offset, v1::ObjectChunk* chunk) {
    chunk->set_sha256(item.name.bytes.data(), item.name.bytes.size());
    chunk->set_size(item.size);
    chunk->set_offset(offset);
    sent_ = offset;
    is_open_ = true;
    stream_.reset();
    if (item.object == tree::kNoObject) return absl::OkStatus();
    absl::StatusOr<tree::ObjectStream> stream = objects_->Open(item.object, offset);
    if (!stream.ok()) return problem_ = stream.status();
    stream_.emplace(*std::move(stream));
    return absl::OkStatus();
  }

  absl::Status Fill(const Item& item, std::string* data) {
    const size_t wanted = std::min<uint64_t>(kObjectChunkBytes, item.size - sent_);
    if (!stream_.has_value()) {
      data->assign(item.text.substr(sent_, wanted));
    } else {
      data->resize(wanted);
      for (size_t have = 0; have < wanted;) {
        const absl::StatusOr<size_t> count = stream_->Read(data->data() + have, wanted - have);
        if (!count.ok()) return problem_ = count.status();
        CHECK(*count > 0);  // the stream has `size` bytes: a file that shrank is an error of Read
        have += *count;
      }
    }
    sent_ += wanted;
    return absl::OkStatus();
  }

  const std::string project_;
  const std::vector<Missing> missing_;
  tree::ObjectSource* const objects_;
  const std::function<void(uint64_t)> on_sent_;
  size_t at_ = 0;
  bool is_open_ = false;
  uint64_t sent_ = 0;  // of the item, including bytes that the coordinator had already
  std::optional<tree::ObjectStream> stream_;
  absl::Status problem_;
};

class TreeUpload {
 public:
  TreeUpload(const CodeTransport& transport, const UploadOptions& options)
      : transport_(transport), options_(options) {}

  absl::StatusOr<UploadedTree> Run() {
    for (int snapshots = 1, losses = 0;; ++snapshots) {
      RETURN_IF_ERROR(TakeSnapshot());
      const absl::Status sent = Send();
      if (sent.ok()) break;
      if (!lost_now_.empty()) {
        if (++losses > kLossesMax)
          return ProtocolError("objects that it had are missing again and again");
        lost_.insert(lost_.end(), lost_now_.begin(), lost_now_.end());
        --snapshots;
        continue;
      }
      if (is_damaged_ && !index_removed_) {
        // Every file's bytes were checked when they were sent, so their recorded places were wrong.
        index_removed_ = true;
        RemoveIndex();
        continue;
      }
      if (!is_changed_) return sent;
      if (snapshots >= kSnapshotsMax) return SnapshotProblem(sent, options_.root);
    }
    UploadedTree done;
    done.placement_bytes = placement_.size();
    done.placement = tree::DigestOf(placement_);
    done.sent_bytes = progress_.bytes_sent;
    done.snapshot = std::move(snapshot_);
    return done;
  }

 private:
  void Tell() {
    if (options_.on_progress) options_.on_progress(progress_);
  }

  absl::Status TakeSnapshot() {
    tree::SnapshotOptions how;
    how.cache_directory = options_.cache_directory;
    how.lost_objects = lost_;
    how.on_read = [this](std::string_view, uint64_t bytes) {
      ++progress_.files_read;
      progress_.bytes_read += bytes;
      Tell();
    };
    how.now_ms = options_.now_ms();
    absl::StatusOr<tree::Snapshot> taken = tree::TakeSnapshot(options_.root, how);
    if (!taken.ok()) return SnapshotProblem(taken.status(), options_.root);
    snapshot_ = *std::move(taken);
    placement_ = tree::EncodePlacement(snapshot_.manifest, snapshot_.identity, snapshot_.placement);
    ListItems();
    root_ = common::UniqueFd(open(options_.root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root_.valid()) return absl::OkStatus();
    return SnapshotProblem(
        common::ErrnoStatus(StrCat("cannot open ", common::Printable(options_.root))),
        options_.root);
  }

  void ListItems() {
    items_.clear();
    // Files first, so that the coordinator has the whole tree once it has the manifest.
    const std::vector<tree::Object>& objects = snapshot_.placement.objects;
    for (uint32_t i = 0; i < objects.size(); ++i)
      items_.push_back({.name = objects[i].name, .size = objects[i].size, .object = i});
    for (const std::string* text : {&placement_, &snapshot_.encoded})
      items_.push_back({.name = tree::DigestOf(*text), .size = text->size(), .text = *text});
  }

  // The items that the coordinator does not have, and from which offset they are missing.
  absl::StatusOr<std::vector<Missing>> Ask() const {
    std::vector<Missing> missing;
    for (size_t begin = 0; begin < items_.size(); begin += options_.objects_per_request) {
      const size_t end = std::min(items_.size(), begin + options_.objects_per_request);
      v1::PrepareObjectsRequest request;
      request.set_project(options_.project);
      for (size_t i = begin; i < end; ++i) {
        v1::ObjectName* name = request.add_objects();
        name->set_sha256(items_[i].name.bytes.data(), items_[i].name.bytes.size());
        name->set_size(items_[i].size);
      }
      ASSIGN_OR_RETURN(const v1::PrepareObjectsResponse response, transport_.prepare(request));
      if (static_cast<size_t>(response.offsets_size()) != end - begin)
        return ProtocolError("another number of objects than it was asked for");
      for (size_t i = begin; i < end; ++i) {
        const uint64_t offset = response.offsets(static_cast<int>(i - begin));
        if (offset > items_[i].size) return ProtocolError("it has more of an object than there is");
        if (offset < items_[i].size) missing.push_back({&items_[i], offset});
      }
    }
    return missing;
  }

  // Sends until the coordinator has all items. Also records details of an error.
  absl::Status Send() {
    lost_now_.clear();
    is_changed_ = is_damaged_ = false;
    uint64_t least_left = UINT64_MAX;
    for (int pushes = 1, idle = 0; pushes <= kPushesInAllMax; ++pushes) {
      uint64_t left = least_left;
      const absl::Status sent = SendOnce(&left);
      if (sent.ok() || sent.code() != absl::StatusCode::kUnavailable) return sent;
      idle = left < least_left ? 1 : idle + 1;
      least_left = std::min(least_left, left);
      if (idle > kPushesMax) return sent;
      RETURN_IF_ERROR(transport_.again(sent, idle));
    }
    return ProtocolError("the upload breaks off again and again");
  }

  // `left`: how many bytes were missing at the beginning.
  absl::Status SendOnce(uint64_t* left) {
    ASSIGN_OR_RETURN(std::vector<Missing> missing, Ask());
    *left = 0;
    for (const Missing& each : missing) *left += each.item->size - each.offset;
    if (missing.empty()) return absl::OkStatus();
    tree::ObjectSource objects(root_.get(), snapshot_.manifest, snapshot_.placement);
    for (const Missing& each : missing) {
      if (each.item->object != tree::kNoObject && !objects.IsComplete(each.item->object))
        lost_now_.push_back(each.item->name);
    }
    if (!lost_now_.empty()) return absl::AbortedError("objects have to be made again");
    progress_.bytes_to_send = progress_.bytes_sent + *left;
    ChunkSource source(options_.project, std::move(missing), &objects, [this](uint64_t bytes) {
      progress_.bytes_sent += bytes;
      Tell();
    });
    const absl::StatusOr<v1::PushObjectsResponse> pushed =
        transport_.push([&](v1::ObjectChunk* chunk) { return source.Next(chunk); });
    is_changed_ = !source.problem().ok();
    is_damaged_ = !is_changed_ && absl::IsDataLoss(pushed.status());
    return is_changed_ ? source.problem() : pushed.status();
  }

  void RemoveIndex() const {
    char real[PATH_MAX];
    if (options_.cache_directory.empty() || realpath(options_.root.c_str(), real) == nullptr)
      return;
    unlink(tree::IndexPath(options_.cache_directory, real).c_str());
  }

  const CodeTransport& transport_;
  const UploadOptions& options_;
  UploadProgress progress_;
  tree::Snapshot snapshot_;
  std::string placement_;
  common::UniqueFd root_;
  std::vector<Item> items_;
  std::vector<tree::Digest> lost_;      // in all snapshots
  std::vector<tree::Digest> lost_now_;  // found by the last Send
  bool is_changed_ = false;             // a file changed while it was sent
  bool is_damaged_ = false;  // the coordinator received bytes that do not match their hash
  bool index_removed_ = false;
};

}  // namespace

absl::StatusOr<UploadedTree> UploadTree(const CodeTransport& transport,
                                        const UploadOptions& options) {
  return TreeUpload(transport, options).Run();
}

}  // namespace muster::client
