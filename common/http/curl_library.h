// libcurl, loaded when something is first transferred: a coordinator without an object store neither needs nor loads
// it and its thirty libraries, and its OpenSSL stays apart from the one that is linked into our programs. Any
// thread; once loaded it stays.
#pragma once

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace muster::common {

// The functions that are used, as curl/curl.h declares them.
struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

// FAILED_PRECONDITION: there is none here, and how to install it.
absl::StatusOr<const CurlLibrary*> LoadCurl();

}  // namespace muster::common
