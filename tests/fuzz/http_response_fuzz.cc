// What a tracking server or an identity provider answers, whole and cut.
#include "common/http/response.h"
#include "fuzz/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muster::common::ParseHttpResponse;
  const std::string_view bytes = muster::testing::Text(data, size);
  const auto open = ParseHttpResponse(bytes, false);
  const auto ended = ParseHttpResponse(bytes, true);
  // Once the connection is closed nothing more can be waited for.
  FUZZ_EXPECT(!ended.ok() || ended->has_value());
  if (open.ok() && open->has_value()) {
    FUZZ_EXPECT(ended.ok() && (*ended)->status == (*open)->status);
    FUZZ_EXPECT((*open)->status >= 200 && (*open)->body.size() <= size);
  }
  return 0;
}
