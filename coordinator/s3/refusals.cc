#include "coordinator/s3/refusals.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator::s3 {
namespace {

using absl::StatusCode;
using common::StrCat;

struct RefusalRow {
  std::string_view code;
  StatusCode status;
  std::string_view fix;  // empty: a person need not do anything, or cannot
};

constexpr std::string_view kOtherKeys =
    "give the coordinator the access key and secret of a user of this store: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
constexpr std::string_view kNewToken =
    "renew the temporary credentials, or give the coordinator a role instead, which it renews";

// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and codes of MinIO, Ceph and OBS.
constexpr RefusalRow kRefusals[] = {
    {"NoSuchKey", StatusCode::kNotFound, ""},
    {"NoSuchUpload", StatusCode::kNotFound, ""},
    {"NoSuchBucket", StatusCode::kFailedPrecondition,
     "create the bucket, or correct its name in --objects"},
    {"PermanentRedirect", StatusCode::kFailedPrecondition,
     "write the bucket's own region and endpoint in --objects"},
    {"AuthorizationHeaderMalformed", StatusCode::kFailedPrecondition,
     "write the bucket's own region in --objects"},
    {"IllegalLocationConstraintException", StatusCode::kFailedPrecondition,
     "write the bucket's own region in --objects"},
    {"InvalidObjectState", StatusCode::kFailedPrecondition,
     "restore the object from its archive; let no rule of the bucket archive objects of Muster"},
    {"KMS.DisabledException", StatusCode::kFailedPrecondition, "enable the key of kms-key"},
    {"AccessDenied", StatusCode::kPermissionDenied,
     "allow s3:PutObject, s3:GetObject, s3:DeleteObject, s3:AbortMultipartUpload and "
     "s3:ListMultipartUploadParts on the objects, s3:ListBucket and s3:ListBucketMultipartUploads "
     "on "
     "the bucket"},
    {"AccountProblem", StatusCode::kPermissionDenied,
     "ask the provider of the store about the account"},
    {"InvalidAccessKeyId", StatusCode::kPermissionDenied, kOtherKeys},
    {"SignatureDoesNotMatch", StatusCode::kPermissionDenied, kOtherKeys},
    {"InvalidToken", StatusCode::kPermissionDenied, kNewToken},
    {"ExpiredToken", StatusCode::kPermissionDenied, kNewToken},
    {"TokenRefreshRequired", StatusCode::kPermissionDenied, kNewToken},
    {"RequestTimeTooSkewed", StatusCode::kPermissionDenied,
     "set the clock of this machine, and of the store: their times were tried both"},
    {"EntityTooLarge", StatusCode::kInvalidArgument, ""},
    {"EntityTooSmall", StatusCode::kInvalidArgument, ""},
    {"InvalidPart", StatusCode::kInvalidArgument, ""},
    {"InvalidPartOrder", StatusCode::kInvalidArgument, ""},
    {"InvalidRange", StatusCode::kOutOfRange, ""},
    {"PreconditionFailed", StatusCode::kAlreadyExists, ""},
    {"NotImplemented", StatusCode::kUnimplemented, ""},
    {"QuotaExceeded", StatusCode::kResourceExhausted,
     "raise the quota of the bucket, or delete jobs"},
    {"InsufficientStorageSpace", StatusCode::kResourceExhausted,
     "give the store more space, or delete jobs"},
    {"XMinioStorageFull", StatusCode::kResourceExhausted,
     "give the store more space, or delete jobs"},
    // The bytes were changed or cut on their way.
    {"BadDigest", StatusCode::kUnavailable, ""},
    {"IncompleteBody", StatusCode::kUnavailable, ""},
    {"XAmzContentSHA256Mismatch", StatusCode::kUnavailable, ""},
    {"RequestTimeout", StatusCode::kUnavailable, ""},
    {"OperationAborted", StatusCode::kUnavailable, ""},
    {"ConditionalRequestConflict", StatusCode::kUnavailable, ""},
    {"SlowDown", StatusCode::kUnavailable, ""},
    {"InternalError", StatusCode::kUnavailable, ""},
    {"ServiceUnavailable", StatusCode::kUnavailable, ""},
};

StatusCode CodeOfHttp(int status) {
  switch (status) {
    case 401:
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 409:
    case 429:
      return StatusCode::kUnavailable;
    case 412:
      return StatusCode::kAlreadyExists;
    case 416:
      return StatusCode::kOutOfRange;
    case 501:
      return StatusCode::kUnimplemented;
    case 507:
      return StatusCode::kResourceExhausted;
    default:
      return status >= 500 ? StatusCode::kUnavailable : StatusCode::kFailedPrecondition;
  }
}

std::string_view FixOfHttp(const Refusal& refusal) {
  if (refusal.http_status == 401 || refusal.http_status == 403)
    return "look whether these credentials may use the bucket";
  if (refusal.http_status >= 300 && refusal.http_status < 400)
    return "write the address that the store redirects to as endpoint in --objects";
  if (refusal.http_status == 507) return "give the store more space, or delete jobs";
  return "look at the store's log: the endpoint may be of another service, or lack what Muster "
         "needs";
}

}  // namespace

bool IsOfClock(const Refusal& refusal) { return refusal.error.code == "RequestTimeTooSkewed"; }

bool IsOfCredentials(const Refusal& refusal) {
  const std::string& code = refusal.error.code;
  return code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired" ||
         code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch";
}

absl::Status StatusOf(const Address& address, const std::string& what, const Refusal& refusal) {
  const ErrorAnswer& error = refusal.error;
  std::string why = error.code.empty() ? StrCat("HTTP status ", refusal.http_status) : error.code;
  if (!error.message.empty()) common::StrAppend(&why, ": ", error.message);
  if (!error.region.empty()) common::StrAppend(&why, " (the bucket is in ", error.region, ")");
  if (!error.request_id.empty()) common::StrAppend(&why, " (request ", error.request_id, ")");
  const std::string shown = StrCat(what, " at ", address.endpoint.Authority());

  StatusCode code = CodeOfHttp(refusal.http_status);
  std::string_view fix = FixOfHttp(refusal);
  for (const RefusalRow& row : kRefusals) {
    if (row.code != error.code) continue;
    code = row.status;
    fix = row.fix;
  }
  const bool is_for_a_person = code == StatusCode::kPermissionDenied ||
                               code == StatusCode::kFailedPrecondition ||
                               code == StatusCode::kResourceExhausted;
  if (!is_for_a_person) return {code, StrCat(shown, ": ", why)};
  return common::MakeProblem(code, {.code = "JC1640",
                                    .what = StrCat("the object store refuses ", shown),
                                    .why = std::move(why),
                                    .fix = std::string(fix)});
}

}  // namespace muster::coordinator::s3
