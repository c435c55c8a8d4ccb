// What a rank, a relay and the root of muster-rendezvous send each other: requests in any pieces, carried out on a
// store, frames, and the lines of its settings.
#include <algorithm>
#include <string>

#include "fuzz/harness.h"
#include "rendezvous/frames.h"
#include "rendezvous/requests.h"
#include "rendezvous/settings.h"
#include "rendezvous/values.h"

namespace muster::rendezvous {
namespace {

constexpr uint64_t kStoreBytes = 1 << 20;

void CarryOut(const Request& request, Waiter waiter, Values* values) {
  std::string answer;
  bool ok = true;
  if (request.op == Op::kWait) {
    values->Wait(waiter, request.keys);
  } else if (request.op == Op::kBarrier) {
    if (!values->Arrive(request.key, request.number, 1, &ok) && ok)
      values->AwaitBarrier(waiter, request.key);
  } else if (request.op == Op::kCancelWait) {
    values->StopWaiting(waiter);
  } else if (values->Execute(request, &answer) && request.op != Op::kValidate &&
             request.op != Op::kPing) {
    FUZZ_EXPECT(answer.empty() != request.IsAnswered());
  }
  for (const Waiter ready : values->TakeEffects().ready) FUZZ_EXPECT(ready < 4);
}

// `piece`: how many bytes come at once.
std::string ReadAll(std::string_view bytes, size_t piece, Values* values) {
  std::string seen;
  RequestReader reader;
  Request request;
  size_t at = 0, come = 0;
  while (true) {
    const auto outcome = reader.Read(bytes.substr(at, come - at), &request);
    if (outcome == RequestReader::Outcome::kBad) {
      FUZZ_EXPECT(!reader.Why().empty());
      return seen + reader.Why();
    }
    if (outcome == RequestReader::Outcome::kPartial) {
      if (come == bytes.size()) return seen;
      come = std::min(bytes.size(), come + piece);
      continue;
    }
    FUZZ_EXPECT(reader.Used() > 0 && reader.Used() <= come - at);
    FUZZ_EXPECT(request.key.size() <= kKeyBytesMax && request.value.size() <= kValueBytesMax);
    FUZZ_EXPECT(request.keys.size() <= kKeysMax);
    seen += bytes.substr(at, reader.Used());
    if (values != nullptr) CarryOut(request, at % 4, values);
    at += reader.Used();
  }
}

void ReadFrames(std::string_view bytes) {
  Frame kind{};
  std::string_view fields;
  size_t used = 0;
  while (NextFrame(bytes, &kind, &fields, &used) == Split::kWhole) {
    FUZZ_EXPECT(used > fields.size() && used <= bytes.size());
    std::string again;
    FrameWriter(&again, kind).Rest(fields);
    FUZZ_EXPECT(again == bytes.substr(0, used));
    FrameReader reader(fields);
    reader.Number();
    FUZZ_EXPECT(reader.Text().size() <= fields.size());
    reader.Byte();
    reader.Number();
    FUZZ_EXPECT(reader.Rest().size() <= fields.size());
    bytes.remove_prefix(used);
  }
}

}  // namespace
}  // namespace muster::rendezvous

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::rendezvous;
  const std::string_view bytes = muster::testing::Text(data, size);
  Values values(kStoreBytes);
  const std::string whole = ReadAll(bytes, size + 1, &values);
  FUZZ_EXPECT(ReadAll(bytes, 1, nullptr) == whole);
  ReadFrames(bytes);
  const auto settings = ParseSettings(bytes);
  if (settings.ok()) FUZZ_EXPECT(!settings->locals.empty());
  return 0;
}
