// What an identity provider answers, and a token of it, by whichever reader the first byte names.
#include "common/text/text.h"
#include "coordinator/oidc/answers.h"
#include "coordinator/oidc/id_token.h"
#include "coordinator/oidc/keys.h"
#include "fuzz/harness.h"

namespace {

using namespace muster::coordinator::oidc;

constexpr int64_t kSomeTimeMs = 1'790'000'000'000;

// The example of RFC 7517. No input has a signature of it.
const std::vector<Key>& Keys() {
  static const auto* const keys = new std::vector<Key>(MakeKeys(*ReadWrittenKeys(
      R"({"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",)"
      R"("y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})")));
  return *keys;
}

void CheckGrant(std::string_view text) {
  const auto grant = ReadDeviceGrant(text);
  if (!grant.ok()) return;
  FUZZ_EXPECT(muster::common::IsCleanUtf8(grant->user_code) && !grant->user_code.empty());
  FUZZ_EXPECT(muster::common::IsCleanUtf8(grant->verification_uri));
  FUZZ_EXPECT(grant->interval_s >= 1 && grant->interval_s <= 60);
  FUZZ_EXPECT(grant->expires_s >= 1 && grant->expires_s <= 3'600);
}

void CheckKeys(std::string_view text) {
  const auto written = ReadWrittenKeys(text);
  if (!written.ok()) return;
  FUZZ_EXPECT(written->size() <= kKeysMax);
  for (const Key& key : MakeKeys(*written)) FUZZ_EXPECT(!IsSignedWith(key, "text", "signature"));
}

void CheckClaims(std::string_view text) {
  const auto claims = ReadClaims(text);
  if (!claims.ok()) return;
  FUZZ_EXPECT(!claims->issuer.empty() && !claims->subject.empty());
  FUZZ_EXPECT(claims->expires_s >= 0 && claims->issued_s >= 0);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = muster::testing::Text(data, size);
  if (bytes.empty()) return 0;
  const std::string_view text = bytes.substr(1);
  switch (bytes.front()) {
    case 'm':
      static_cast<void>(ReadMetadata(text, "https://id.example"));
      break;
    case 'k':
      CheckKeys(text);
      break;
    case 'g':
      CheckGrant(text);
      break;
    case 'h':
      static_cast<void>(ReadTokenHead(text));
      break;
    case 'c':
      CheckClaims(text);
      break;
    case 'j':
      FUZZ_EXPECT(
          !CheckIdToken(
               text, Keys(),
               {.issuer = "https://id.example", .client_id = "muster", .now_ms = kSomeTimeMs})
               .ok());
      break;
    default:
      const auto answer =
          ReadTokenAnswer({.status = bytes.front() == 't' ? 200 : 400, .body = std::string(text)});
      FUZZ_EXPECT(!answer.ok() || answer->kind != TokenAnswer::Kind::kToken ||
                  !answer->id_token.empty());
  }
  return 0;
}
