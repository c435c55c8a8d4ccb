#include "tree/snapshot.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/packer.h"
#include "tree/snapshot_index.h"
#include "tree/walk.h"

namespace muster::tree {
namespace {

using common::StrCat;
using common::UniqueFd;

constexpr size_t kIndexBytesMax = 1 << 30;

class Builder {
 public:
  Builder(std::string root, const SnapshotOptions& options)
      : root_(std::move(root)), options_(options) {}

  absl::StatusOr<Snapshot> Build() {
    fd_ = UniqueFd(open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd_.valid()) return common::ErrnoStatus(StrCat("cannot open ", Root()));
    RETURN_IF_ERROR(Walk());
    LoadIndex();
    Packer packer(index_.objects, entries().size());
    packer_ = &packer;
    Recognize();
    Directories directories(fd_.get());
    ReadChanged(directories);
    Repack(directories);
    if (!refused_.empty()) return Refuse();
    packer.Finish();
    RemoveVanished();
    RETURN_IF_ERROR(CheckSize());
    result_.encoded = Encode(result_.manifest);
    result_.identity = IdentityOf(result_.encoded);
    SaveIndex();
    MakePlacement();
    return std::move(result_);
  }

 private:
  std::string Root() const { return common::Printable(root_); }
  std::vector<Entry>& entries() { return result_.manifest.entries; }

  absl::Status Walk() {
    tree::Walk walk;
    if (const absl::Status walked = WalkTree(fd_.get(), &walk); !walked.ok()) {
      return absl::Status(walked.code(), StrCat(Root(), ": ", walked.message()));
    }
    refused_ = std::move(walk.refused);
    result_.warnings = std::move(walk.warnings);
    result_.counts.ignored = walk.ignored;
    entries().reserve(walk.found.size());
    for (Found& found : walk.found) {
      entries().push_back(std::move(found.entry));
      stamps_.push_back(found.stamp);
    }
    places_.resize(entries().size());
    CheckLinks();
    if (refused_.empty()) return absl::OkStatus();
    RefuseUnreadable();
    return Refuse();
  }

  void CheckLinks() {
    LinkRules rules(result_.manifest);
    for (const Entry& entry : entries()) {
      if (entry.kind != Kind::kLink) continue;
      bool dangling = false;
      const std::string_view why = rules.Problem(entry, &dangling);
      if (!why.empty()) {
        refused_.Add(entry.path, why);
      } else if (dangling) {
        result_.warnings.Add(entry.path, StrCat("is a link to ", common::Printable(entry.target),
                                                ", which is not part of the tree"));
      }
    }
  }

  // The tree is refused already, so other problems are found without reading all of it.
  void RefuseUnreadable() {
    Directories directories(fd_.get());
    for (const Entry& entry : entries()) {
      if (entry.IsFile() && !directories.Open(entry.path, O_RDONLY).valid() && errno != ENOENT) {
        refused_.Add(entry.path, common::MessageOf(common::ErrnoStatus("cannot be opened")));
      }
    }
  }

  absl::Status Refuse() const {
    return absl::InvalidArgumentError(StrCat(Root(), " has ", refused_.count(),
                                             refused_.count() == 1 ? " entry" : " entries",
                                             " that cannot be sent", refused_.Text()));
  }

  void LoadIndex() {
    if (options_.cache_directory.empty()) return;
    const std::string path = IndexPath(options_.cache_directory, root_);
    const absl::StatusOr<std::string> bytes = common::ReadFile(path, kIndexBytesMax);
    if (absl::IsNotFound(bytes.status())) return;
    absl::StatusOr<SnapshotIndex> index = bytes.ok() ? DecodeIndex(*bytes, root_) : bytes.status();
    if (index.ok()) {
      index_ = *std::move(index);
      saved_ = true;
    } else {
      result_.index_problem = StrCat("all files were read, because ", common::Printable(path), " ",
                                     index.status().message());
    }
  }

  // Finds out which contents have a place, and which files are unchanged.
  void Recognize() {
    absl::flat_hash_set<Digest, DigestHash> lost(options_.lost_objects.begin(),
                                                 options_.lost_objects.end());
    const auto has_place = [&](const IndexedFile& file) {
      return file.place.object != kNoObject &&
             lost.count(index_.objects[file.place.object].name) == 0;
    };
    for (const IndexedFile& file : index_.files) {
      if (has_place(file)) packer_->Know(file.content, file.place);
    }
    known_.resize(entries().size());
    auto indexed = index_.files.begin();
    for (size_t i = 0; i < entries().size(); ++i) {
      Entry& entry = entries()[i];
      while (indexed != index_.files.end() && PathLess(indexed->path, entry.path)) ++indexed;
      if (indexed == index_.files.end()) break;
      if (!entry.IsFile() || indexed->path != entry.path || !(indexed->stamp == stamps_[i]) ||
          IsRacy(indexed->stamp, index_.taken_ms)) {
        continue;
      }
      if (indexed->stamp.size > 0 && !has_place(*indexed)) continue;
      entry.content = indexed->content;
      places_[i] = indexed->place;
      known_[i] = true;
    }
  }

  void ReadChanged(Directories& directories) {
    for (size_t i = 0; i < entries().size(); ++i) {
      if (!entries()[i].IsFile()) continue;
      ++result_.counts.files;
      if (!known_[i]) Read(directories, i);
    }
  }

  // Reads a file and gives its content a place.
  void Read(Directories& directories, size_t i) {
    Entry& entry = entries()[i];
    changed_ = true;
    const absl::Status read = ReadStable(directories, entry.path, options_.on_read, &file_);
    if (absl::IsNotFound(read)) {
      vanished_.resize(entries().size());
      vanished_[i] = true;
      places_[i] = {};
      return;
    }
    if (!read.ok()) {
      refused_.Add(entry.path, common::MessageOf(read));
      return;
    }
    ++result_.counts.files_read;
    result_.counts.bytes_read += file_.stamp.size;
    stamps_[i] = file_.stamp;
    entry.kind = file_.kind;
    entry.size = file_.stamp.size;
    entry.content = file_.content;
    places_[i] = PlaceOf(entry);
  }

  Place PlaceOf(const Entry& entry) {
    if (entry.size == 0) return {};
    if (const std::optional<Place> place = packer_->Find(entry.content)) return *place;
    return entry.size < kOwnObjectBytes ? packer_->Append(entry.content, file_.bytes)
                                        : packer_->AddOwn(entry.content, entry.size);
  }

  // Repacks packs that are mostly unused by now, reading the files themselves.
  void Repack(Directories& directories) {
    const size_t old = index_.objects.size();
    std::vector<uint64_t> used(packer_->objects().size());
    absl::flat_hash_set<Digest, DigestHash> counted;
    counted.reserve(places_.size());
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].object >= old) continue;
      if (counted.insert(entries()[i].content).second) used[places_[i].object] += entries()[i].size;
    }
    const std::vector<bool> sparse = SparsePacks(packer_->objects(), used);
    if (std::find(sparse.begin(), sparse.end(), true) == sparse.end()) return;
    packer_->Abandon(sparse);
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].object >= old || !sparse[places_[i].object]) continue;
      ++result_.counts.files_repacked;
      Read(directories, i);
    }
  }

  void RemoveVanished() {
    if (vanished_.empty()) return;
    size_t to = 0;
    for (size_t i = 0; i < entries().size(); ++i) {
      if (vanished_[i]) continue;
      if (to != i) entries()[to] = std::move(entries()[i]);
      stamps_[to] = stamps_[i];
      places_[to] = places_[i];
      ++to;
    }
    result_.counts.files -= entries().size() - to;
    entries().resize(to);
    stamps_.resize(to);
    places_.resize(to);
  }

  absl::Status CheckSize() const {
    uint64_t bytes = 0, names = 0;
    for (const Entry& entry : result_.manifest.entries) {
      bytes += std::min(entry.size, kTreeBytesMax + 1);  // so a million of them do not overflow
      names += entry.path.size() + entry.target.size();
    }
    if (bytes <= kTreeBytesMax && names <= kPathsBytesMax) return absl::OkStatus();
    return absl::ResourceExhaustedError(StrCat(Root(), bytes > kTreeBytesMax
                                                           ? " has more than 1 TiB of files"
                                                           : " has more than 256 MiB of names"));
  }

  void SaveIndex() {
    if (options_.cache_directory.empty()) return;
    SnapshotIndex index;
    index.taken_ms = options_.now_ms;
    index.objects = packer_->objects();
    size_t files = 0;
    for (const Entry& entry : entries()) files += entry.IsFile() ? 1 : 0;
    // Nothing was read, added or removed, so the saved index is still right for the next snapshot.
    if (saved_ && !changed_ && files == index_.files.size()) return;
    index.files.reserve(files);
    for (size_t i = 0; i < entries().size(); ++i) {
      const Entry& entry = entries()[i];
      if (entry.IsFile())
        index.files.push_back({entry.path, stamps_[i], entry.content, places_[i]});
    }
    KeepUsed(&index.objects, [&](const auto& visit) {
      for (IndexedFile& file : index.files) visit(file.place);
    });
    const absl::Status saved = common::WriteFileDurably(IndexPath(options_.cache_directory, root_),
                                                        EncodeIndex(root_, index));
    if (!saved.ok()) {
      result_.index_problem =
          StrCat("the next snapshot will read all files again: ", saved.message());
    }
  }

  // Sorts the objects by name and leaves out those that no place mentions.
  template <typename ForEachPlace>
  static void KeepUsed(std::vector<Object>* objects, const ForEachPlace& for_each_place) {
    std::vector<uint32_t> order(objects->size()), number(objects->size());
    std::vector<bool> used(objects->size());
    for_each_place([&](Place& place) {
      if (place.object != kNoObject) used[place.object] = true;
    });
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return (*objects)[a].name < (*objects)[b].name; });
    std::vector<Object> kept;
    for (const uint32_t at : order) {
      if (!used[at]) continue;
      // Two packs of the same bytes are one object.
      if (kept.empty() || kept.back().name != (*objects)[at].name) kept.push_back((*objects)[at]);
      number[at] = static_cast<uint32_t>(kept.size() - 1);
    }
    for_each_place([&](Place& place) {
      if (place.object != kNoObject) place.object = number[place.object];
    });
    *objects = std::move(kept);
  }

  void MakePlacement() {
    result_.placement.objects = packer_->objects();
    result_.placement.places = std::move(places_);
    KeepUsed(&result_.placement.objects, [this](const auto& visit) {
      for (Place& place : result_.placement.places) visit(place);
    });
  }

  const std::string root_;
  const SnapshotOptions& options_;
  UniqueFd fd_;
  Snapshot result_;
  Listing refused_;
  SnapshotIndex index_;
  bool saved_ = false;    // the file has the content of index_
  bool changed_ = false;  // something was read
  Packer* packer_ = nullptr;
  StableFile file_;
  // One per entry:
  std::vector<Stamp> stamps_;
  std::vector<Place> places_;
  std::vector<bool> known_;     // unchanged since the index
  std::vector<bool> vanished_;  // empty: none
};

}  // namespace

absl::StatusOr<Snapshot> TakeSnapshot(const std::string& root, const SnapshotOptions& options) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(root.c_str(), nullptr), free);
  if (real == nullptr) {
    return common::ErrnoStatus(StrCat("cannot open ", common::Printable(root)));
  }
  return Builder(real.get(), options).Build();
}

}  // namespace muster::tree
