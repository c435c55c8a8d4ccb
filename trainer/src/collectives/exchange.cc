// The basis of all collectives: comparing the ranks' calls, gathering raw bytes, errors.
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "collectives/collectives.h"
#include "muster/base/errors.h"
#include "muster/values/nested.h"
#include "parallel/call_name.h"

namespace muster {
namespace {

// To compare their calls, the ranks exchange a hash, a number, and values that fit in the same
// message, so that gathering a loss costs one round trip. Up to this size its time is constant.
constexpr int64_t kHeadBytes = 16;
constexpr int64_t kTravellingBytes = 240;

constexpr int64_t kSummedBytesMax = 256 << 10;  // across all ranks; see all_gather_bytes

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
int64_t hash_of_call(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return static_cast<int64_t>(hash);
}

std::string place(int rank, int world_size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
}

at::Tensor bytes_of(const std::string& text, int64_t size) {
  at::Tensor bytes = at::zeros({size}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_in(const at::Tensor& bytes, int64_t size) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(size)};
}

using Strings = std::vector<std::string>;

std::string packed(Strings items) {
  nested_detail::StructureBytes bytes;
  nested_detail::Parts<Strings>::structure(items, bytes);
  return bytes.finish();
}

Strings unpacked(const std::string& text) {
  Strings items;
  nested_detail::StructureBytes bytes(text);
  nested_detail::Parts<Strings>::structure(items, bytes);
  return items;
}

// "rank 1", "ranks 0, 2".
std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

std::string shape_text(const at::Tensor& tensor, bool first_compared, bool others_compared) {
  std::string text = "[";
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const bool compared = dim == 0 ? first_compared : others_compared;
    text += (dim ? ", " : "") + (compared ? std::to_string(tensor.size(dim)) : std::string("*"));
  }
  return text + "]";
}

}  // namespace

std::string Collectives::Call::describe() const {
  std::string text = std::string(function) + "(" + options;
  bool first = options.empty();
  if (tensors != nullptr) {
    text += (first ? "" : "; ") + std::to_string(tensors->size()) +
            (tensors->size() == 1 ? " tensor" : " tensors");
    first = true;
    for (const at::Tensor& tensor : *tensors) {
      text += first ? ": " : ", ";
      first = false;
      if (!tensor.defined()) {
        text += "undefined";
        continue;
      }
      text += std::string(c10::getDtypeNames(tensor.scalar_type()).first) + " " +
              shape_text(tensor, compare == Compare::shapes, compare != Compare::dimensions);
      if (!tensor.is_cpu()) text += " on " + c10::DeviceTypeName(tensor.device().type(), true);
    }
  }
  return text + ")" + (refused.empty() ? "" : ", which it refuses: " + refused);
}

Collectives::Collectives(ProcessGroupPtr group, const Topology& topology, at::Device device,
                         bool debug)
    : group_(std::move(group)),
      rank_(topology.rank),
      world_size_(topology.world_size),
      device_(device),
      on_one_machine_(topology.local_world_size == topology.world_size),
      debug_(debug) {
  if (!group_ && world_size_ != 1) {
    throw std::invalid_argument("Collectives: a world of " + std::to_string(world_size_) +
                                " ranks needs a process group");
  }
}

void Collectives::communicate(const char* function, const std::function<void()>& action) const {
  const auto failed = [&](const char* error) {
    return CommunicationError(std::string(function) + " on " + place(rank_, world_size_) +
                              " failed: " + error +
                              " (did another rank exit, or take a different code path? " +
                              "AcceleratorOptions::debug names the call that differs)");
  };
  const CallName name(function);
  try {
    action();
  } catch (const CommunicationError&) {
    throw;  // its message lists what every rank called
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw failed(error.what_without_backtrace());
  } catch (const std::runtime_error& error) {
    throw failed(error.what());
  }
}

c10d::Backend& Collectives::backend(const at::Tensor& tensor) const {
  return *group_->getBackend(tensor.device().type());
}

bool Collectives::gathers_by_sum(const at::Tensor& own) const {
  return on_one_machine_ && own.is_cpu() &&
         world_size_ * static_cast<int64_t>(own.nbytes()) <= kSummedBytesMax;
}

at::Tensor Collectives::all_gather_bytes(const char* function, const at::Tensor& own) const {
  const at::Tensor bytes = own.reshape({-1}).view(at::kByte);
  const int64_t words = (bytes.numel() + 7) / 8;
  if (gathers_by_sum(own)) {
    // SharedGloo sums small tensors through shared memory, ten times as fast as Gloo gathers them
    // over sockets. So gather by summing a table in which the other ranks' rows are 0.
    std::vector<at::Tensor> table = {at::zeros({world_size_, words}, at::kLong)};
    at::Tensor all = table[0].view(at::kByte);
    all[rank_].narrow(0, 0, bytes.numel()).copy_(bytes);
    communicate(function, [&] { backend(bytes).allreduce(table)->wait(); });
    return all.narrow(1, 0, bytes.numel()).contiguous();
  }
  at::Tensor all = at::empty({world_size_, bytes.numel()}, bytes.options());
  std::vector<std::vector<at::Tensor>> outputs = {all.unbind()};
  std::vector<at::Tensor> inputs = {bytes};
  communicate(function, [&] { backend(bytes).allgather(outputs, inputs)->wait(); });
  return all;
}

std::vector<int64_t> Collectives::exchange(const Call& call, int64_t number,
                                           at::Tensor* travelling) {
  std::vector<int64_t> numbers = {number};
  if (group_) {
    const std::string own = call.describe();
    const CallName name(own);
    const int64_t head[2] = {hash_of_call(own), number};
    at::Tensor message = at::zeros({kHeadBytes + kTravellingBytes}, at::kByte);
    auto* bytes = static_cast<char*>(message.mutable_data_ptr());
    std::memcpy(bytes, head, kHeadBytes);
    const int64_t size = travelling != nullptr ? travelling->numel() : 0;
    if (size > 0) std::memcpy(bytes + kHeadBytes, travelling->const_data_ptr(), size);
    const at::Tensor all = all_gather_bytes(call.function, message);
    bool all_equal = true;
    numbers.resize(static_cast<size_t>(world_size_));
    const auto* rows = static_cast<const char*>(all.const_data_ptr());
    for (int rank = 0; rank < world_size_; ++rank) {
      int64_t other[2];
      std::memcpy(other, rows + rank * all.size(1), kHeadBytes);
      all_equal = all_equal && other[0] == head[0];
      numbers[static_cast<size_t>(rank)] = other[1];
    }
    // Every rank has the same table, so either all throw here or none does.
    if (!all_equal) throw_disagreement(own);
    if (size > 0) *travelling = all.narrow(1, kHeadBytes, size).contiguous();
  }
  if (!call.refused.empty()) throw std::invalid_argument(call.refused);
  return numbers;
}

std::vector<at::Tensor> Collectives::agree(const Call& call,
                                           const std::vector<at::Tensor>& values) {
  if (!group_ || !always_checks()) {
    if (!call.refused.empty()) throw std::invalid_argument(call.refused);
    return {};
  }
  std::vector<at::Tensor> parts;
  int64_t size = 0;
  for (const at::Tensor& value : values) {
    if (!value.defined()) continue;
    size += value.is_cpu() ? static_cast<int64_t>(value.nbytes()) : kTravellingBytes + 1;
    if (size <= kTravellingBytes) parts.push_back(value.reshape({-1}).view(at::kByte));
  }
  if (size == 0 || size > kTravellingBytes) {
    exchange(call, 0);
    return {};
  }
  at::Tensor rows = at::cat(parts);
  exchange(call, 0, &rows);
  std::vector<at::Tensor> of_all(values.size());
  int64_t at = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    const auto bytes = static_cast<int64_t>(values[i].nbytes());
    std::vector<int64_t> shape = values[i].sizes().vec();
    shape.insert(shape.begin(), world_size_);
    of_all[i] = rows.narrow(1, at, bytes).clone(at::MemoryFormat::Contiguous);
    of_all[i] = of_all[i].view({-1}).view(values[i].scalar_type()).view(shape);
    at += bytes;
  }
  return of_all;
}

void Collectives::throw_disagreement(const std::string& own) {
  const char* function = "the comparison of calls";
  const at::Tensor size = at::full({1}, static_cast<int64_t>(own.size()), at::kLong);
  const at::Tensor sizes = all_gather_bytes(function, size).view(at::kLong).contiguous();
  const auto* counts = sizes.const_data_ptr<int64_t>();
  const std::vector<std::string> calls =
      gather_strings(function, own, {counts, counts + world_size_});
  std::map<std::string, std::vector<int>> groups;
  for (int rank = 0; rank < world_size_; ++rank) groups[calls[rank]].push_back(rank);
  // Report the minority as differing; with two ranks, report rank 1.
  const std::string* meant = &calls[0];
  for (const auto& [call, ranks] : groups) {
    if (ranks.size() > groups[*meant].size()) meant = &call;
  }
  std::vector<int> differing;
  std::string list = "\n  " + rank_list(groups[*meant]) + ": " + *meant;
  for (const auto& [call, ranks] : groups) {
    if (call == *meant) continue;
    differing.insert(differing.end(), ranks.begin(), ranks.end());
    list += "\n  " + rank_list(ranks) + ": " + call;
  }
  std::sort(differing.begin(), differing.end());
  throw CommunicationError(
      "on " + place(rank_, world_size_) + ": " + rank_list(differing) +
      (differing.size() == 1 ? " does" : " do") + " not call what the others call:" + list +
      "\nall ranks must make the same calls in the same order with the same dtypes and shapes " +
      "(if sizes differ, use pad_across_processes or a ragged gather)");
}

std::string Collectives::refused_rank(const char* function, int from) const {
  if (from >= 0 && from < world_size_) return "";
  return std::string(function) + ": there is no rank " + std::to_string(from) + ", only 0 to " +
         std::to_string(world_size_ - 1);
}

bool Collectives::any_rank(bool own) {
  for (const int64_t value : exchange({.function = "any_rank"}, own ? 1 : 0)) {
    if (value != 0) return true;
  }
  return false;
}

void Collectives::meet(const char* function, const std::string& options) {
  if (!group_ || !always_checks()) return;
  const Call call{.function = function, .options = options};
  try {
    exchange(call, 0);
  } catch (const CommunicationError& error) {
    const std::string text = error.what();
    // A failed comparison already names the calls; a broken connection does not.
    if (options.empty() || text.find(options) != std::string::npos) throw;
    throw CommunicationError(text + "; it was about to call " + call.describe());
  }
}

void Collectives::wait() {
  if (!group_) return;
  if (always_checks()) {
    exchange({.function = "wait_for_everyone"}, 0);
  } else {
    communicate("wait_for_everyone", [&] { group_->getBackend(c10::kCPU)->barrier()->wait(); });
  }
}

std::vector<std::string> Collectives::gather_strings(const char* function, const std::string& own,
                                                     const std::vector<int64_t>& sizes) const {
  std::vector<std::string> all(sizes.size());
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  if (longest == 0) return all;
  const at::Tensor rows = all_gather_bytes(function, bytes_of(own, longest));
  for (int rank = 0; rank < world_size_; ++rank) all[rank] = text_in(rows[rank], sizes[rank]);
  return all;
}

std::vector<std::string> Collectives::gather_object(const std::string& bytes) {
  const Call call{.function = "gather_object"};
  const std::vector<int64_t> sizes = exchange(call, static_cast<int64_t>(bytes.size()));
  if (!group_) return {bytes};
  return gather_strings(call.function, bytes, sizes);
}

std::vector<std::string> Collectives::gather_object(const std::vector<std::string>& items) {
  std::vector<std::string> all;
  for (const std::string& of_rank : gather_object(packed(items))) {
    for (std::string& item : unpacked(of_rank)) all.push_back(std::move(item));
  }
  return all;
}

std::string Collectives::broadcast_bytes(const char* function, const std::string& bytes,
                                         int64_t size, int from) const {
  if (size == 0) return "";
  std::vector<at::Tensor> content = {rank_ == from ? bytes_of(bytes, size)
                                                   : at::empty({size}, at::kByte)};
  c10d::BroadcastOptions options;
  options.rootRank = from;
  communicate(function, [&] { backend(content[0]).broadcast(content, options)->wait(); });
  return rank_ == from ? bytes : text_in(content[0], size);
}

std::string Collectives::broadcast_object(const std::string& bytes, int from) {
  const char* function = "broadcast_object";
  const std::vector<int64_t> sizes = exchange({.function = function,
                                               .options = "from " + std::to_string(from),
                                               .refused = refused_rank(function, from)},
                                              static_cast<int64_t>(bytes.size()));
  if (!group_) return bytes;
  return broadcast_bytes(function, bytes, sizes[from], from);
}

std::vector<std::string> Collectives::broadcast_object_list(const std::vector<std::string>& items,
                                                            int from) {
  return unpacked(broadcast_object(rank_ == from ? packed(items) : "", from));
}

}  // namespace muster
