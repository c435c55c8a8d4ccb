// muster-rendezvous: the store that the ranks of an attempt meet at, or on other nodes the way to it. Started by
// muster-shim, as the ranks' account, never by a person; it lives as long as the shim.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "common/base/status.h"
#include "common/base/version.h"
#include "common/files/files.h"
#include "common/files/plain_files.h"
#include "rendezvous/notes.h"
#include "rendezvous/relay.h"
#include "rendezvous/root.h"
#include "rendezvous/settings.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kSettingsBytesMax = 1 << 20;
// limit: rendezvous: bytes of the process's memory; it ends, and with it the attempt
constexpr rlim_t kMemoryBytesMax = rlim_t{4} << 30;

// Whatever its ranks send, it takes no more of the node.
void LimitMemory() {
  const rlimit limit{kMemoryBytesMax, kMemoryBytesMax};
  setrlimit(RLIMIT_AS, &limit);
}

// The ranks whose processes have exited.
class Exits final : public Loop::Source {
 public:
  Exits(Loop& loop, int fd, Clients& clients) : loop_(loop), fd_(fd), clients_(clients) {
    if (fd >= 0) loop_.Watch(fd, EPOLLIN, this);
  }
  ~Exits() override {
    if (fd_.valid()) loop_.Forget(fd_.get(), this);
  }
  void OnEvents(uint32_t) override {
    uint32_t indexes[64];
    const ssize_t count = read(fd_.get(), indexes, sizeof indexes);
    for (size_t i = 0; count > 0 && i < static_cast<size_t>(count) / sizeof(uint32_t); ++i) {
      clients_.RankExited(indexes[i]);
    }
    if (count == 0) loop_.Stop();  // the shim is gone
  }

 private:
  Loop& loop_;
  const common::UniqueFd fd_;
  Clients& clients_;
};

common::RankAtStore* MapStatus(const Settings& settings) {
  if (settings.status < 0) return nullptr;
  const size_t bytes = settings.locals.size() * sizeof(common::RankAtStore);
  if (ftruncate(settings.status, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, settings.status, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<common::RankAtStore*>(mapped);
}

template <typename Store>
void Serve(const Settings& settings, Loop& loop, Store& store) {
  for (uint32_t i = 0; i < settings.locals.size(); ++i) {
    store.clients().Listen(common::UniqueFd(settings.locals[i]), i, settings.account);
  }
  const Exits exits(loop, settings.exits, store.clients());
  loop.Run([&store](int64_t now_ms) { store.Tick(now_ms); });
  store.clients().CloseAll();
}

int Run(const Settings& settings) {
  Loop loop;
  common::RankAtStore* status = MapStatus(settings);
  if (settings.upstream.empty()) {
    Root root(loop,
              {.network = common::UniqueFd(settings.listen),
               .secret = settings.secret,
               .nodes = settings.nodes,
               .world = settings.world},
              status);
    Serve(settings, loop, root);
  } else {
    Relay relay(loop, {.host = settings.upstream, .port = settings.port, .secret = settings.secret},
                status, [&loop] { loop.Stop(); });
    Serve(settings, loop, relay);
  }
  return 0;
}

}  // namespace
}  // namespace muster::rendezvous

int main(int argc, char** argv) {
  using namespace muster;
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("muster-rendezvous %s\n", common::kVersion);
    return 0;
  }
  std::string text;
  if (argc != 2 || !common::ReadAllFd(STDIN_FILENO, &text, rendezvous::kSettingsBytesMax)) {
    std::fprintf(stderr, "muster-rendezvous is started by muster-shim; fix: use jobctl run\n");
    return 2;
  }
  const auto settings = rendezvous::ParseSettings(text);
  if (!settings.ok()) {
    rendezvous::Note("its settings are not right", common::MessageOf(settings.status()));
    return 2;
  }
  rendezvous::LimitMemory();
  return rendezvous::Run(*settings);
}
