#include "coordinator/http/index_page.h"

#include <string>

#include "common/strings.h"
#include "coordinator/http/answers.h"
#include "coordinator/http/api.h"
#include "coordinator/http/api_calls.h"
#include "coordinator/http/target.h"

namespace muster::coordinator::http {
namespace {

using common::StrAppend;
using common::StrCat;

std::string Link(std::string_view address) {
  const std::string escaped = HtmlEscape(address);
  return StrCat("<a href=\"", escaped, "\">", escaped, "</a>");
}

bool AsksForJob(const ApiCall& call) {
  return call.request.GetDescriptor()->FindFieldByName("job") != nullptr;
}

std::string CallRow(const ApiCall& call, std::string_view job) {
  std::string address = StrCat(kApiRoot, call.name);
  if (call.action != Action::kRead) return StrCat("<li>POST ", address, "</li>\n");
  if (!job.empty() && AsksForJob(call)) StrAppend(&address, "?job=", PercentEncode(job));
  return StrCat("<li>GET ", Link(address), "</li>\n");
}

}  // namespace

Response IndexPage(std::string_view job, bool serves_writes) {
  std::string body = "<p>The calls of jobctl, as JSON:</p>\n<ul>\n";
  for (const ApiCall& call : ApiCalls()) {
    if (!job.empty() && !AsksForJob(call)) continue;
    if (call.action == Action::kRead || serves_writes) body += CallRow(call, job);
  }
  StrAppend(&body, "</ul>\n<p>Also ", Link(StrCat(kApiRoot, "openapi.json")), ", ",
            Link("/metrics"), ", ", Link("/healthz"), ", ", Link("/readyz"), "</p>\n");
  return HtmlResponse(200, job.empty() ? std::string("Muster") : StrCat("Job ", job), body);
}

Response SignedOutPage() {
  return HtmlResponse(401, "Muster: not signed in",
                      "<p>A sign-in link works once, for two minutes. Get a new one with "
                      "<code>jobctl ui</code>.</p>\n");
}

Response SignedInPage(std::string_view path) {
  Response page = HtmlResponse(200, "Muster: signed in", StrCat("<p>", Link(path), "</p>\n"));
  page.fields.emplace_back("Refresh", StrCat("0; url=", path));
  return page;
}

}  // namespace muster::coordinator::http
