// Simulated ranks for `./dev bench store`: one thread that speaks the protocol of torch's TCPStore as torch's client
// does, a send for each request, over one connection per rank.
//   bench_store ROUNDS PEERS PATTERN… < PLACES
// PLACES: "pid PID" for each server process, the one with the values first, then "rank PORT NODE" for each rank.
// Patterns: gloo, nccl, barrier, late; the connections are always made and measured. PEERS: of how many others each
// rank reads the address in gloo. Prints a JSON object per line.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/requests.h"

namespace {

using namespace muster::rendezvous;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_store: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// What comes back for a request.
enum class Reply { kNone, kByte, kNonce, kNumber, kText };

struct Rank {
  uint16_t port = 0;
  int node = 0;
  int fd = -1;
  size_t step = 0;
  Reply due = Reply::kNone;
  std::array<char, 8> head{};
  size_t head_bytes = 0;
  uint64_t left = 0;  // of the answer
  std::string unsent;
};

// The next request of a rank, and what comes back. False: it has done all.
using Script = std::function<bool(size_t rank, size_t step, std::string* request, Reply* reply)>;

class Ranks {
 public:
  explicit Ranks(std::vector<Rank> ranks)
      : ranks_(std::move(ranks)), epoll_(epoll_create1(EPOLL_CLOEXEC)), events_(1'024) {}

  size_t size() const { return ranks_.size(); }
  uint64_t root_bytes() const { return root_bytes_; }

  void Connect() {
    for (Rank& rank : ranks_) {
      rank.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(rank.port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (rank.fd < 0) Fail("socket");
      const int done = connect(rank.fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
      if (done != 0 && errno != EINPROGRESS) Fail("connect");
      const int on = 1;
      setsockopt(rank.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLET;
      event.data.u64 = static_cast<uint64_t>(&rank - ranks_.data());
      epoll_ctl(epoll_, EPOLL_CTL_ADD, rank.fd, &event);
    }
  }

  // The first request of a rank goes out; Finish() does the rest.
  void Begin(const Script& script, size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      ranks_[i].step = 0;
      ++busy_;
      Continue(script, i);
    }
  }

  void Finish(const Script& script) {
    while (busy_ > 0) Turn(script);
  }

 private:
  void Turn(const Script& script) {
    const int count = epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), 60'000);
    if (count == 0) Fail("nothing has come for a minute");
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events_[static_cast<size_t>(i)];
      Rank& rank = ranks_[event.data.u64];
      if ((event.events & EPOLLOUT) != 0 && !rank.unsent.empty()) Send(&rank);
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Receive(script, event.data.u64);
    }
  }

  // Sends what needs no answer, and then one request that does.
  void Continue(const Script& script, size_t i) {
    Rank& rank = ranks_[i];
    while (true) {
      std::string request;
      if (!script(i, rank.step, &request, &rank.due)) {
        --busy_;
        return;
      }
      ++rank.step;
      rank.unsent += request;
      Send(&rank);
      if (rank.due != Reply::kNone) break;
    }
    rank.head_bytes = 0;
    rank.left = 0;
  }

  void Send(Rank* rank) {
    const ssize_t sent = send(rank->fd, rank->unsent.data(), rank->unsent.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN || errno == ENOTCONN) return;
      Fail("send");
    }
    if (rank->node == 0) root_bytes_ += static_cast<uint64_t>(sent);
    rank->unsent.erase(0, static_cast<size_t>(sent));
  }

  void Receive(const Script& script, size_t i) {
    static std::array<char, 256 << 10> buffer;
    Rank& rank = ranks_[i];
    while (true) {
      const ssize_t count = recv(rank.fd, buffer.data(), buffer.size(), 0);
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) Fail("a connection was closed");
      if (rank.node == 0) root_bytes_ += static_cast<uint64_t>(count);
      if (Take(&rank, {buffer.data(), static_cast<size_t>(count)})) Continue(script, i);
      if (static_cast<size_t>(count) < buffer.size()) return;
    }
  }

  // True: the answer is complete.
  static bool Take(Rank* rank, std::string_view bytes) {
    if (rank->due == Reply::kNone) Fail("an answer to nothing");
    const size_t head = rank->due == Reply::kByte ? 1 : rank->due == Reply::kNonce ? 4 : 8;
    while (rank->head_bytes < head && !bytes.empty()) {
      rank->head[rank->head_bytes++] = bytes[0];
      bytes.remove_prefix(1);
      if (rank->head_bytes == head && rank->due == Reply::kText) {
        std::memcpy(&rank->left, rank->head.data(), sizeof rank->left);
      }
    }
    if (bytes.size() > rank->left) Fail("more than an answer");
    rank->left -= bytes.size();
    if (rank->head_bytes < head || rank->left > 0) return false;
    rank->due = Reply::kNone;
    return true;
  }

  std::vector<Rank> ranks_;
  const int epoll_;
  std::vector<epoll_event> events_;
  size_t busy_ = 0;
  uint64_t root_bytes_ = 0;
};

std::string Request(Op op) { return std::string(1, static_cast<char>(op)); }

std::string Keyed(Op op, const std::string& key) {
  std::string request = Request(op);
  if (op == Op::kWait) AppendNumber(&request, 1);
  AppendText(&request, key);
  return request;
}

std::string Set(const std::string& key, size_t bytes) {
  std::string request = Keyed(Op::kSet, key);
  AppendText(&request, std::string(bytes, 'x'));
  return request;
}

bool Greet(size_t, size_t step, std::string* request, Reply* reply) {
  if (step == 0) {
    *request = Request(Op::kValidate);
    request->append(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
    *reply = Reply::kNone;
  } else if (step == 1) {
    *request = Request(Op::kPing) + "abcd";
    *reply = Reply::kNonce;
  } else if (step == 2) {
    AppendAdd(request, "init/", 1);
    *reply = Reply::kNumber;
  }
  return step < 3;
}

// The address of a rank as Gloo of torch 2.13 stores it: it grows with the world.
size_t AddressBytes(size_t world) { return 154 + 8 * world; }

Script Gloo(size_t world, size_t peers, const std::string& round) {
  return [=](size_t rank, size_t step, std::string* request, Reply* reply) {
    const auto key = [&](size_t of) {
      return "/default_pg/" + round + "//cpu//0/" + std::to_string(of);
    };
    if (step == 0) {
      *request = Set(key(rank), AddressBytes(world));
      *reply = Reply::kNone;
      return true;
    }
    const size_t peer = (step - 1) / 3;
    if (peer >= peers) return false;
    const bool is_get = (step - 1) % 3 == 2;
    *request = Keyed(is_get ? Op::kGet : Op::kWait, key(peer));
    *reply = is_get ? Reply::kText : Reply::kByte;
    return true;
  };
}

Script Nccl(const std::string& round) {
  return [=](size_t rank, size_t step, std::string* request, Reply* reply) {
    const std::string key = "/default_pg/" + round + "//cuda//0";
    if (rank == 0) {
      *request = Set(key, 128);
      *reply = Reply::kNone;
      return step == 0;
    }
    *request = Keyed(step == 0 ? Op::kWait : Op::kGet, key);
    *reply = step == 0 ? Reply::kByte : Reply::kText;
    return step < 2;
  };
}

Script Barrier(size_t world, const std::string& round) {
  return [=](size_t, size_t step, std::string* request, Reply* reply) {
    *request = Keyed(Op::kBarrier, "/barrier/" + round);
    AppendNumber(request, world);
    *reply = Reply::kByte;
    return step == 0;
  };
}

Script Late(const std::string& round) {
  return [=](size_t rank, size_t step, std::string* request, Reply* reply) {
    const std::string key = "/late/" + round;
    *request = rank == 0 ? Set(key, 8) : Keyed(Op::kWait, key);
    *reply = rank == 0 ? Reply::kNone : Reply::kByte;
    return step == 0;
  };
}

// Nanoseconds that the threads of a process have run.
uint64_t CpuNanoseconds(const std::string& pid) {
  uint64_t sum = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", error)) {
    uint64_t of_task = 0;
    std::ifstream(task.path() / "schedstat") >> of_task;
    sum += of_task;
  }
  return sum;
}

class Meter {
 public:
  Meter(std::vector<std::string> pids, Ranks& ranks) : pids_(std::move(pids)), ranks_(ranks) {}

  void Measure(const char* pattern, const std::function<void(Clock::time_point*)>& run) {
    const std::vector<uint64_t> before = Cpu();
    const uint64_t bytes = ranks_.root_bytes();
    Clock::time_point begun = Clock::now();
    run(&begun);
    const std::chrono::duration<double, std::milli> took = Clock::now() - begun;
    std::printf("{\"pattern\":\"%s\",\"ms\":%.3f,\"bytes\":%llu,\"cpu_s\":[", pattern, took.count(),
                static_cast<unsigned long long>(ranks_.root_bytes() - bytes));
    const std::vector<uint64_t> after = Cpu();
    for (size_t i = 0; i < after.size(); ++i) {
      std::printf("%s%.6f", i == 0 ? "" : ",", static_cast<double>(after[i] - before[i]) / 1e9);
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }

 private:
  std::vector<uint64_t> Cpu() const {
    std::vector<uint64_t> all;
    for (const std::string& pid : pids_) all.push_back(CpuNanoseconds(pid));
    return all;
  }

  const std::vector<std::string> pids_;
  Ranks& ranks_;
};

void Run(const std::string& pattern, size_t peers, const std::string& round, Ranks* ranks,
         Meter* meter) {
  const size_t world = ranks->size();
  const Script script = pattern == "gloo"   ? Gloo(world, std::min(peers, world), round)
                        : pattern == "nccl" ? Nccl(round)
                        : pattern == "late" ? Late(round)
                                            : Barrier(world, round);
  meter->Measure(pattern.c_str(), [&](Clock::time_point* begun) {
    ranks->Begin(script, 1, world);
    if (pattern == "late") {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the servers have read all
      *begun = Clock::now();
    }
    ranks->Begin(script, 0, 1);
    ranks->Finish(script);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);

  std::vector<std::string> pids;
  std::vector<Rank> places;
  for (std::string word; std::cin >> word;) {
    if (word == "pid") {
      std::cin >> pids.emplace_back();
    } else {
      Rank& rank = places.emplace_back();
      std::cin >> rank.port >> rank.node;
    }
  }
  const int rounds = std::atoi(argv[1]);
  const auto peers = static_cast<size_t>(std::atoll(argv[2]));
  Ranks ranks(std::move(places));
  Meter meter(pids, ranks);
  meter.Measure("connect", [&](Clock::time_point*) {
    ranks.Connect();
    ranks.Begin(Greet, 0, ranks.size());
    ranks.Finish(Greet);
  });
  for (int i = 3; i < argc; ++i) {
    const int times = std::strcmp(argv[i], "gloo") == 0 ? 1 : rounds;
    for (int round = 0; round < times; ++round)
      Run(argv[i], peers, std::to_string(round), &ranks, &meter);
  }
  return 0;
}
