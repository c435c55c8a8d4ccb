// The command line of muster-coordinator (coordinator/flags.cc).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/config/config.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

ParsedFlags Parse(std::vector<std::string> words) {
  std::string name = "muster-coordinator";
  std::vector<char*> argv = {name.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return ParseFlags(static_cast<int>(words.size() + 1), argv.data());
}

// The first line of what a refused line is answered with.
std::string Refusal(const std::vector<std::string>& words) {
  const ParsedFlags parsed = Parse(words);
  EXPECT_TRUE(parsed.stop);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_NE(parsed.text.find("\n  fix: muster-coordinator --help lists all flags and commands\n"),
            std::string::npos);
  return parsed.text.substr(0, parsed.text.find('\n'));
}

TEST(CoordinatorFlags, WithoutListenTheSocketLiesInTheDataDirectory) {
  EXPECT_EQ(Parse({"--data-dir", "/d"}).config.socket, "/d/coordinator.sock");
  const ParsedFlags parsed =
      Parse({"--data-dir", "/d", "--listen", "127.0.0.1:7700", "--insecure-plaintext"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  EXPECT_EQ(parsed.config.socket, "");
  EXPECT_EQ(parsed.config.listen, "127.0.0.1:7700");
}

TEST(CoordinatorFlags, AWrongLineIsRefusedByName) {
  EXPECT_EQ(Refusal({}),
            "muster-coordinator: --data-dir is missing: name the directory to keep data in");
  EXPECT_EQ(Refusal({"--data-dri", "/d"}), "muster-coordinator: unknown: --data-dri /d");
  EXPECT_EQ(Refusal({"--data-dir"}), "muster-coordinator: --data-dir: 1 required TEXT missing");
  // The rest is CLI11's, whose releases differ.
  const std::string range = Refusal({"--data-dir", "/d", "--heartbeat-ms", "0"});
  EXPECT_TRUE(range.starts_with("muster-coordinator: --heartbeat-ms: Value 0 not in range"))
      << range;
  EXPECT_NE(range.find("604800000"), std::string::npos) << range;
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--listen", "a", "--insecure-plaintext"}),
            "muster-coordinator: --listen a has no port; write ADDR:PORT");
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--private"}),
            "muster-coordinator: --private needs --socket and --worker-state-dir");
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--heartbeat-ms", "2000", "--suspect-after-ms", "3999"}),
            "muster-coordinator: --suspect-after-ms 3999 must be at least twice --heartbeat-ms "
            "2000");
}

TEST(CoordinatorFlags, WhatBrowsersAreSentToIsAHostAndAPort) {
  const auto refusal = [](const std::string& advertised) {
    return Refusal({"--data-dir", "/d", "--listen", "127.0.0.1:7700", "--insecure-plaintext",
                    "--http", "127.0.0.1:7701", "--state", "etcd://127.0.0.1:2379/lab",
                    "--advertise-http", advertised});
  };
  for (const char* wrong : {"h1", "https://h1:7701", "h1:0", "h1:7701/"}) {
    EXPECT_EQ(refusal(wrong),
              common::StrCat("muster-coordinator: --advertise-http ", wrong, " is not HOST:PORT"));
  }
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--listen", "127.0.0.1:7700", "--insecure-plaintext",
                     "--state", "etcd://127.0.0.1:2379/lab", "--advertise-http", "h1:7701"}),
            "muster-coordinator: --advertise-http needs --http ADDR:PORT");
  const ParsedFlags parsed =
      Parse({"--data-dir", "/d", "--listen", "127.0.0.1:7700", "--insecure-plaintext", "--http",
             "127.0.0.1:7701", "--state", "etcd://127.0.0.1:2379/lab", "--advertise-http",
             "[fd00::1]:7701"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
}

TEST(CoordinatorFlags, TheQuotaOfCodeIsASizeAShareOrNone) {
  const auto quota = [](const std::string& text) {
    return Parse({"--data-dir", "/d", "--code-quota", text}).config.code_quota.Of(1'000);
  };
  EXPECT_EQ(Parse({"--data-dir", "/d"}).config.code_quota.bytes, 100'000'000'000u);
  EXPECT_EQ(quota("2TB"), 2'000'000'000'000u);
  EXPECT_EQ(quota("1.5GiB"), 1'610'612'736u);
  EXPECT_EQ(quota("10%"), 100u);
  EXPECT_EQ(quota("0"), 0u);
  EXPECT_EQ(
      Refusal({"--data-dir", "/d", "--code-quota", "100"}),
      "muster-coordinator: --code-quota: must be a size like 50GB, a share like 10%, or 0 for "
      "no limit");
}

TEST(CoordinatorFlags, AnIdentityProviderIsNamedWhollyAndOnlyWhereMembersAreKnown) {
  const TempDir directory;
  const std::string& data = directory.path();
  std::vector<std::string> all = {
      "--data-dir",       data,    "--http", "127.0.0.1:0", "--oidc-issuer", "https://id.example",
      "--oidc-client-id", "muster"};
  EXPECT_EQ(Refusal(all), "muster-coordinator: --oidc-issuer: " + data +
                              " is not of a cluster whose members are known; run "
                              "muster-coordinator init first");
  ASSERT_TRUE(common::WriteFileDurably(data + "/CLUSTER", "").ok());
  EXPECT_EQ(Parse(all).config.oidc.client_id, "muster");
  EXPECT_EQ(Parse(all).config.oidc.scope, "openid");
  EXPECT_EQ(Refusal({"--data-dir", data, "--oidc-issuer", "https://id.example", "--oidc-client-id",
                     "muster"}),
            "muster-coordinator: --oidc-issuer needs --http ADDR:PORT, where people sign in");
  EXPECT_EQ(Refusal({"--data-dir", data, "--oidc-client-id", "muster"}),
            "muster-coordinator: --oidc-client-id needs --oidc-issuer URL: whose client it is");
  EXPECT_EQ(
      Refusal({"--data-dir", data, "--http", "127.0.0.1:0", "--oidc-issuer", "https://id.example"}),
      "muster-coordinator: --oidc-issuer needs --oidc-client-id ID, which the provider gave "
      "this cluster");
  all[5] = "http://id.example";
  EXPECT_EQ(Refusal(all),
            "muster-coordinator: --oidc-issuer \"http://id.example\" is not encrypted: only https, "
            "or http to a loopback address");
  all[5] = "http://127.0.0.1:5";
  all.insert(all.end(), {"--oidc-scope", "email"});
  EXPECT_EQ(Refusal(all).find("muster-coordinator: --oidc-scope: words"), 0u);
}

TEST(CoordinatorFlags, APortWithoutEncryptionMustBeAskedFor) {
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--listen", "0.0.0.0:7700"})
                .find("muster-coordinator: --listen 0.0.0.0:7700 would serve without encryption"),
            0u);
}

TEST(CoordinatorFlags, HttpBeyondThisMachineMustBeAskedFor) {
  for (const char* address : {"0.0.0.0:7701", ":7701", "10.0.0.1:7701", "head:7701"}) {
    EXPECT_EQ(Refusal({"--data-dir", "/d", "--http", address})
                  .find(std::string("muster-coordinator: --http ") + address +
                        " would send sessions unencrypted"),
              0u);
    EXPECT_FALSE(Parse({"--data-dir", "/d", "--http", address, "--insecure-plaintext"}).stop);
  }
  const ParsedFlags parsed = Parse({"--data-dir", "/d", "--http", "127.0.0.1:7701", "--http",
                                    "unix:/d/http.sock", "--http-host", "head"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  EXPECT_EQ(parsed.config.http, (std::vector<std::string>{"127.0.0.1:7701", "unix:/d/http.sock"}));
  EXPECT_EQ(parsed.config.http_hosts, std::vector<std::string>{"head"});
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--http", "7701"}),
            "muster-coordinator: --http 7701 has no port; write ADDR:PORT, or unix:PATH");
  EXPECT_EQ(Refusal({"--data-dir", "/d", "--http-host", "head"}),
            "muster-coordinator: --http-host needs --http ADDR:PORT or --http unix:PATH");
}

TEST(CoordinatorFlags, HelpAndVersionNeedNoOtherFlag) {
  for (const char* flag : {"--help", "--version"}) {
    const ParsedFlags parsed = Parse({flag});
    EXPECT_TRUE(parsed.stop);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_EQ(parsed.text.find("muster-coordinator"), 0u) << parsed.text;
  }
}

}  // namespace
}  // namespace muster::coordinator
