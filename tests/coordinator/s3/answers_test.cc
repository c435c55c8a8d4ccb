// What is read of a server's XML: what S3 documents, and what no server should send.
#include "coordinator/s3/answers.h"
#include "common/text/percent.h"

#include <gtest/gtest.h>

#include <string>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/s3/refusals.h"
#include "coordinator/s3/times.h"
#include "coordinator/s3/xml.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;

TEST(S3Answers, ListsObjects) {
  const auto page = ReadList(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>b</Name><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<Contents><Key>p/a%20b</Key><LastModified>2009-10-12T17:50:30.500Z</"
      "LastModified><ETag>&quot;x&quot;</ETag>"
      "<Size>434234</Size></Contents><Contents><Key>p/c</Key><Size>0</Size></Contents></"
      "ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "p/a b");
  EXPECT_EQ(page->objects[0].size, 434'234u);
  EXPECT_EQ(page->objects[0].modified_ms, 1'255'369'830'500);
  EXPECT_EQ(page->next, "p/c");
}

TEST(S3Answers, ListsPartsAndUploads) {
  const auto parts = ReadParts(
      "<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>1</"
      "PartNumber><ETag>\"a\"</ETag><Size>8</Size>"
      "</Part><Part><PartNumber>3</PartNumber><ETag>\"b\"</ETag><Size>9</Size></Part></"
      "ListPartsResult>");
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->parts.size(), 2u);
  EXPECT_EQ(parts->parts[1].number, 3);
  EXPECT_EQ(parts->parts[1].tag, "\"b\"");
  EXPECT_EQ(parts->next, 0);
  const auto twice = ReadParts(
      "<ListPartsResult><Part><PartNumber>2</PartNumber><ETag>new</ETag><Size>1</"
      "Size><LastModified>"
      "2026-11-29T03:56:23Z</LastModified></Part><Part><PartNumber>2</PartNumber><ETag>old</"
      "ETag><Size>9</Size>"
      "<LastModified>2026-11-29T03:56:22Z</LastModified></Part></ListPartsResult>");
  ASSERT_EQ(twice->parts.size(), 1u);
  EXPECT_EQ(twice->parts[0].tag, "new");
  const auto uploads = ReadUploads(
      "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
      "<NextUploadIdMarker>2</NextUploadIdMarker><Upload><Key>k</Key><UploadId>2</UploadId>"
      "<Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload></ListMultipartUploadsResult>");
  ASSERT_TRUE(uploads.ok()) << uploads.status();
  EXPECT_EQ(uploads->uploads[0].upload.id, "2");
  EXPECT_EQ(uploads->uploads[0].begun_ms, 1'289'422'113'000);
  EXPECT_EQ(uploads->next_key, "k");
}

TEST(S3Answers, OfAnErrorBecomeOursWithAFix) {
  const std::string xml =
      "<Error><Code>AccessDenied</Code><Message>Access\nDenied</Message><Resource>/b/k</Resource>"
      "<RequestId>4442587FB7D0A2F9</RequestId></Error>";
  EXPECT_TRUE(IsErrorAnswer(xml));
  const Address address = *ParseAddress("s3://runs?region=eu-west-1");
  const absl::Status status =
      StatusOf(address, "PUT s3://runs/k", {.http_status = 403, .error = ReadError(xml)});
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(common::CodeOf(status), "JC1640");
  EXPECT_NE(status.message().find("PUT s3://runs/k at s3.eu-west-1.amazonaws.com"),
            std::string::npos)
      << status;
  EXPECT_NE(status.message().find("request 4442587FB7D0A2F9"), std::string::npos) << status;
  EXPECT_NE(common::ProblemOf(status).fix.find("s3:PutObject"), std::string::npos);
  const auto code_of = [&address](int http_status, std::string code) {
    return StatusOf(address, "GET s3://runs/k",
                    {.http_status = http_status, .error = {.code = std::move(code)}})
        .code();
  };
  EXPECT_EQ(code_of(404, "NoSuchKey"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code_of(404, "NoSuchBucket"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code_of(503, "SlowDown"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code_of(400, "RequestTimeout"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code_of(500, ""), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code_of(502, ""), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code_of(507, ""), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(301, "PermanentRedirect"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code_of(307, ""), absl::StatusCode::kFailedPrecondition);
}

TEST(S3Answers, OfADeletionNameWhatIsLeft) {
  EXPECT_TRUE(ReadDeleted("<DeleteResult/>")->code.empty());
  EXPECT_TRUE(
      ReadDeleted("<DeleteResult><Error><Key>a</Key><Code>NoSuchKey</Code></Error></DeleteResult>")
          ->code.empty());
  const auto left = ReadDeleted(
      "<DeleteResult><Error><Key>sample2.txt</Key><Code>AccessDenied</Code><Message>no</Message></"
      "Error></DeleteResult>");
  EXPECT_EQ(left->code, "AccessDenied");
  EXPECT_EQ(left->resource, "sample2.txt");
}

TEST(S3Answers, ThatNoServerShouldSendAreRefused) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  std::string many = "<a>";
  for (int i = 0; i < 60'000; ++i) many += "<b/>";
  for (const std::string& xml :
       {std::string(), std::string("<html>"), deep, many + "</a>", std::string(5 << 20, ' '),
        std::string(
            "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\">]><ListBucketResult>&b;</ListBucketResult>"),
        std::string("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><ListBucketResult/>"),
        std::string("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></"
                    "ListBucketResult>"),
        std::string("<ListBucketResult><Contents><Key>a</Key><Size>18446744073709551616</Size></"
                    "Contents></ListBucketResult>"),
        std::string("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
        std::string("<ListBucketResult>&unknown;</ListBucketResult>"),
        std::string("<ListBucketResult>\xff\xfe"),
        std::string("<ListBucketResult></ListBucketResult><b/>")}) {
    EXPECT_EQ(ReadList(xml).status().code(), absl::StatusCode::kInvalidArgument)
        << xml.substr(0, 80);
  }
  EXPECT_FALSE(
      ReadParts(
          "<ListPartsResult><Part><PartNumber>10001</PartNumber><ETag>a</ETag><Size>1</Size></Part>"
          "</ListPartsResult>")
          .ok());
  EXPECT_FALSE(ReadUploadId("<InitiateMultipartUploadResult/>").ok());
  EXPECT_FALSE(
      ReadUploadId(StrCat("<InitiateMultipartUploadResult><UploadId>", std::string(2000, 'x'),
                          "</UploadId></InitiateMultipartUploadResult>"))
          .ok());
  const ErrorAnswer error = ReadError(
      StrCat("<Error><Code>\x1b</Code><Message>", std::string(5000, 'm'), "</Message></Error>"));
  EXPECT_LT(error.message.size(), 400u);
}

TEST(S3Answers, ToWhichRequestsAreWritten) {
  EXPECT_EQ(DeleteRequest({"a", "b<c"}),
            "<Delete><Quiet>true</Quiet><Object><Key>a</Key></Object><Object><Key>b&lt;c</Key></"
            "Object></Delete>");
  EXPECT_EQ(
      CompleteRequest({{.number = 1, .size = 5, .tag = "\"x\""}}),
      "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;x&quot;</ETag></Part>"
      "</CompleteMultipartUpload>");
}

TEST(S3Encoding, WritesAndReadsTimesAndTexts) {
  EXPECT_EQ(BasicTime(1'369'353'600'000), "20130524T000000Z");
  EXPECT_EQ(ReadHttpTime("Fri, 24 May 2013 00:00:00 GMT"), 1'369'353'600'000);
  EXPECT_EQ(ReadHttpTime("infinite-future"), std::nullopt);
  EXPECT_EQ(ReadHttpTime(""), std::nullopt);
  EXPECT_EQ(common::PercentEncode("a/b c+~"), "a%2Fb%20c%2B~");
  EXPECT_EQ(common::PercentDecode("a%2Fb"), "a/b");
  EXPECT_EQ(common::PercentDecode("a%2"), std::nullopt);
}

TEST(ObjectKeys, ArePathsThatStayBelowTheirDirectory) {
  for (const char* key : {"a", "logs/J-1/0/n_1/12-3", "a.b"})
    EXPECT_TRUE(CheckObjectKey(key).ok()) << key;
  for (const char* key :
       {"", "/a", "a/", "a//b", "../a", "a/..", "a/.b", ".", "a b", "a\xc3\xa4", "a\\b", "a%b"})
    EXPECT_FALSE(CheckObjectKey(key).ok()) << key;
  EXPECT_FALSE(CheckObjectKey(std::string(201, 'a')).ok());
  EXPECT_TRUE(CheckObjectPrefix("").ok() && CheckObjectPrefix("a/").ok() &&
              CheckObjectPrefix("a/b").ok());
  EXPECT_FALSE(CheckObjectPrefix("/").ok() && CheckObjectPrefix("a//").ok());
}

TEST(ObjectParts, CoverObjectsOfAllSizes) {
  EXPECT_EQ(PartBytesFor(1), Objects::kPartBytesMin);
  for (const uint64_t size : {uint64_t{1} << 30, uint64_t{100} << 30, Objects::kObjectBytesMax}) {
    const uint64_t part = PartBytesFor(size);
    EXPECT_LE((size + part - 1) / part, uint64_t{Objects::kPartsMax});
    EXPECT_LE(part, Objects::kPutBytesMax);
  }
  EXPECT_FALSE(CheckParts({}).ok());
  EXPECT_FALSE(CheckParts({{.number = 2, .size = 1}}).ok());
  EXPECT_FALSE(CheckParts({{.number = 1, .size = 1}, {.number = 2, .size = 1}}).ok());
  EXPECT_EQ(*CheckParts({{.number = 1, .size = Objects::kPartBytesMin}, {.number = 2, .size = 1}}),
            Objects::kPartBytesMin + 1);
}

}  // namespace
}  // namespace muster::coordinator::s3
