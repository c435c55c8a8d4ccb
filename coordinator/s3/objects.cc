#include "coordinator/s3/objects.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/s3/answers.h"
#include "coordinator/s3/times.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;

// Tells a put of ours, whose answer was lost, from one of another coordinator.
constexpr char kPutName[] = "x-amz-meta-put";

// In the header of a request that must not be changed on its way: https://www.rfc-editor.org/rfc/rfc1864.
absl::StatusOr<std::string> Md5Base64(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_md5(), nullptr) != 1)
    return absl::InternalError(
        "this machine's OpenSSL has no MD5, which S3 asks for when objects are deleted");
  return absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

// Of "bytes 8-15/100": 8 and 15.
std::optional<std::pair<uint64_t, uint64_t>> ReadContentRange(std::string_view text) {
  constexpr std::string_view kBytes = "bytes ";
  if (!text.starts_with(kBytes)) return std::nullopt;
  text.remove_prefix(kBytes.size());
  uint64_t first = 0;
  uint64_t last = 0;
  const char* const end = text.data() + text.size();
  const auto dash = std::from_chars(text.data(), end, first);
  if (dash.ec != std::errc() || dash.ptr == end || *dash.ptr != '-') return std::nullopt;
  const auto slash = std::from_chars(dash.ptr + 1, end, last);
  if (slash.ec != std::errc() || slash.ptr == end || *slash.ptr != '/' || last < first)
    return std::nullopt;
  return std::pair(first, last);
}

// One reading of a range, over several requests if connections break.
struct Fetching {
  const Objects::Range range;
  const Objects::Sink& sink;
  uint64_t done = 0;  // bytes that the sink got
  absl::Status sink_status = absl::OkStatus();

  absl::Status Take(std::string_view piece) {
    if (piece.size() > range.size - done)
      return sink_status =
                 absl::DataLossError("the store sends more than the range that was asked for");
    done += piece.size();
    return sink_status = sink(piece);
  }
};

// Whether an answer has the object's bytes from `first` on. Not its status tells: some send ranges with 200.
bool BeginsAt(uint64_t first, const common::TransferAnswer& answer) {
  if (answer.status != 200 && answer.status != 206) return false;
  const std::string_view field = answer.Header("content-range");
  if (field.empty()) return answer.status == 200 && first == 0;  // all of it
  const auto sent = ReadContentRange(field);
  return sent && sent->first == first;
}

absl::Status NoRange(const std::string& key) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1640",
       .what =
           StrCat("the object store does not send the range of ", key, " that it was asked for"),
       .why = "it does not know ranges",
       .fix = "use a store that does, or find out what changes its answers on their way"});
}

// Whether what the sink got of an answer is all that it has.
absl::Status CheckWhole(const std::string& key, uint64_t first,
                        const common::TransferAnswer& answer) {
  if (!BeginsAt(first, answer)) return NoRange(key);
  const auto sent = ReadContentRange(answer.Header("content-range"));
  const uint64_t wanted = sent ? sent->second - sent->first + 1 : answer.sunk;
  if (answer.sunk == wanted) return absl::OkStatus();
  return absl::UnavailableError(
      StrCat("of ", key, " ", answer.sunk, " bytes arrived instead of ", wanted));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Objects>> S3Objects::Open(ClientOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Make(std::move(options)));
  return std::unique_ptr<Objects>(new S3Objects(std::move(client)));
}

Fields S3Objects::Encryption() const {
  const Address& address = client_->address();
  Fields fields;
  if (!address.encryption.empty())
    fields.emplace_back("x-amz-server-side-encryption", address.encryption);
  if (!address.kms_key.empty())
    fields.emplace_back("x-amz-server-side-encryption-aws-kms-key-id", address.kms_key);
  return fields;
}

std::string S3Objects::OurKey(std::string_view key) const {
  const std::string& prefix = client_->address().prefix;
  if (!key.starts_with(prefix)) return "";
  key.remove_prefix(prefix.size());
  return CheckObjectKey(key).ok() ? std::string(key) : "";
}

absl::Status S3Objects::Put(const std::string& key, const common::ByteSource& bytes) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  RETURN_IF_ERROR(CheckPutSize(key, common::SizeOf(bytes)));
  Request request{.method = "PUT", .key = key, .headers = Encryption(), .body = bytes};
  const std::string name = StrCat(absl::Hex(common::Random64()), absl::Hex(common::Random64()));
  request.headers.emplace_back(kPutName, name);
  const bool is_conditional = knows_conditions_.load();
  if (is_conditional) request.headers.emplace_back("if-none-match", "*");
  Retry retry = client_->NewRetry();
  absl::Status put = client_->Call(request, retry).status();
  if (is_conditional && absl::IsUnimplemented(put)) {
    knows_conditions_ = false;
    request.headers.pop_back();
    put = client_->Call(request, retry).status();
  }
  if (!absl::IsAlreadyExists(put) || retry.tries() == 0) return put;
  // An earlier try may have arrived, although its answer did not: whole, or, at some stores, by half.
  ASSIGN_OR_RETURN(const common::TransferAnswer there,
                   client_->Call({.method = "HEAD", .key = key}));
  if (there.Header(kPutName) != name) return put;
  if (there.Header("content-length") == StrCat(common::SizeOf(bytes))) return absl::OkStatus();
  request.headers.pop_back();
  return client_->Call(request, retry).status();
}

absl::Status S3Objects::Fetch(const std::string& key, const Range& range, const Sink& sink) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  if (range.size > kObjectBytesMax || range.offset > kObjectBytesMax)
    return absl::InvalidArgumentError(StrCat("objects have at most ", kObjectBytesMax, " bytes"));
  Fetching fetching{.range = range, .sink = sink};
  Retry retry = client_->NewRetry();
  while (fetching.done < range.size) {
    const uint64_t before = fetching.done;
    const uint64_t first = range.offset + before;
    const absl::StatusOr<common::TransferAnswer> answer = client_->Try(
        {.method = "GET",
         .key = key,
         .headers = {{"range", StrCat("bytes=", first, "-", range.offset + range.size - 1)}},
         .sink = [&fetching](std::string_view piece) { return fetching.Take(piece); },
         .is_sunk = [first](const common::TransferAnswer& sent) { return BeginsAt(first, sent); },
         .expected = range.size - before});
    RETURN_IF_ERROR(fetching.sink_status);
    if (absl::IsOutOfRange(answer.status())) return absl::OkStatus();  // it ends before
    if (absl::IsAborted(answer.status())) return NoRange(key);         // all of a large object
    const absl::Status whole = answer.ok() ? CheckWhole(key, first, *answer) : answer.status();
    if (whole.ok()) return absl::OkStatus();
    if (fetching.done > before) retry.Progress();
    if (!absl::IsUnavailable(whole) || !retry.Again()) return whole;
  }
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> S3Objects::Head(const std::string& key) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  ASSIGN_OR_RETURN(const common::TransferAnswer answer,
                   client_->Call({.method = "HEAD", .key = key}));
  ObjectInfo info{.key = key,
                  .modified_ms = ReadHttpTime(answer.Header("last-modified")).value_or(0)};
  const std::string_view size = answer.Header("content-length");
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), info.size);
  if (error == std::errc() && end == size.data() + size.size()) return info;
  return absl::UnavailableError(StrCat("the store does not tell the size of ", key));
}

absl::StatusOr<Objects::Page> S3Objects::List(const std::string& prefix, const std::string& from) {
  RETURN_IF_ERROR(CheckObjectPrefix(prefix));
  // The first version of the call, which all stores know.
  ASSIGN_OR_RETURN(const common::TransferAnswer answer,
                   client_->Call({.method = "GET",
                                  .query = {{"prefix", StrCat(client_->address().prefix, prefix)},
                                            {"marker", from},
                                            {"max-keys", StrCat(kPageMax)},
                                            {"encoding-type", "url"}}}));
  absl::StatusOr<Page> listed = ReadList(answer.body);
  if (!listed.ok())
    return absl::UnavailableError(StrCat(Name(), ": ", common::MessageOf(listed.status())));
  Page page{.objects = {}, .next = std::move(listed->next)};
  if (!page.next.empty() && page.next == from)
    return absl::UnavailableError(StrCat(Name(), " lists the same objects again"));
  for (ObjectInfo& object : listed->objects) {
    object.key = OurKey(object.key);
    if (!object.key.empty()) page.objects.push_back(std::move(object));
  }
  return page;
}

absl::Status S3Objects::Delete(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) RETURN_IF_ERROR(CheckObjectKey(key));
  for (size_t first = 0; first < keys.size(); first += kPageMax) {
    std::vector<std::string> names;
    for (size_t i = first; i < std::min(keys.size(), first + kPageMax); ++i)
      names.push_back(StrCat(client_->address().prefix, keys[i]));
    const std::string body = DeleteRequest(names);
    ASSIGN_OR_RETURN(const std::string md5, Md5Base64(body));
    ASSIGN_OR_RETURN(
        const common::TransferAnswer answer,
        client_->Call({.method = "POST",
                       .query = {{"delete", ""}},
                       .headers = {{"content-md5", md5}, {"content-type", "application/xml"}},
                       .body = std::string_view(body)}));
    const absl::StatusOr<ErrorAnswer> refused = ReadDeleted(answer.body);
    if (!refused.ok())
      return absl::UnavailableError(StrCat(Name(), ": ", common::MessageOf(refused.status())));
    if (!refused->code.empty()) {
      return StatusOf(client_->address(),
                      StrCat("delete ", kScheme, client_->address().bucket, "/", refused->resource),
                      {.http_status = 500, .error = *refused});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PresignedUrl> S3Objects::PresignGet(const std::string& key,
                                                   std::chrono::seconds life) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  return client_->Presign({.method = "GET", .key = key}, life);
}

}  // namespace muster::coordinator::s3
