#include "common/http/curl_library.h"

#include <dlfcn.h>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr char kFile[] = "libcurl.so.4";

template <typename Function>
absl::Status Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat(kFile, " has no ", name, "; fix: install libcurl 7.85 or later"));
}

absl::StatusOr<CurlLibrary> Load() {
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        StrCat("libcurl cannot be loaded, which object stores are reached with: ", dlerror(),
               "; fix: install it (Debian 12: libcurl4, Debian 13: libcurl4t64)"));
  }
  CurlLibrary curl;
  RETURN_IF_ERROR(Find(library, "curl_global_init", &curl.global_init));
  RETURN_IF_ERROR(Find(library, "curl_easy_init", &curl.easy_init));
  RETURN_IF_ERROR(Find(library, "curl_easy_reset", &curl.easy_reset));
  RETURN_IF_ERROR(Find(library, "curl_easy_cleanup", &curl.easy_cleanup));
  RETURN_IF_ERROR(Find(library, "curl_easy_setopt", &curl.easy_setopt));
  RETURN_IF_ERROR(Find(library, "curl_easy_perform", &curl.easy_perform));
  RETURN_IF_ERROR(Find(library, "curl_easy_getinfo", &curl.easy_getinfo));
  RETURN_IF_ERROR(Find(library, "curl_easy_strerror", &curl.easy_strerror));
  RETURN_IF_ERROR(Find(library, "curl_slist_append", &curl.slist_append));
  RETURN_IF_ERROR(Find(library, "curl_slist_free_all", &curl.slist_free_all));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return absl::FailedPreconditionError("libcurl cannot be initialized");
  return curl;
}

}  // namespace

absl::StatusOr<const CurlLibrary*> LoadCurl() {
  static const absl::StatusOr<CurlLibrary> loaded = Load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace muster::common
