#include "coordinator/http/page_files.h"

#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/http/answers.h"
#include "page/assets.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;
using page::Asset;

constexpr std::string_view kDocument = "index.html";
constexpr std::string_view kAssets = "/assets/";
constexpr std::string_view kPages[] = {"/", "/queue", "/nodes", "/compare"};
// What browsers ask for where a document names no icon: the sign-in's.
constexpr std::string_view kFavicon = "/favicon.ico";
constexpr std::string_view kJobPages = "/jobs/";
constexpr int kGzip = 16;  // zlib: a window of any size, in gzip's format

const Asset* FindAsset(std::string_view name) {
  for (const Asset& asset : page::Assets()) {
    if (asset.name == name) return &asset;
  }
  return nullptr;
}

std::string_view TypeOf(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

std::string_view Stripped(std::string_view text) {
  return common::FromAbsl(absl::StripAsciiWhitespace(common::ToAbsl(text)));
}

// Whether "gzip" is among the encodings, and not only to be refused.
bool TakesGzip(const Fields& fields) {
  std::string_view rest = FieldOf(fields, "accept-encoding");
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view each = Stripped(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (Stripped(each.substr(0, each.find(';'))) != "gzip") continue;
    const size_t q = each.find("q=");
    return q == std::string_view::npos ||
           each.find_first_of("123456789", q) != std::string_view::npos;
  }
  return false;
}

std::string Inflated(const Asset& asset) {
  std::string text(asset.size, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, kGzip) != Z_OK) return "";
  stream.next_in = const_cast<unsigned char*>(asset.gzip.data());
  stream.avail_in = static_cast<uInt>(asset.gzip.size());
  stream.next_out = reinterpret_cast<unsigned char*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return text;
}

Response Serve(const Asset& asset, const Fields& fields) {
  Response response = {.content_type = std::string(TypeOf(asset.name)), .body = "", .fields = {}};
  response.fields.emplace_back("Vary", "Accept-Encoding");
  if (TakesGzip(fields)) {
    response.fields.emplace_back("Content-Encoding", "gzip");
    response.body.assign(asset.gzip.begin(), asset.gzip.end());
  } else {
    response.body = Inflated(asset);
  }
  return response;
}

}  // namespace

bool IsPage(std::string_view path) {
  return path.starts_with(kJobPages) ||
         std::find(std::begin(kPages), std::end(kPages), path) != std::end(kPages);
}

bool IsAsset(std::string_view path) { return path.starts_with(kAssets) || path == kFavicon; }

Response PageDocument(const Fields& fields) { return Serve(*FindAsset(kDocument), fields); }

Response PageAsset(std::string_view path, const Fields& fields) {
  if (path == kFavicon) return Serve(*FindAsset("icon.svg"), fields);
  const std::string_view prefix = page::AssetPrefix();
  const Asset* asset = path.starts_with(prefix) ? FindAsset(path.substr(prefix.size())) : nullptr;
  if (asset == nullptr) {
    return Refusal(404,
                   StrCat(common::Printable(path), " is not a file of this coordinator's page"),
                   "load the page again");
  }
  Response response = Serve(*asset, fields);
  // Its address names its content.
  response.fields.emplace_back("Cache-Control", "private, max-age=31536000, immutable");
  return response;
}

Response SignedOutPage() {
  return HtmlResponse(401, "Muster: not signed in",
                      "<p>A sign-in link works once, for two minutes. Get a new one with "
                      "<code>jobctl ui</code>.</p>\n");
}

Response SignedInPage(std::string_view path) {
  const std::string escaped = HtmlEscape(path);
  Response page = HtmlResponse(200, "Muster: signed in",
                               StrCat("<p><a href=\"", escaped, "\">", escaped, "</a></p>\n"));
  page.fields.emplace_back("Refresh", StrCat("0; url=", path));
  return page;
}

}  // namespace muster::coordinator::http
