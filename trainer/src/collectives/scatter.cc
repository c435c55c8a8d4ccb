// Scatters a batch from one rank: its layout once, then to each rank its samples, one message per
// tensor.
#include "collectives/collectives.h"
#include "muster/base/errors.h"
#include "muster/values/nested.h"

namespace muster {
namespace {

constexpr const char* kFunction = "scatter";

// What rank `from` announces: the size in bytes of a new layout (> 0), or one of these, or kFailure
// minus the size in bytes of an error message.
constexpr int64_t kSameLayout = 0;
constexpr int64_t kNoMoreBatches = -1;
constexpr int64_t kFailure = -2;

struct TensorLayout {
  int8_t dtype = -1;  // at::ScalarType; -1: undefined
  std::vector<int64_t> shape;
};

struct Layout {
  std::vector<TensorLayout> tensors;
  std::string note;
};

void pass(Layout& layout, nested_detail::StructureBytes& bytes) {
  size_t count = layout.tensors.size();
  bytes.length(count);
  layout.tensors.resize(count);
  for (TensorLayout& tensor : layout.tensors) {
    bytes.raw(&tensor.dtype, sizeof(tensor.dtype));
    nested_detail::Parts<std::vector<int64_t>>::structure(tensor.shape, bytes);
  }
  bytes.text(layout.note);
}

std::string encoded(const ScatterBatch& batch) {
  Layout layout;
  for (const at::Tensor& tensor : batch.tensors) {
    layout.tensors.emplace_back();
    if (!tensor.defined()) continue;
    layout.tensors.back().dtype = static_cast<int8_t>(tensor.scalar_type());
    layout.tensors.back().shape = tensor.sizes().vec();
  }
  layout.note = batch.note;
  nested_detail::StructureBytes bytes;
  pass(layout, bytes);
  return bytes.finish();
}

Layout decoded(const std::string& text) {
  Layout layout;
  nested_detail::StructureBytes bytes(text);
  pass(layout, bytes);
  bytes.finish();
  return layout;
}

// Samples in the batch: dimension 0 of its tensors, 0 if all are 0-d. Throws std::invalid_argument.
int64_t samples_of(const ScatterBatch& batch) {
  int64_t samples = -1;
  for (size_t i = 0; i < batch.tensors.size(); ++i) {
    const at::Tensor& tensor = batch.tensors[i];
    if (!tensor.defined()) continue;
    const std::string name = "scatter: tensor " + std::to_string(i);
    if (!tensor.is_cpu() || tensor.layout() != at::kStrided || tensor.is_quantized()) {
      throw std::invalid_argument(name + " is " + tensor.toString() +
                                  ": only dense CPU tensors can be scattered");
    }
    if (tensor.dim() == 0) continue;
    if (samples >= 0 && tensor.size(0) != samples) {
      throw std::invalid_argument(name + " has " + std::to_string(tensor.size(0)) +
                                  " samples in dimension 0, but the tensors before it have " +
                                  std::to_string(samples));
    }
    samples = tensor.size(0);
  }
  return std::max<int64_t>(samples, 0);
}

}  // namespace

std::vector<int64_t> Collectives::announce(int from, int64_t number) {
  return exchange({.function = kFunction,
                   .options = "from " + std::to_string(from),
                   .refused = refused_rank(kFunction, from)},
                  number);
}

std::optional<ScatterShare> Collectives::scatter(const ScatterBatch* batch, int from) {
  const at::NoGradGuard no_grad;
  if (rank_ == from && batch != nullptr) return scatter_own(*batch, from);
  const std::vector<int64_t> numbers = announce(from, kNoMoreBatches);
  const int64_t announced = numbers[static_cast<size_t>(from)];
  if (announced == kNoMoreBatches) return std::nullopt;
  if (announced <= kFailure) {
    throw CommunicationError("rank " + std::to_string(from) + " has no batch to scatter: " +
                             broadcast_bytes(kFunction, "", kFailure - announced, from));
  }
  return scatter_received(from, announced);
}

void Collectives::scatter_failure(const std::string& message, int from) {
  if (!group_) return;
  // Never empty, so that it differs from every other announcement.
  const std::string text = message.empty() ? "unknown error" : message;
  const auto size = static_cast<int64_t>(text.size());
  announce(from, kFailure - size);
  broadcast_bytes(kFunction, text, size, from);
}

ScatterShare Collectives::scatter_own(const ScatterBatch& batch, int from) {
  int64_t samples = 0;
  try {
    samples = samples_of(batch);
  } catch (const std::invalid_argument& error) {
    scatter_failure(error.what(), from);
    throw;
  }
  const SplitRange own = split_range(samples, rank_, world_size_);
  ScatterShare share{.note = batch.note, .batch_size = samples, .begin = own.begin, .end = own.end};
  if (!group_) {
    share.tensors = batch.tensors;
    return share;
  }
  std::string layout = encoded(batch);
  const bool known = layout == scatter_layout_;
  const auto bytes = static_cast<int64_t>(layout.size());
  announce(from, known ? kSameLayout : bytes);
  if (!known) broadcast_bytes(kFunction, layout, bytes, from);
  scatter_layout_ = std::move(layout);

  std::vector<std::vector<at::Tensor>> messages;  // alive until all are sent
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  communicate(kFunction, [&] {
    for (size_t i = 0; i < batch.tensors.size(); ++i) {
      const at::Tensor& tensor = batch.tensors[i];
      share.tensors.emplace_back();
      if (!tensor.defined()) continue;
      const at::Tensor whole = tensor.detach().resolve_conj().resolve_neg().contiguous();
      for (int rank = 0; rank < world_size_; ++rank) {
        const SplitRange range = split_range(samples, rank, world_size_);
        const at::Tensor part =
            whole.dim() == 0 ? whole : whole.narrow(0, range.begin, range.end - range.begin);
        if (rank == from) share.tensors.back() = part.clone();
        if (rank == from || part.numel() == 0) continue;
        messages.push_back({as_bytes(part)});
        works.push_back(backend(part).send(messages.back(), rank, static_cast<int>(i)));
      }
    }
    for (const auto& work : works) work->wait();
  });
  return share;
}

ScatterShare Collectives::scatter_received(int from, int64_t layout_bytes) {
  if (layout_bytes != kSameLayout) {
    scatter_layout_ = broadcast_bytes(kFunction, "", layout_bytes, from);
  }
  Layout layout = decoded(scatter_layout_);
  ScatterShare share{.note = std::move(layout.note)};
  for (const TensorLayout& tensor : layout.tensors) {
    if (!tensor.shape.empty()) share.batch_size = tensor.shape[0];
  }
  const SplitRange own = split_range(share.batch_size, rank_, world_size_);
  share.begin = own.begin;
  share.end = own.end;
  std::vector<std::vector<at::Tensor>> messages;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  communicate(kFunction, [&] {
    for (size_t i = 0; i < layout.tensors.size(); ++i) {
      TensorLayout& tensor = layout.tensors[i];
      share.tensors.emplace_back();
      if (tensor.dtype < 0) continue;
      if (!tensor.shape.empty()) tensor.shape[0] = own.end - own.begin;
      share.tensors.back() = at::empty(
          tensor.shape, at::device(at::kCPU).dtype(static_cast<at::ScalarType>(tensor.dtype)));
      if (share.tensors.back().numel() == 0) continue;
      messages.push_back({as_bytes(share.tensors.back())});
      works.push_back(backend(messages.back()[0]).recv(messages.back(), from, static_cast<int>(i)));
    }
    for (const auto& work : works) work->wait();
  });
  return share;
}

}  // namespace muster
