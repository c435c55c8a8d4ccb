// What a bundle hides, and what it must leave readable.
#include "client/diagnosis/redaction.h"

#include <gtest/gtest.h>

#include <utility>

#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

TEST(RedactionTest, HidesSecretsWhereverTheyStand) {
  const std::pair<const char*, const char*> kTable[] = {
      {"password=hunter2 next", "password=(hidden) next"},
      {"PASSWORD: hunter2", "PASSWORD: (hidden)"},
      {"password=12345678", "password=(hidden)"},
      {"{\"api_key\": \"a b\\\" c\", \"lr\": 0.1}", "{\"api_key\": \"(hidden)\", \"lr\": 0.1}"},
      {"{\"line\": \"{\\\"api_key\\\": \\\"abc\\\"}\"}",
       "{\"line\": \"{\\\"api_key\\\": \\\"(hidden)\\\"}\"}"},
      {"export AWS_SECRET_ACCESS_KEY='x/y+z'", "export AWS_SECRET_ACCESS_KEY='(hidden)'"},
      {"run --token abcdef --lr 1", "run --token (hidden) --lr 1"},
      {"run --api-key=abcdef&x", "run --api-key=(hidden)&x"},
      {"GET https://me:pw@host/path?x=1", "GET https://(hidden)@host/path?x=1"},
      {"git+ssh://me:p@ss@host:22/x", "git+ssh://(hidden)@host:22/x"},
      {"https://ghp_0123456789@github.com/a", "https://(hidden)@github.com/a"},
      {"Authorization: Bearer abc.DEF-123_456", "Authorization: Bearer (hidden)"},
      {"authorization: basic bWU6cHc9PQ==", "authorization: basic (hidden)"},
      {"auth_token: Bearer abc.DEF-123_456;", "auth_token: Bearer (hidden);"},
      {"using hf_abcdefghijklmnop now", "using (hidden) now"},
      {"AKIAIOSFODNN7EXAMPLE", "(hidden)"},
      {"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
       "a\n(hidden)\nb"},
      {"-----BEGIN PRIVATE KEY-----\nMIIE, cut off", "(hidden)"},
      {"secret=\"never closed\nnext line", "secret=\"(hidden)\nnext line"},
      {"password=\xff\xfe\x00zz", "password=(hidden)"},
  };
  for (const auto& [text, expected] : kTable) {
    Redaction redaction;
    EXPECT_EQ(redaction.Apply(text), expected);
    EXPECT_EQ(redaction.hidden().size(), 1u) << text;
  }
}

TEST(RedactionTest, LeavesWhatADiagnosisNeeds) {
  for (const char* text :
       {"tokens=512 tokens/s: 3000.5 num_tokens: 7", "KeyError: 'layer.0.weight'",
        "KeyboardInterrupt", "tokenizer: bert-base", "step 12 loss 0.43",
        "http://host:80/path@2x.png", "https://example.com/?q=me@host",
        "basic training of bearer trees", "has_token: true", "{\"tokens\": [1, 2, 3]}",
        "ssh-keygen is missing", "password", "password=", "://", "key", "=:@", ""}) {
    Redaction redaction;
    EXPECT_EQ(redaction.Apply(text), text);
    EXPECT_TRUE(redaction.hidden().empty()) << text;
  }
}

TEST(RedactionTest, HidesTheJobsOwnSecretsInEveryTextOfItsRecord) {
  v1::JobRecord job;
  (*job.mutable_spec()->mutable_env())["WANDB_API_KEY"] = "0123456789abcdef";
  (*job.mutable_spec()->mutable_env())["PROXY"] = "http://me:pw@proxy";
  for (const char* word : {"train", "--api-key", "topsecret", "--lr", "1"})
    job.mutable_spec()->add_command(word);
  job.set_reason("login with 0123456789abcdef failed");
  job.add_attempts()->mutable_culprit()->set_last_lines("token=abc\nstep 1");
  Redaction redaction;
  redaction.LearnFrom(job.spec());
  EXPECT_EQ(redaction.Apply("WANDB_API_KEY=0123456789abcdef"), "WANDB_API_KEY=(hidden)");
  redaction.ApplyToTexts(&job);
  EXPECT_EQ(job.spec().env().at("WANDB_API_KEY"), "(hidden)");
  EXPECT_EQ(job.spec().env().at("PROXY"), "http://(hidden)@proxy");
  EXPECT_EQ(job.spec().command(2), "(hidden)");
  EXPECT_EQ(job.spec().command(4), "1");
  EXPECT_EQ(job.reason(), "login with (hidden) failed");
  EXPECT_EQ(job.attempts(0).culprit().last_lines(), "token=(hidden)\nstep 1");
}

// Neither a long line of names nor one of quotes may take quadratic time.
TEST(RedactionTest, NeedsLinearTimeForALongHostileLine) {
  std::string text;
  while (text.size() < 200'000) text += "key=\"://@bearer -----BEGIN ";
  Redaction redaction;
  EXPECT_FALSE(redaction.Apply(text).empty());
  EXPECT_FALSE(redaction.Apply(std::string(200'000, 'k')).empty());
}

}  // namespace
}  // namespace muster::client
