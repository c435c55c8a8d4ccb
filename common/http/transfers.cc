#include "common/http/transfers.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/http/curl_library.h"
#include "common/kernel/pipe_signal.h"
#include "common/text/strings.h"

namespace muster::common {

// One of libcurl's handles, with the connections that it keeps.
class TransferHandle {
 public:
  explicit TransferHandle(const CurlLibrary& curl) : curl_(curl), handle_(curl.easy_init()) {}
  ~TransferHandle() {
    if (handle_ != nullptr) curl_.easy_cleanup(handle_);
  }
  TransferHandle(const TransferHandle&) = delete;

  bool IsMade() const { return handle_ != nullptr; }
  template <typename Value>
  void Set(CURLoption option, Value value) {
    curl_.easy_setopt(handle_, option, value);
  }
  CURLcode Perform() { return curl_.easy_perform(handle_); }
  int Status() const {
    long status = 0;
    curl_.easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    return static_cast<int>(status);
  }
  void Reset() { curl_.easy_reset(handle_); }

 private:
  const CurlLibrary& curl_;
  CURL* const handle_;
};

namespace {

// What the callbacks of one transfer share.
struct Running {
  const Transfer& transfer;
  const std::atomic<bool>* const stop;
  TransferHandle& handle;
  uint64_t sent = 0;
  size_t header_bytes = 0;
  TransferAnswer answer = {};
  bool is_sunk = false;                    // known with the first bytes of the body
  absl::Status failed = absl::OkStatus();  // of the sink or the body, or a limit that was reached
};

size_t OnHeader(char* data, size_t, size_t size, void* argument) {
  auto& running = *static_cast<Running*>(argument);
  const std::string_view line(data, size);
  running.header_bytes += size;
  if (running.header_bytes > Transfers::kHeadersBytesMax) {
    running.failed = absl::AbortedError(
        StrCat("the answer's headers are larger than ", Transfers::kHeadersBytesMax, " bytes"));
    return 0;
  }
  if (line.starts_with("HTTP/"))
    running.answer = {};  // after a 100 Continue, or a try on a closed connection
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string name(line.substr(0, colon));
  absl::AsciiStrToLower(&name);
  running.answer.headers.emplace_back(
      std::move(name), FromAbsl(absl::StripAsciiWhitespace(ToAbsl(line.substr(colon + 1)))));
  return size;
}

size_t OnBody(char* data, size_t, size_t size, void* argument) {
  auto& running = *static_cast<Running*>(argument);
  TransferAnswer& answer = running.answer;
  if (answer.status == 0) {
    answer.status = running.handle.Status();
    running.is_sunk = running.transfer.sink != nullptr && running.transfer.is_sunk(answer);
  }
  if (running.is_sunk) {
    running.failed = running.transfer.sink({data, size});
    answer.sunk += size;
    return running.failed.ok() ? size : 0;
  }
  const size_t room =
      running.transfer.answer_max - std::min(answer.body.size(), running.transfer.answer_max);
  answer.body.append(data, std::min(size, room));
  if (size <= room || answer.status >= 300) return size;
  running.failed = absl::AbortedError(
      StrCat("the answer is larger than ", running.transfer.answer_max, " bytes"));
  return 0;
}

size_t OnRead(char* to, size_t, size_t max, void* argument) {
  auto& running = *static_cast<Running*>(argument);
  const absl::StatusOr<size_t> count = CopyFrom(running.transfer.body, running.sent, to, max);
  if (!count.ok()) {
    running.failed = count.status();
    return CURL_READFUNC_ABORT;
  }
  running.sent += *count;
  return *count;
}

// libcurl sends the body again from here, as a kept connection turned out to be closed.
int OnSeek(void* argument, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Running*>(argument)->sent = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int OnProgress(void* argument, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& running = *static_cast<Running*>(argument);
  return running.stop != nullptr && running.stop->load() ? 1 : 0;
}

void SetLimits(TransferHandle& handle, const Transfer& transfer) {
  handle.Set(CURLOPT_NOSIGNAL, 1L);
  handle.Set(CURLOPT_PROTOCOLS_STR, "http,https");
  handle.Set(CURLOPT_FOLLOWLOCATION, 0L);
  handle.Set(CURLOPT_PROXY, "");
  handle.Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  handle.Set(CURLOPT_PATH_AS_IS, 1L);
  handle.Set(CURLOPT_MAXCONNECTS, 2L);
  handle.Set(CURLOPT_TCP_KEEPALIVE, 1L);
  handle.Set(CURLOPT_BUFFERSIZE, 512L * 1024);
  handle.Set(CURLOPT_UPLOAD_BUFFERSIZE, 512L * 1024);
  handle.Set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(transfer.connect_within.count()));
  handle.Set(CURLOPT_TIMEOUT_MS, static_cast<long>(transfer.within.count()));
  handle.Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  handle.Set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(transfer.silent_for.count()));
}

void SetRequest(TransferHandle& handle, const Transfer& transfer) {
  handle.Set(CURLOPT_URL, transfer.url.c_str());
  if (transfer.method == "HEAD") {
    handle.Set(CURLOPT_NOBODY, 1L);
  } else if (transfer.method == "PUT" || transfer.method == "POST") {
    handle.Set(CURLOPT_UPLOAD, 1L);
    handle.Set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(SizeOf(transfer.body)));
    handle.Set(CURLOPT_CUSTOMREQUEST, transfer.method.c_str());
  } else {
    handle.Set(CURLOPT_CUSTOMREQUEST, transfer.method.c_str());
  }
}

void SetCallbacks(Running& running) {
  TransferHandle& handle = running.handle;
  void* const argument = &running;
  handle.Set(CURLOPT_HEADERFUNCTION, &OnHeader);
  handle.Set(CURLOPT_HEADERDATA, argument);
  handle.Set(CURLOPT_WRITEFUNCTION, &OnBody);
  handle.Set(CURLOPT_WRITEDATA, argument);
  handle.Set(CURLOPT_READFUNCTION, &OnRead);
  handle.Set(CURLOPT_READDATA, argument);
  handle.Set(CURLOPT_SEEKFUNCTION, &OnSeek);
  handle.Set(CURLOPT_SEEKDATA, argument);
  handle.Set(CURLOPT_NOPROGRESS, 0L);
  handle.Set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
  handle.Set(CURLOPT_XFERINFODATA, argument);
}

// A line feed in one would make another header of the rest.
bool AreHeaders(const std::vector<std::pair<std::string, std::string>>& headers) {
  return std::all_of(headers.begin(), headers.end(), [](const auto& header) {
    const auto is_one_line = [](const std::string& text) {
      return std::none_of(text.begin(), text.end(),
                          [](unsigned char c) { return c < ' ' || c == 0x7f; });
    };
    return is_one_line(header.first) && is_one_line(header.second);
  });
}

absl::Status StatusOfCurl(CURLcode code, const std::string& text) {
  switch (code) {
    case CURLE_OK:
      return absl::OkStatus();
    case CURLE_ABORTED_BY_CALLBACK:
      return absl::CancelledError(text);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::InvalidArgumentError(text);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::UnauthenticatedError(text);
    case CURLE_OUT_OF_MEMORY:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_UNKNOWN_OPTION:
      return absl::InternalError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace

std::string_view TransferAnswer::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::string_view WithoutQuery(std::string_view url) { return url.substr(0, url.find('?')); }

absl::StatusOr<std::unique_ptr<Transfers>> Transfers::Open(const std::string& ca_file) {
  ASSIGN_OR_RETURN(const CurlLibrary* curl, LoadCurl());
  const char* const system = getenv("SSL_CERT_FILE");
  return std::unique_ptr<Transfers>(
      new Transfers(*curl, !ca_file.empty() || system == nullptr ? ca_file : system));
}

absl::StatusOr<std::unique_ptr<Transfers>> Transfers::OpenForStore() {
  const char* const authorities = getenv("AWS_CA_BUNDLE");
  return Open(authorities == nullptr ? "" : authorities);
}

Transfers::Transfers(const CurlLibrary& curl, std::string ca_file)
    : curl_(curl), ca_file_(std::move(ca_file)) {}
Transfers::~Transfers() = default;

std::unique_ptr<TransferHandle> Transfers::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<TransferHandle> handle = std::move(idle_.back());
      idle_.pop_back();
      return handle;
    }
  }
  return std::make_unique<TransferHandle>(curl_);
}

void Transfers::Keep(std::unique_ptr<TransferHandle> handle) {
  handle->Reset();
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(handle));
}

absl::StatusOr<TransferAnswer> Transfers::Run(const Transfer& transfer,
                                              const std::atomic<bool>* stop) {
  const std::string shown = StrCat(transfer.method, " ", WithoutQuery(transfer.url));
  if (!transfer.url.starts_with("http://") && !transfer.url.starts_with("https://"))
    return absl::InvalidArgumentError(StrCat(shown, ": the URL is neither http nor https"));
  if (!AreHeaders(transfer.headers))
    return absl::InvalidArgumentError(StrCat(shown, ": a header has control characters"));
  std::unique_ptr<TransferHandle> handle = Take();
  if (!handle->IsMade()) return absl::InternalError(StrCat(shown, ": libcurl makes no handle"));
  SetLimits(*handle, transfer);
  if (!ca_file_.empty()) handle->Set(CURLOPT_CAINFO, ca_file_.c_str());
  const std::string agent = StrCat("muster/", kVersion);
  handle->Set(CURLOPT_USERAGENT, agent.c_str());
  SetRequest(*handle, transfer);
  curl_slist* fields = nullptr;
  for (const auto& [name, value] : transfer.headers)
    fields = curl_.slist_append(fields, StrCat(name, ": ", value).c_str());
  // Else libcurl asks before any body, and waits where the server does not know the question.
  if (SizeOf(transfer.body) <= Transfer::kUnaskedBytesMax)
    fields = curl_.slist_append(fields, "Expect:");
  handle->Set(CURLOPT_HTTPHEADER, fields);
  char why[CURL_ERROR_SIZE] = "";
  handle->Set(CURLOPT_ERRORBUFFER, why);
  Running running{.transfer = transfer, .stop = stop, .handle = *handle};
  SetCallbacks(running);
  CURLcode code;
  {
    const PipeSignalHeld held;  // OpenSSL writes to sockets that the server may have closed
    code = handle->Perform();
  }
  running.answer.status = handle->Status();
  handle->Set(CURLOPT_HTTPHEADER, nullptr);
  curl_.slist_free_all(fields);
  Keep(std::move(handle));
  if (!running.failed.ok()) return running.failed;
  RETURN_IF_ERROR(
      StatusOfCurl(code, StrCat(shown, ": ", why[0] != '\0' ? why : curl_.easy_strerror(code))));
  return std::move(running.answer);
}

}  // namespace muster::common
