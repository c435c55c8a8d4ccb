#include "rendezvous/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "rendezvous/loop.h"

namespace muster::rendezvous {
namespace {

// Both ends of a connection, in one loop.
struct Pair {
  Pair(const std::string& servers, const std::string& clients) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    server = std::make_unique<Link>(loop, common::UniqueFd(fds[0]), true, servers,
                                    HandlerOf(&of_server));
    if (clients.empty()) {
      stranger = common::UniqueFd(fds[1]);
    } else {
      client = std::make_unique<Link>(loop, common::UniqueFd(fds[1]), false, clients,
                                      HandlerOf(&of_client));
    }
  }

  struct Seen {
    bool is_open = false, is_closed = false;
    std::string why, fields;
  } of_server, of_client;

  Link::Handler HandlerOf(Seen* seen) {
    return {.opened = [seen] { seen->is_open = true; },
            .frame = [seen](Frame, std::string_view fields) { seen->fields += fields; },
            .closed =
                [seen](std::string_view why) {
                  seen->is_closed = true;
                  seen->why = why;
                }};
  }

  // False: not within a minute.
  bool RunUntil(const std::function<bool()>& condition) {
    int64_t begun_ms = 0;
    bool is_met = false;
    loop.Run([&](int64_t now_ms) {
      if (begun_ms == 0) begun_ms = now_ms;
      is_met = condition();
      if (is_met || now_ms - begun_ms > 60'000) loop.Stop();
      loop.TickIn(1);
    });
    return is_met;
  }

  Loop loop;
  std::unique_ptr<Link> server, client;
  common::UniqueFd stranger;
};

TEST(Link, TwoWithTheSameSecretExchangeFrames) {
  const std::string secret(32, 's'), large(3 << 20, 'x');
  Pair pair(secret, secret);
  FrameWriter(&pair.client->Out(), Frame::kWatch).Rest("from before it was open");
  bool has_answered = false;
  EXPECT_TRUE(pair.RunUntil([&] {
    if (pair.of_client.is_open && !pair.of_server.fields.empty() &&
        !std::exchange(has_answered, true)) {
      FrameWriter(&pair.server->Out(), Frame::kThere).Rest(large);
    }
    if (pair.of_client.is_open) pair.client->Out();
    return pair.of_client.fields.size() == large.size();
  }));
  EXPECT_EQ(pair.of_server.fields, "from before it was open");
  EXPECT_EQ(pair.of_client.fields, large);
}

TEST(Link, APeerWithAnotherSecretIsRefusedByBoth) {
  Pair pair(std::string(32, 's'), std::string(32, 't'));
  EXPECT_TRUE(pair.RunUntil([&] { return pair.of_server.is_closed && pair.of_client.is_closed; }));
  EXPECT_FALSE(pair.of_server.is_open || pair.of_client.is_open);
  EXPECT_EQ(pair.of_server.why, "the peer does not have the attempt's secret");
}

TEST(Link, AStrangerThatSpeaksNoTlsIsRefused) {
  Pair pair(std::string(32, 's'), "");
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  EXPECT_EQ(write(pair.stranger.get(), text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(pair.RunUntil([&] { return pair.of_server.is_closed; }));
  EXPECT_FALSE(pair.of_server.is_open);
}

}  // namespace
}  // namespace muster::rendezvous
