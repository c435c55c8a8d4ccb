#include "worker/preparation/preparation_steps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/copy_tree.h"
#include "tree/materialize.h"
#include "worker/containers/rank_containers.h"
#include "worker/launch/launch_environment.h"
#include "worker/launch/prepared_place.h"
#include "worker/preparation/setup_step.h"
#include "worker/preparation/tree_step.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr uint64_t kCopiedEntriesMax = 2'000'000;

// What the job asks for is wrong, and would be on any node.
bool IsOfJob(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsPermissionDenied(status);
}

// An errno of this node's own files is not the job's fault.
absl::Status OfNode(const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status) || absl::IsResourceExhausted(status)) return status;
  return absl::InternalError(common::MessageOf(status));
}

class NodePreparation {
 public:
  NodePreparation(PreparationContext& context, const v1::PrepareAttempt& order,
                  const Progress& progress)
      : context_(context),
        spec_(order.spec()),
        order_(order),
        project_(spec_.project().empty() ? "default" : spec_.project()),
        progress_(progress) {}

  absl::Status Run(PreparedNode* done) {
    RETURN_IF_ERROR(OfNode(context_.cache.Open()));
    ASSIGN_OR_RETURN(done->account, AccountFor(context_.setup.run_as, context_.setup.node,
                                               order_.owner(), order_.account()));
    if (!spec_.container().image().empty()) RETURN_IF_ERROR(FetchImage(done));
    if (spec_.has_code()) RETURN_IF_ERROR(FetchTree(&done->preparation));
    absl::Status made = SetUpAndCopy(done);
    if (absl::IsDataLoss(made) && tree_) {
      // The tree in the cache was damaged: it is unpacked again, once.
      context_.cache.Discard(tree_->path);
      tree_.reset();
      RETURN_IF_ERROR(FetchTree(&done->preparation));
      made = SetUpAndCopy(done);
    }
    RETURN_IF_ERROR(made);
    return DescribeRank(done);
  }

 private:
  absl::Status FetchImage(PreparedNode* done) {
    if (context_.setup.containers.runc.empty() || context_.setup.containers.umoci.empty()) {
      return absl::FailedPreconditionError(
          StrCat("node ", context_.setup.node, " cannot run the job's image ",
                 common::Printable(spec_.container().image()),
                 ": its worker cannot run containers; fix: jobctl nodes show ", context_.setup.node,
                 " prints what it lacks"));
    }
    progress_.say("looking for the image");
    ASSIGN_OR_RETURN(image_,
                     GetImage(context_, spec_.container().image(), done->account, progress_));
    done->in_image = true;
    done->preparation.set_image(image_->image.digest);
    return absl::OkStatus();
  }

  absl::Status FetchTree(v1::Preparation* preparation) {
    progress_.say("fetching code");
    ASSIGN_OR_RETURN(tree_, GetTree(context_, project_, spec_.code(), progress_));
    preparation->set_fetched_bytes(preparation->fetched_bytes() + tree_->fetched_bytes);
    return absl::OkStatus();
  }

  // DATA_LOSS: the cached tree is damaged.
  absl::Status SetUpAndCopy(PreparedNode* done) {
    std::optional<CachedSetup> setup;
    if (!spec_.setup().empty()) {
      v1::JobSpec spec = spec_;
      spec.set_project(project_);
      v1::Preparation record;
      absl::StatusOr<CachedSetup> made =
          GetSetup(context_, spec, tree_ ? &*tree_ : nullptr, image_ ? &image_->image : nullptr,
                   done->account, progress_, &record);
      done->preparation.MergeFrom(record);
      ASSIGN_OR_RETURN(setup, std::move(made));
    }
    RETURN_IF_ERROR(OfNode(MakeAttemptDir(done->account, setup ? setup->path : "")));
    if (!spec_.has_code()) return absl::OkStatus();
    progress_.say("copying code");
    return CopyCode(done->account, setup ? setup->path : "");
  }

  // With the link to the setup that the attempt uses: from now on the cache keeps it.
  absl::Status MakeAttemptDir(const RankAccount& account, const std::string& setup) const {
    const std::string directory = context_.setup.paths.AttemptDir(progress_.key);
    RETURN_IF_ERROR(common::MakeDirectories(directory));
    if (account.ids.is_other && chmod(directory.c_str(), 0711) != 0)
      return common::ErrnoStatus(StrCat("cannot open ", directory));
    const std::string link = context_.setup.paths.AttemptSetup(progress_.key);
    unlink(link.c_str());
    if (image_) RETURN_IF_ERROR(UseImage(context_.setup.paths, progress_.key, *image_));
    if (setup.empty() || symlink(setup.c_str(), link.c_str()) == 0) return absl::OkStatus();
    return common::ErrnoStatus(StrCat("cannot create ", link));
  }

  absl::Status CopyCode(const RankAccount& account, const std::string& setup) const {
    const std::string path = context_.setup.paths.AttemptCode(progress_.key);
    RETURN_IF_ERROR(OfNode(common::RemoveTree(path)));  // incomplete since a restart
    RETURN_IF_ERROR(
        context_.cache.MakeRoom("a copy of the job's code", DiskBytes(tree_->manifest)));
    RETURN_IF_ERROR(OfNode(common::MakeDirectories(path)));
    const common::UniqueFd target(
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!target.valid()) return OfNode(common::ErrnoStatus(StrCat("cannot open ", path)));
    tree::TreeTarget to{.directory = target.get(), .path = path};
    to.stopped = progress_.stopped;
    if (account.ids.is_other) to.owner = tree::TreeOwner{account.ids.uid, account.ids.gid};
    absl::Status copied = setup.empty() ? CopyTree(to) : CopySetup(setup, to);
    if (copied.ok() && account.ids.is_other &&
        fchown(target.get(), account.ids.uid, account.ids.gid) != 0) {
      copied = OfNode(common::ErrnoStatus(StrCat("cannot hand over ", path)));
    }
    if (!copied.ok()) common::RemoveTree(path).IgnoreError();
    return copied;
  }

  absl::Status CopyTree(const tree::TreeTarget& to) const {
    tree::Materialized done;
    const absl::Status copied =
        tree::Materialize(tree_->manifest, tree_->directory.get(), to, &done);
    // Either the tree in the cache is not what was unpacked, or it cannot be read.
    const bool is_damaged = absl::IsFailedPrecondition(copied) || absl::IsInternal(copied);
    return is_damaged ? absl::DataLossError(common::MessageOf(copied)) : OfNode(copied);
  }

  absl::Status CopySetup(const std::string& setup, const tree::TreeTarget& to) const {
    const std::string path = PlaceOfSetup(setup).setup_tree;
    const common::UniqueFd source(
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!source.valid()) return OfNode(common::ErrnoStatus(StrCat("cannot open ", path)));
    tree::CopiedTree done;
    return OfNode(tree::CopyTree(source.get(), to, kCopiedEntriesMax, &done));
  }

  absl::Status DescribeRank(PreparedNode* done) const {
    v1::RunNotify order;
    order.set_workdir(spec_.has_code()
                          ? CodeWorkdir(context_.setup.paths, progress_.key, spec_.workdir())
                          : spec_.workdir());
    *order.mutable_command() = spec_.command();
    *order.mutable_env() = spec_.env();
    done->command = BuildNotify(order, {});
    const PreparedPlace place = PlaceOf(context_.setup.paths, progress_.key);
    if (image_) {
      std::vector<common::RankLaunch> ranks = {done->command};
      done->problem = CheckContainers(
          PlaceOfAttempt(context_.setup.node, context_.setup.paths, progress_.key, spec_, place),
          image_->image, spec_, order_.part(), done->account, place, &ranks);
    }
    EnterPlace(place, &done->command);
    if (!spec_.has_code()) return absl::OkStatus();
    const ActAs acting(done->account);
    struct stat info {};
    if (stat(order.workdir().c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        StrCat("node ", context_.setup.node, ": the job's code has no directory ",
               common::Printable(spec_.workdir()),
               ", which is its workdir; fix: name one of the tree, or see what is left out of it "
               "(docs/code.md)"));
  }

  PreparationContext& context_;
  const v1::JobSpec& spec_;
  const v1::PrepareAttempt& order_;
  const std::string project_;
  const Progress& progress_;
  std::optional<CachedTree> tree_;
  std::optional<CachedImage> image_;
};

}  // namespace

PreparedNode PrepareNode(PreparationContext& context, const v1::PrepareAttempt& order,
                         const Progress& progress) {
  PreparedNode done;
  const absl::Status status = NodePreparation(context, order, progress).Run(&done);
  if (status.ok()) return done;
  done.stopped = absl::IsCancelled(status);
  done.would_fail_again = IsOfJob(status);
  const std::string message = common::MessageOf(status);
  const bool names_node = message.find(context.setup.node) != std::string::npos;
  done.failure = names_node
                     ? message
                     : StrCat("node ", context.setup.node, " cannot prepare the job: ", message);
  if (!done.preparation.ran_setup()) done.preparation.Clear();
  return done;
}

}  // namespace muster::worker
