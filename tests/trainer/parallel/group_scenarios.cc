// The process group: side groups, and ranks that exit early.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "parallel/rank_model.h"

namespace muster {
namespace {

const ProcessGroupOptions kPatient = {std::chrono::minutes(30), std::chrono::seconds(60)};

c10::intrusive_ptr<c10d::Work> start_sum(const ProcessGroupPtr& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  return group->getBackend(c10::kCPU)->allreduce(tensors);
}

// Sums that are right only if every call matches its counterpart.
bool sums_fit(const ProcessGroupPtr& group, int count) {
  bool fit = true;
  const double ranks = group->getSize();
  for (int i = 0; i < count; ++i) {
    const at::Tensor value = torch::full({1 + i % 7}, static_cast<double>(i), at::kDouble);
    start_sum(group, value)->wait();
    fit = fit && value.eq(i * ranks).all().item<bool>();
  }
  return fit;
}

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

// A thread of the program that repeatedly opens connections to its own server, uses them, and keeps
// the newest.
class Stranger {
 public:
  Stranger() {
    server_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    if (::bind(server_, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
        ::listen(server_, 16) != 0 ||
        ::getsockname(server_, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
      throw std::runtime_error("no server on loopback");
    }
    thread_ = std::thread([this, address, bytes] {
      while (!stops_) {
        if (pairs_.size() == 200) drop_oldest();
        const int client = ::socket(AF_INET, SOCK_STREAM, 0);
        if (::connect(client, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) break;
        pairs_.emplace_back(client, ::accept(server_, nullptr, nullptr));
        working();  // a program uses them
      }
    });
  }
  ~Stranger() {
    stop();
    while (!pairs_.empty()) drop_oldest();
    ::close(server_);
  }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  size_t count() const { return pairs_.size(); }
  // Connections that carry a byte in both directions. Used by the thread until stop().
  size_t working() const {
    size_t count = 0;
    for (const auto& [client, accepted] : pairs_) {
      char byte = 'x';
      const auto passes = [&byte](int from, int to) {
        return ::send(from, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(to, &byte, 1, 0) == 1;
      };
      if (passes(client, accepted) && passes(accepted, client)) ++count;
    }
    return count;
  }

 private:
  void drop_oldest() {
    ::close(pairs_.front().first);
    ::close(pairs_.front().second);
    pairs_.pop_front();
  }

  int server_ = -1;
  std::deque<std::pair<int, int>> pairs_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace

void side_group(const Arguments&) {
  const Rank rank;
  const ProcessGroupPtr first = make_side_group(rank.group, "first", kPatient);
  const ProcessGroupPtr second = make_side_group(rank.group, "second", kPatient);
  bool background = false;
  std::thread worker([&] { background = sums_fit(first, 300); });
  // At any moment, ranks are at different positions in their three sequences.
  const bool foreground = sums_fit(rank.group, 200);
  worker.join();
  say("background", background);
  say("foreground", foreground);
  say("second", sums_fit(second, 3));
}

// Four ranks; the second list of each pair is not ascending.
void sub_groups(const Arguments&) {
  const Rank rank;
  const bool even = rank.topology.rank % 2 == 0;
  const ProcessGroupPtr sub =
      make_sub_group(rank.group, "parity", even ? std::vector{0, 2} : std::vector{3, 1}, kPatient);
  say("rank", std::to_string(sub->getRank()));
  say("size", std::to_string(sub->getSize()));
  const at::Tensor own =
      torch::full({3}, static_cast<double>(1 << rank.topology.rank), at::kDouble);
  start_sum(sub, own)->wait();
  say("sum", std::to_string(own[0].item<double>()));
  say("first", broadcast_string(sub, std::to_string(rank.topology.rank)));
  // The subgroups, the whole group and a group created from a subgroup do not interfere.
  say("fit", sums_fit(sub, 50) && sums_fit(rank.group, 50) && sums_fit(sub, 50));
  const ProcessGroupPtr side = make_side_group(sub, "side", kPatient);
  say("side", sums_fit(side, 10) && side->getSize() == 2);
  const ProcessGroupPtr alone = make_sub_group(rank.group, "alone", {rank.topology.rank}, kPatient);
  say("alone", alone == nullptr);

  const auto refused = [&](const char* what, const std::vector<int>& ranks) {
    say(what, error_of([&] { make_sub_group(rank.group, what, ranks, kPatient); }));
  };
  refused("stranger", even ? std::vector{0, 2} : std::vector{1, 3, 4});
  refused("twice", {0, 1, 2, 3, 0});
  refused("disagree", even ? std::vector{0, 2} : std::vector{0, 1, 3});
  refused("missing", {0, 1, 2});
}

// waits, shared: rank 0 exits by an exception while the others wait for it in a reduction. sub: the
// same in a subgroup, which only the whole group's abort covers. works: rank 0 exits while its own
// reductions are in flight and no other rank has joined them; the others continue only after it is
// gone.
void leave(const Arguments& how) {
  const Topology topology = Topology::from_environment();
  ProcessGroupPtr group = make_process_group(topology, at::kCPU, kPatient);
  ProcessGroupPtr side = make_side_group(group, "side", kPatient);
  const bool in_sub = how.at(0) == "sub";
  ProcessGroupPtr sub = in_sub ? make_sub_group(group, "sub", {1, 0}, kPatient) : ProcessGroupPtr();
  // Above 4 MiB it goes over sockets, below through shared memory.
  const at::Tensor value = torch::ones({how.at(0) == "shared" ? 1'000 : 2'000'000});
  const std::string& fifo = how.at(1);
  if (topology.rank == 0) {
    if (how.at(0) == "works") {
      for (int i = 0; i < 5; ++i) start_sum(group, value);
      start_sum(side, value);
    }
    abort_process_group(side);
    abort_process_group(group);
    side.reset();
    sub.reset();
    group.reset();
    if (how.at(0) == "works") std::ofstream(fifo) << "left\n";
    throw std::runtime_error("rank 0 has left");
  }
  if (how.at(0) == "works") {
    std::string word;
    std::ifstream(fifo) >> word;
    say("heard", word);
  }
  try {
    start_sum(in_sub ? sub : group, value)->wait();
  } catch (const std::exception& error) {
    say("error", std::string(error.what()).substr(0, 200));
  }
}

// At which addresses of this machine the ranks' store can be reached.
void meeting_place(const Arguments&) {
  const Topology topology = Topology::from_environment();
  const ProcessGroupPtr group = make_process_group(topology, at::kCPU, kPatient);
  barrier(group);
  for (const std::string& place : {topology.master_addr, std::string("127.0.0.2")}) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(topology.master_port));
    ::inet_pton(AF_INET, place.c_str(), &address.sin_addr);
    const int client = ::socket(AF_INET, SOCK_STREAM, 0);
    say(place, ::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    ::close(client);
  }
  barrier(group);
}

// Rank 0 destroys its groups while the others wait in them. Connections that the program opened
// while the groups were created do not belong to them.
void strangers(const Arguments&) {
  const Topology topology = Topology::from_environment();
  Stranger stranger;
  const ProcessGroupPtr group = make_process_group(topology, at::kCPU, kPatient);
  const ProcessGroupPtr side = make_side_group(group, "side", kPatient);
  const ProcessGroupPtr sub = make_sub_group(group, "sub", {0, 1, 2}, kPatient);
  stranger.stop();
  for (const ProcessGroupPtr& one : {group, side, sub}) barrier(one);
  if (topology.rank == 0) abort_process_group(group);
  size_t ended = 0;
  for (const ProcessGroupPtr& one : {group, side, sub}) {
    try {
      barrier(one);
    } catch (const std::exception&) {
      ++ended;
    }
  }
  say("ended", std::to_string(ended));
  say("opened", stranger.count() >= 10);
  say("all_work", stranger.working() == stranger.count());
}

}  // namespace muster
