// Converts a request's head from Beast's form to ours, and answers a head that Beast cannot read. Only for
// connection.h. Pure.
#pragma once

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <cctype>
#include <string>
#include <utility>

#include "common/text/strings.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/stream.h"

namespace muster::coordinator::http {

namespace wire = boost::beast::http;

inline RequestHead HeadOf(const Peer& peer, const wire::request_header<>& header) {
  RequestHead head{.peer = peer,
                   .method = std::string(header.method_string()),
                   .target = std::string(header.target()),
                   .fields = {}};
  for (const auto& field : header) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    head.fields.emplace_back(std::move(name), std::string(field.value()));
  }
  return head;
}

// The response to a request that cannot be parsed.
inline Response RefusalOf(error_code error) {
  if (error == wire::error::header_limit || error == wire::error::buffer_overflow) {
    return Refusal(
        431, common::StrCat("the head of the request has more than ", kHeadBytesMax, " bytes"),
        "send a shorter address and fewer fields");
  }
  return Refusal(400, common::StrCat("the request is not HTTP/1.1: ", error.message()),
                 "use an HTTP client");
}

inline bool IsMalformed(error_code error) {
  return error.category() == wire::make_error_code(wire::error::bad_method).category() &&
         error != wire::error::end_of_stream && error != wire::error::partial_message;
}

}  // namespace muster::coordinator::http
