// Collectives on plain values; see process_group.h.
#include <algorithm>
#include <cstring>

#include "muster/base/errors.h"
#include "parallel/process_group.h"

namespace muster {
namespace {

at::Tensor bytes_tensor(const std::string& text, int64_t size) {
  at::Tensor tensor = at::zeros({size}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), text.data(), text.size());
  return tensor;
}

std::string text_of(const at::Tensor& tensor, int64_t size) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(size));
}

std::vector<at::Tensor> all_gather(c10d::ProcessGroup& group, at::Tensor tensor) {
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int i = 0; i < group.getSize(); ++i) outputs[0].push_back(at::empty_like(tensor));
  std::vector<at::Tensor> inputs = {std::move(tensor)};
  group.getBackend(c10::kCPU)->allgather(outputs, inputs)->wait();
  return outputs[0];
}

}  // namespace

std::vector<std::string> all_gather_strings(const ProcessGroupPtr& group, const std::string& text) {
  if (!group) return {text};
  const auto own_size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes;
  int64_t longest = 0;
  for (const at::Tensor& size : all_gather(*group, at::full({1}, own_size, at::kLong))) {
    sizes.push_back(size.item<int64_t>());
    longest = std::max(longest, sizes.back());
  }
  std::vector<std::string> texts(sizes.size());
  if (longest == 0) return texts;
  const std::vector<at::Tensor> gathered = all_gather(*group, bytes_tensor(text, longest));
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = text_of(gathered[i], sizes[i]);
  return texts;
}

std::string broadcast_string(const ProcessGroupPtr& group, const std::string& text) {
  if (!group) return text;
  const auto backend = group->getBackend(c10::kCPU);
  std::vector<at::Tensor> size = {at::full({1}, static_cast<int64_t>(text.size()), at::kLong)};
  backend->broadcast(size)->wait();
  const int64_t bytes = size[0].item<int64_t>();
  if (bytes == 0) return "";
  std::vector<at::Tensor> content = {group->getRank() == 0 ? bytes_tensor(text, bytes)
                                                           : at::zeros({bytes}, at::kByte)};
  backend->broadcast(content)->wait();
  return text_of(content[0], bytes);
}

void barrier(const ProcessGroupPtr& group) {
  if (group) group->getBackend(c10::kCPU)->barrier()->wait();
}

void agree_on_success(const ProcessGroupPtr& group, const std::string& error) {
  const std::vector<std::string> errors = all_gather_strings(group, error);
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) {
      throw CheckpointError("rank " + std::to_string(rank) + ": " + errors[rank]);
    }
  }
}

}  // namespace muster
