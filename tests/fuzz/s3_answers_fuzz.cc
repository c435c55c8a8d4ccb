// What an object store answers, files with credentials, and a bucket's address, by whichever reader the first byte names.
#include "coordinator/s3/address.h"
#include "coordinator/s3/answers.h"
#include "coordinator/s3/credential_chain.h"
#include "coordinator/s3/credential_files.h"
#include "coordinator/s3/xml.h"
#include "fuzz/harness.h"

namespace {

using namespace muster::coordinator;
using namespace muster::coordinator::s3;

size_t Elements(const XmlElement& element, size_t depth) {
  FUZZ_EXPECT(depth <= kXmlDepthMax);
  size_t count = 1;
  for (const XmlElement& child : element.children) count += Elements(child, depth + 1);
  return count;
}

void CheckXml(std::string_view text) {
  const auto root = ParseXml(text);
  if (root.ok()) FUZZ_EXPECT(Elements(*root, 1) <= kXmlElementsMax);
}

void CheckParts(std::string_view text) {
  const auto answer = ReadParts(text);
  if (!answer.ok()) return;
  int before = 0;
  for (const ObjectPart& part : answer->parts) {
    FUZZ_EXPECT(part.number > before && part.number <= Objects::kPartsMax && !part.tag.empty());
    before = part.number;
  }
  FUZZ_EXPECT(answer->next == 0 || answer->next == before);
}

void CheckError(std::string_view text) {
  const ErrorAnswer error = ReadError(text);
  for (const std::string& shown :
       {error.code, error.message, error.resource, error.request_id, error.region}) {
    FUZZ_EXPECT(shown.size() < 4'096);
    for (const char c : shown) FUZZ_EXPECT(static_cast<unsigned char>(c) >= ' ' || c == '\t');
  }
}

void CheckAddress(std::string_view text) {
  const auto address = ParseAddress(text);
  if (!address.ok()) return;
  FUZZ_EXPECT(address->prefix.empty() || CheckObjectPrefix(address->prefix).ok());
  FUZZ_EXPECT(address->Path("k").ends_with("/" + address->prefix + "k"));
  for (const char c : address->Host() + address->region + address->encryption + address->kms_key)
    FUZZ_EXPECT(c > ' ' && c < 0x7f);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = muster::testing::Text(data, size);
  if (bytes.empty()) return 0;
  const std::string_view text = bytes.substr(1);
  switch (bytes.front()) {
    case 'l':
      static_cast<void>(ReadList(text));
      break;
    case 'p':
      CheckParts(text);
      break;
    case 'u':
      static_cast<void>(ReadUploads(text));
      static_cast<void>(ReadUploadId(text));
      break;
    case 'd':
      static_cast<void>(ReadDeleted(text));
      break;
    case 'e':
      CheckError(text);
      break;
    case 'r':
      if (const auto role = ReadAssumedRole(text); role.ok()) FUZZ_EXPECT(role->AreUsable());
      break;
    case 'j':
      if (const auto found = ReadCredentialAnswer(text); found.ok())
        FUZZ_EXPECT(found->AreUsable());
      break;
    case 'f':
      static_cast<void>(ReadProfile(text, "default"));
      break;
    case 's':
      CheckAddress(text);
      break;
    default:
      CheckXml(text);
  }
  return 0;
}
