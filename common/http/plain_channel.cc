#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/base/status.h"
#include "common/http/channel.h"

namespace muster::common {
namespace {

class Plain final : public Channel {
 public:
  Plain(int fd, const Deadline& deadline) : fd_(fd), deadline_(deadline) {}

  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      RETURN_IF_ERROR(deadline_.AwaitSocket(fd_, POLLOUT));
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return absl::AbortedError(strerror(errno));
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Read() override {
    char buffer[16 * 1024];
    while (true) {
      RETURN_IF_ERROR(deadline_.AwaitSocket(fd_, POLLIN));
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return absl::AbortedError(strerror(errno));
      return std::string(buffer, static_cast<size_t>(count));
    }
  }

 private:
  const int fd_;
  const Deadline& deadline_;
};

}  // namespace

std::unique_ptr<Channel> PlainChannel(int fd, const Deadline& deadline) {
  return std::make_unique<Plain>(fd, deadline);
}

}  // namespace muster::common
