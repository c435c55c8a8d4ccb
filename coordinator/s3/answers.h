// What S3 answers, out of its XML: https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations.html. Errors are
// INVALID_ARGUMENT, and tell what is wrong with the answer. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/s3/credentials.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator::s3 {

// An answer that tells of an error. Texts are those of the server, shortened and without control characters.
struct ErrorAnswer {
  std::string code;  // "NoSuchKey"; empty: the answer has none
  std::string message;
  std::string resource;
  std::string request_id;
  std::string region;  // where the bucket is, if the error is that
};
// Anything else gives an error without a code.
ErrorAnswer ReadError(std::string_view xml);
// Whether the answer is an error, whatever its HTTP status: completing an upload answers 200 before it is done.
bool IsErrorAnswer(std::string_view xml);

// ListBucketResult. Keys have the prefix of the address still; `next` is the last of them.
absl::StatusOr<Objects::Page> ReadList(std::string_view xml);
// InitiateMultipartUploadResult.
absl::StatusOr<std::string> ReadUploadId(std::string_view xml);
// ListPartsResult.
struct PartsAnswer {
  std::vector<ObjectPart> parts;
  int next = 0;  // 0: that is all
};
absl::StatusOr<PartsAnswer> ReadParts(std::string_view xml);
// ListMultipartUploadsResult. `next_key` is empty at the end.
struct UploadsAnswer {
  std::vector<Objects::OpenUpload> uploads;
  std::string next_key;
  std::string next_id;
};
absl::StatusOr<UploadsAnswer> ReadUploads(std::string_view xml);
// DeleteResult: the first object that could not be deleted, or one without a code.
absl::StatusOr<ErrorAnswer> ReadDeleted(std::string_view xml);
// AssumeRoleWithWebIdentityResponse, of AWS's token service.
absl::StatusOr<Credentials> ReadAssumedRole(std::string_view xml);

// The bodies of requests.
std::string DeleteRequest(const std::vector<std::string>& keys);
std::string CompleteRequest(const std::vector<ObjectPart>& parts);

}  // namespace muster::coordinator::s3
