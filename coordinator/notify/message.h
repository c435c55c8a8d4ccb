// What a webhook gets, and when it is tried again. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/notify/http_post.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// Whether `notify` wants to know that a job ended like this.
bool Wants(const v1::Notify& notify, v1::JobState state);

// `delivery` is the same for every try, so that a receiver can recognize a repetition
// (X-Muster-Delivery). Signed with the job's variable `secret_env`, as GitHub does it
// (X-Hub-Signature-256). INVALID_ARGUMENT for a URL that is none.
absl::StatusOr<PostRequest> MakePost(const v1::JobRecord& job, const v1::Notify& notify,
                                     const std::string& delivery);
// "sha256=" and HMAC-SHA256 in hexadecimal digits.
std::string SignatureOf(std::string_view body, std::string_view secret);

// The pause before try number `tries` + 1: doubles from `first_ms` up to 5 minutes.
int64_t PauseMs(int tries, int64_t first_ms);
// An answer after which it is never tried again: delivered, or refused for good.
bool IsDelivered(int http_status);
bool IsRefused(int http_status);

}  // namespace muster::coordinator
