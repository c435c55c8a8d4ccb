// How a bucket is spelled, and what is told about one that is wrong.
#include "coordinator/s3/address.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace muster::coordinator::s3 {
namespace {

TEST(S3Address, NamesABucketOfAws) {
  const auto address =
      ParseAddress("s3://runs/lab/a?region=eu-west-1&sse=aws:kms&kms-key=arn:aws:kms:x:1:key/2");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->bucket, "runs");
  EXPECT_EQ(address->prefix, "lab/a/");
  EXPECT_EQ(address->Host(), "runs.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(address->Path("logs/1"), "/lab/a/logs/1");
  EXPECT_EQ(address->Path(""), "/");
  EXPECT_EQ(address->encryption, "aws:kms");
  EXPECT_EQ(address->kms_key, "arn:aws:kms:x:1:key/2");
  EXPECT_EQ(TextOf(*address), "s3://runs/lab/a at https://s3.eu-west-1.amazonaws.com");
}

TEST(S3Address, NamesAServerOfOnesOwn) {
  const auto address = ParseAddress("s3://runs?endpoint=http%3A%2F%2F127.0.0.1:8333");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_TRUE(address->is_path_style);
  EXPECT_EQ(address->region, "us-east-1");
  EXPECT_EQ(address->Host(), "127.0.0.1:8333");
  EXPECT_EQ(address->Path("a"), "/runs/a");
  EXPECT_EQ(address->Path(""), "/runs");
}

TEST(S3Address, OfObsHasTheBucketInTheHost) {
  const auto address = ParseAddress("s3://runs/?profile=obs&region=cn-north-4");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->Host(), "runs.obs.cn-north-4.myhuaweicloud.com");
  EXPECT_EQ(address->profile, Profile::kObs);
}

TEST(S3Address, TellsWhatIsWrongAndWhatToWrite) {
  for (const auto& [text, told] : std::initializer_list<std::pair<const char*, const char*>>{
           {"http://runs", "begin with s3://"},
           {"s3://", "\"\" is not a bucket"},
           {"s3://Runs?region=a", "\"Runs\" is not a bucket"},
           {"s3://runs", "add region=NAME"},
           {"s3://runs/../x?region=a", "prefix ../x"},
           {"s3://runs//x?region=a", "prefix /x"},
           {"s3://runs?regio=a", "\"regio\" is not one of its options"},
           {"s3://runs?region=a&region=b", "region is there twice"},
           {"s3://runs?region=", "value of region"},
           {"s3://runs?region=a%0ab", "value of region"},
           {"s3://runs?region=a%2", "value of region"},
           {"s3://runs?region=a/b", "region=a/b is not a region"},
           {"s3://runs?endpoint=ftp://x", "endpoint ftp://x"},
           {"s3://runs?endpoint=https://x/runs", "has a path"},
           {"s3://runs?endpoint=http://minio:9000", "add insecure=true"},
           {"s3://runs?endpoint=https://x&style=vhost", "style=vhost"},
           {"s3://runs?region=a&profile=obs&style=path", "OBS refuses style=path"},
           {"s3://my.runs?region=a", "add style=path"},
           {"s3://runs?region=a&sse=yes", "sse=yes"},
           {"s3://runs?region=a&kms-key=x", "needs sse=aws:kms"},
           {"s3://runs?region=a&profile=gcs", "profile=gcs"}}) {
    const auto address = ParseAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(address.status().message().find(told), std::string::npos)
        << text << ": " << address.status();
  }
  EXPECT_TRUE(ParseAddress("s3://runs?endpoint=http://minio:9000&insecure=true").ok());
  EXPECT_TRUE(ParseAddress("s3://my.runs?region=a&style=path").ok());
}

}  // namespace
}  // namespace muster::coordinator::s3
