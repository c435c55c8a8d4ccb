#include "common/http/client.h"

#include <cstdio>
#include <memory>

#include "common/base/status.h"
#include "common/base/version.h"
#include "common/files/files.h"
#include "common/http/channel.h"
#include "common/http/deadline.h"
#include "common/http/dial.h"
#include "common/kernel/pipe_signal.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr size_t kStatusLineBytesMax = 1024;

std::string TextOf(const HttpCall& call) {
  std::string text =
      StrCat(call.body.empty() ? "GET " : "POST ", call.url.target,
             " HTTP/1.1\r\nHost: ", call.pinned ? call.pinned->name : call.url.Authority(),
             "\r\nUser-Agent: Muster/", kVersion, "\r\n");
  if (!call.body.empty()) {
    StrAppend(&text, "Content-Type: ", call.content_type, "\r\nContent-Length: ", call.body.size(),
              "\r\n");
  }
  StrAppend(&text, "Connection: close\r\n");
  for (const auto& [name, value] : call.headers) StrAppend(&text, name, ": ", value, "\r\n");
  StrAppend(&text, "\r\n", call.body);
  return text;
}

// "HTTP/1.1 200 OK": 200.
absl::StatusOr<HttpResponse> ReadStatus(Channel& channel) {
  std::string line;
  while (line.find('\n') == std::string::npos && line.size() < kStatusLineBytesMax) {
    ASSIGN_OR_RETURN(const std::string more, channel.Read());
    if (more.empty()) break;
    line += more;
  }
  int status = 0;
  if (sscanf(line.c_str(), "HTTP/1.%*1[01] %3d", &status) != 1 || status < 100)
    return absl::AbortedError("the answer is not HTTP");
  return HttpResponse{.status = status, .body = ""};
}

absl::StatusOr<HttpResponse> ReadAnswer(Channel& channel, size_t bytes_max) {
  std::string bytes;
  while (true) {
    ASSIGN_OR_RETURN(const std::string more, channel.Read());
    bytes += more;
    if (bytes.size() > bytes_max)
      return absl::AbortedError(StrCat("the answer has more than ", bytes_max, " bytes"));
    auto answer = ParseHttpResponse(bytes, more.empty());
    if (!answer.ok()) return absl::AbortedError(MessageOf(answer.status()));
    if (answer->has_value()) return **std::move(answer);
  }
}

absl::StatusOr<HttpResponse> Exchange(const HttpCall& call, const Deadline& deadline) {
  ASSIGN_OR_RETURN(const UniqueFd socket_fd, Dial(call.url, call.may_call, deadline));
  std::unique_ptr<Channel> channel;
  if (call.url.is_https) {
    ASSIGN_OR_RETURN(channel, TlsChannel(socket_fd.get(), call, deadline));
  } else {
    channel = PlainChannel(socket_fd.get(), deadline);
  }
  RETURN_IF_ERROR(channel->Write(TextOf(call)));
  return call.answer_max == 0 ? ReadStatus(*channel) : ReadAnswer(*channel, call.answer_max);
}

}  // namespace

absl::StatusOr<HttpResponse> CallHttp(const HttpCall& call, const std::atomic<bool>* stop) {
  const PipeSignalHeld held;
  absl::StatusOr<HttpResponse> answer = Exchange(call, Deadline(call.within, stop));
  if (absl::IsDeadlineExceeded(answer.status()))
    return absl::AbortedError(MessageOf(answer.status()));
  return answer;
}

}  // namespace muster::common
