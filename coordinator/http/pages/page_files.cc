#include "coordinator/http/pages/page_files.h"

#include <zlib.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/problem.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/http/server/target.h"
#include "page/assets.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;
using page::Asset;

constexpr std::string_view kDocument = "index.html";
constexpr std::string_view kStyle = "style.css";
constexpr std::string_view kIcon = "icon.svg";
constexpr std::string_view kAssets = "/assets/";
// Browsers ask for it where a document names no icon, as with the sign-in page.
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

std::string SignInForm(std::string_view escaped_next) {
  return StrCat(
      "<form class=\"card\" method=\"post\" action=\"/sign-in\">\n"
      "<label for=\"token\">Or paste that link, or a token</label>\n"
      "<input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" required>\n"
      "<input type=\"hidden\" name=\"next\" value=\"",
      escaped_next,
      "\">\n"
      "<button type=\"submit\" class=\"strong\">Sign in</button>\n"
      "<p class=\"muted\">An administrator makes a token with <code>jobctl token create person "
      "NAME</code>; the one in the coordinator's file HTTP-TOKEN signs in as the coordinator's own "
      "user.</p>\n</form>\n");
}

std::string ProviderForm(std::string_view provider, std::string_view escaped_next) {
  if (provider.empty()) return "";
  return StrCat("<form method=\"post\" action=\"", kProviderPath,
                "\">\n<input type=\"hidden\" name=\"next\" value=\"", escaped_next,
                "\">\n<button type=\"submit\" class=\"strong\">Sign in with ", HtmlEscape(provider),
                "</button>\n</form>\n");
}

// A page without scripts, which need a session.
std::string SignInFrame(std::string_view title, std::string_view state, std::string_view body) {
  return StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\">"
      // Browsers send a form's origin only if they may send its page as the referrer.
      "<meta name=\"referrer\" content=\"same-origin\">"
      "<title>Muster: ",
      title, "</title><link rel=\"stylesheet\" href=\"", page::AssetPrefix(), kStyle,
      "\"><link rel=\"icon\" href=\"", page::AssetPrefix(), kIcon,
      "\"></head><body>\n<header><span class=\"brand\">"
      "<img src=\"",
      page::AssetPrefix(), kIcon,
      "\" alt=\"\" width=\"20\" height=\"20\">Muster</span></header>\n"
      "<main><div class=\"blank signin\" data-page-state=\"",
      state, "\">\n", body, "</div></main>\n</body></html>\n");
}

std::string Alert(std::string_view text) {
  return text.empty() ? "" : StrCat("<p class=\"bad\" role=\"alert\">", HtmlEscape(text), "</p>\n");
}

}  // namespace

bool IsPage(std::string_view path) {
  const std::span<const std::string_view> pages = page::Pages();
  return path.starts_with(kJobPages) || std::find(pages.begin(), pages.end(), path) != pages.end();
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

bool IsPublicAsset(std::string_view path) {
  return path == kFavicon || path == StrCat(page::AssetPrefix(), kStyle) ||
         path == StrCat(page::AssetPrefix(), kIcon);
}

bool IsLocalPath(std::string_view path) {
  return path.starts_with('/') && !path.starts_with("//") &&
         path.find('\\') == std::string_view::npos && common::IsCleanUtf8(path);
}

Response SignedOutPage(const SignedOut& why) {
  const common::Problem problem = common::ProblemOf(why.problem);
  const std::string wrong = why.problem.ok()
                                ? ""
                                : StrCat(problem.what, problem.why.empty() ? "" : ": ", problem.why,
                                         problem.fix.empty() ? "" : ". Fix: ", problem.fix);
  const std::string next = IsLocalPath(why.next) ? HtmlEscape(why.next) : "/";
  return {
      .status = 401,
      .content_type = "text/html; charset=utf-8",
      .body = SignInFrame(
          "not signed in", "signed-out",
          StrCat("<h1>Not signed in</h1>\n", Alert(wrong),
                 "<p>Where <code>jobctl</code> works, this prints a link that signs this browser "
                 "in:</p>\n<div class=\"command\"><code>jobctl ui</code></div>\n",
                 ProviderForm(why.provider, next), SignInForm(next))),
      .fields = {}};
}

Response ConfirmPage(const Confirm& confirm) {
  const std::string provider = HtmlEscape(confirm.provider);
  const std::string again = StrCat(kProviderPath, "?next=", common::PercentEncode(confirm.next));
  Response response{
      .status = 200,
      .content_type = "text/html; charset=utf-8",
      .body = SignInFrame(
          "confirm", "confirming",
          StrCat("<h1>Sign in with ", provider, "</h1>\n", Alert(confirm.problem),
                 "<p>Open <a href=\"", HtmlEscape(confirm.link),
                 "\" target=\"_blank\" rel=\"noopener noreferrer\">", HtmlEscape(confirm.address),
                 "</a> and confirm this code there:</p>\n", "<div class=\"command\"><code>",
                 HtmlEscape(confirm.code),
                 "</code></div>\n<p><strong>Do not confirm a code that another person sent "
                 "you.</strong> That person would be signed in as you. This sign-in began when you "
                 "pressed the button here.</p>\n"
                 "<p class=\"muted\">This page continues once it is confirmed.</p>\n"
                 "<p><a href=\"/sign-in\">Sign in another way</a></p>\n")),
      .fields = {}};
  response.fields.emplace_back("Refresh", StrCat(confirm.interval_s, "; url=", again));
  return response;
}

Response SignedInPage(std::string_view path) {
  const std::string escaped = HtmlEscape(path);
  Response page = HtmlResponse(200, "Muster: signed in",
                               StrCat("<p><a href=\"", escaped, "\">", escaped, "</a></p>\n"));
  page.fields.emplace_back("Refresh", StrCat("0; url=", path));
  return page;
}

}  // namespace muster::coordinator::http
