#include "coordinator/identity/admission.h"

#include <gtest/gtest.h>

#include <map>

#include "common/problem.h"
#include "coordinator/identity/ownership.h"
#include "identity/certificate.h"

namespace muster::coordinator {
namespace {

using common::Call;
using common::FindCall;
using identity::Authority;
using identity::Kind;
using identity::PrivateKey;

constexpr int64_t kToday = 1'790'000'000'000;
constexpr int64_t kDay = 86'400'000;

const Call& CallNamed(std::string_view name) {
  const Call* call = FindCall("JobService", name);
  return call != nullptr ? *call : *FindCall("WorkerService", name);
}

class AdmissionTest : public testing::Test {
 protected:
  Admission::Options Options(bool is_private = false) {
    return {
        .is_private = is_private,
        .own_uid = 500,
        .cluster = "lab",
        .people = {.user = [this](std::string_view name) -> std::optional<v1::User> {
                     const auto found = users_.find(std::string(name));
                     if (found == users_.end()) return std::nullopt;
                     return found->second;
                   },
                   .is_revoked = [this](std::string_view serial) { return serial == revoked_; }}};
  }
  void Add(const std::string& name, v1::Role role) {
    users_[name].set_name(name);
    users_[name].set_role(role);
  }
  std::string CertificateFor(const Authority& authority, Kind kind, const std::string& name) {
    return authority
        .Issue({.key = PrivateKey::Generate().handle(),
                .subject = {kind, name},
                .now_ms = kToday,
                .lives_ms = kDay,
                .dns_names = {}})
        .pem;
  }

  std::map<std::string, v1::User> users_;
  std::string revoked_;
  const Authority lab_ = Authority::Create("lab", kToday);
};

TEST_F(AdmissionTest, OverTheSocketTheKernelSaysWhoItIs) {
  const Admission shared(Options());
  EXPECT_EQ(shared.OfLocal(0).role, v1::ROLE_ADMIN);
  EXPECT_EQ(shared.OfLocal(500).role, v1::ROLE_ADMIN);
  EXPECT_EQ(shared.OfLocal(1000).role, v1::ROLE_USER);
  Add("uid:1000", v1::ROLE_OPERATOR);
  EXPECT_EQ(shared.OfLocal(1000).role, v1::ROLE_OPERATOR);
  users_["uid:1000"].set_disabled(true);
  EXPECT_EQ(shared.OfLocal(1000).role, v1::ROLE_UNSPECIFIED);
  const Admission own(Options(/*is_private=*/true));
  EXPECT_EQ(own.OfLocal(500).role, v1::ROLE_ADMIN);
  EXPECT_EQ(own.OfLocal(1000).role, v1::ROLE_UNSPECIFIED);
}

TEST_F(AdmissionTest, APlaintextPeerIsItsAddressWithoutThePort) {
  const Admission open(Admission::Options{});
  for (const auto& [from, principal] :
       std::map<std::string, std::string>{{"10.0.0.7:1", "peer:10.0.0.7"},
                                          {"10.0.0.7", "peer:10.0.0.7"},
                                          {"[2001:db8::7]:1", "peer:[2001:db8::7]"},
                                          {"[2001:db8::7]", "peer:[2001:db8::7]"}}) {
    EXPECT_EQ(open.OfPlaintext(from).principal, principal) << from;
  }
}

TEST_F(AdmissionTest, ACertificateSaysWhoItIsAndTheRecordWhatItMayDo) {
  const Admission admission(Options());
  Add("alice", v1::ROLE_VIEWER);
  const std::string pem = CertificateFor(lab_, Kind::kUser, "alice");
  const auto alice = admission.OfCertificate(pem, "10.0.0.7:1", kToday);
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(alice->principal, "user:alice");
  EXPECT_EQ(alice->role, v1::ROLE_VIEWER);
  EXPECT_FALSE(alice->serial.empty());
  EXPECT_EQ(alice->until_ms, kToday + kDay);
  Add("alice", v1::ROLE_ADMIN);
  EXPECT_EQ(admission.OfCertificate(pem, "", kToday)->role, v1::ROLE_ADMIN)
      << "a changed role counts at once";
  const auto node = admission.OfCertificate(CertificateFor(lab_, Kind::kWorker, "n1"), "", kToday);
  EXPECT_EQ(node->principal, "worker:n1");
  EXPECT_EQ(node->role, v1::ROLE_WORKER);
}

TEST_F(AdmissionTest, WhatIsRevokedExpiredOrForeignIsNotAccepted) {
  const Admission admission(Options());
  Add("alice", v1::ROLE_USER);
  const std::string pem = CertificateFor(lab_, Kind::kUser, "alice");
  const auto code = [&](std::string_view certificate, int64_t now_ms) {
    return common::CodeOf(admission.OfCertificate(certificate, "", now_ms).status());
  };
  EXPECT_EQ(code(pem, kToday), "");
  EXPECT_EQ(code(pem, kToday + kDay), "JC1324");
  EXPECT_EQ(code(CertificateFor(Authority::Create("other", kToday), Kind::kUser, "alice"), kToday),
            "JC1324");
  EXPECT_EQ(code(CertificateFor(lab_, Kind::kUser, "nobody"), kToday), "JC1324");
  EXPECT_EQ(code(lab_.certificate_pem(), kToday), "JC1324");
  EXPECT_EQ(code("", kToday), "JC1324");
  revoked_ = admission.OfCertificate(pem, "", kToday)->serial;
  EXPECT_EQ(code(pem, kToday), "JC1324");
  revoked_.clear();
  users_["alice"].set_disabled(true);
  EXPECT_EQ(code(pem, kToday), "JC1324");
  EXPECT_EQ(common::ProblemOf(admission.OfCertificate(pem, "", kToday).status()).fix,
            "an administrator enables it: jobctl user enable alice");
}

TEST_F(AdmissionTest, ARefusalNamesTheCallerItsRoleAndTheOneItNeeds) {
  const Admission admission(Options());
  const Caller viewer{"user:bob", v1::ROLE_VIEWER, "10.0.0.7:1", "ab"};
  const absl::Status refused = admission.Admit(CallNamed("CancelJobs"), viewer);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(common::ProblemOf(refused).what, "user:bob (viewer) may not cancel jobs");
  EXPECT_EQ(common::ProblemOf(refused).why, "it needs the role user");
  EXPECT_TRUE(admission.Admit(CallNamed("GetJob"), viewer).ok());
}

TEST_F(AdmissionTest, WorkersArePeopleOnlyWhereNobodyIsCertified) {
  const Admission admission(Options());
  const Call& connect = CallNamed("Connect");
  EXPECT_TRUE(admission.Admit(connect, admission.OfLocal(0)).ok());
  EXPECT_FALSE(admission.Admit(connect, admission.OfPlaintext("10.0.0.7:1")).ok());
  const Admission open(Admission::Options{});
  EXPECT_TRUE(open.Admit(connect, open.OfPlaintext("10.0.0.7:1")).ok());
  EXPECT_FALSE(admission.Admit(connect, admission.OfLocal(1000)).ok());
  EXPECT_FALSE(admission.Admit(connect, {"user:root", v1::ROLE_ADMIN, "10.0.0.7:1", "ab"}).ok())
      << "an administrator is not a worker";
  const Caller worker{"worker:n1", v1::ROLE_WORKER, "10.0.0.7:1", "ab"};
  EXPECT_TRUE(admission.Admit(connect, worker).ok());
  EXPECT_FALSE(admission.Admit(CallNamed("ListJobs"), worker).ok());
}

TEST(OwnershipTest, AJobIsChangedByItsOwnerOrAnOperator) {
  v1::JobRecord job;
  job.set_name("train-7");
  job.set_owner("user:alice");
  EXPECT_TRUE(CheckMayChange({"user:alice", v1::ROLE_USER, "", ""}, job).ok());
  EXPECT_TRUE(CheckMayChange({"user:carol", v1::ROLE_OPERATOR, "", ""}, job).ok());
  const absl::Status refused = CheckMayChange({"user:bob", v1::ROLE_USER, "", ""}, job);
  EXPECT_EQ(common::ProblemOf(refused).what,
            "job train-7 is user:alice's, and user:bob (user) may not change it");
}

TEST(OwnershipTest, WhoHasTheNameOfARemovedOwnerIsAnybody) {
  v1::JobRecord job;
  job.set_name("train-7");
  job.set_owner("user:alice");
  job.set_owner_id("5f0c");
  (*job.mutable_spec()->mutable_env())["HF_TOKEN"] = "hf_1";
  job.set_spec_hash(7);
  Caller alice{"user:alice", v1::ROLE_USER, "", ""};
  for (const char* id : {"", "77aa"}) {
    alice.user_id = id;
    EXPECT_FALSE(IsOwner(alice, job));
    EXPECT_EQ(common::ProblemOf(CheckMayChange(alice, job)).what,
              "job train-7 is that of an earlier user:alice, who was removed, and user:alice "
              "(user) may not change it");
    EXPECT_FALSE(CheckMayRunCommands(alice, 1, job).ok());
    v1::JobRecord seen = job;
    HideFromOthers(alice, seen);
    EXPECT_EQ(seen.spec().env().at("HF_TOKEN"), kHiddenValue);
    EXPECT_EQ(seen.spec_hash(), 0u) << "guesses of values could be compared with it";
  }
  alice.user_id = "5f0c";
  EXPECT_TRUE(CheckMayChange(alice, job).ok());
}

TEST(OwnershipTest, TheEnvironmentsValuesAndTheWebhooksPathsAreTheOwnersAlone) {
  v1::JobRecord job;
  job.set_owner("user:alice");
  (*job.mutable_spec()->mutable_env())["HF_TOKEN"] = "hf_1";
  job.mutable_spec()->add_notify()->set_webhook("https://hooks.example:8443/T0/B0/token");
  job.mutable_spec()->add_notify()->add_command("echo");
  for (const v1::Role role : {v1::ROLE_VIEWER, v1::ROLE_OPERATOR, v1::ROLE_ADMIN}) {
    v1::JobRecord seen = job;
    HideFromOthers({"user:carol", role, "", ""}, seen);
    EXPECT_EQ(seen.spec().env().at("HF_TOKEN"), kHiddenValue);
    EXPECT_EQ(seen.spec().notify(0).webhook(), "https://hooks.example:8443/(hidden)");
    EXPECT_EQ(seen.spec().notify(1).command(0), "echo");
  }
  v1::JobRecord seen = job;
  HideFromOthers({"user:alice", v1::ROLE_USER, "", ""}, seen);
  EXPECT_EQ(seen.ShortDebugString(), job.ShortDebugString());
}

TEST(OwnershipTest, OfHiddenCodeTheSizeAloneIsLeft) {
  v1::JobRecord job;
  HideCode(job);
  EXPECT_FALSE(job.spec().has_code()) << "there is none";
  v1::CodeTree& code = *job.mutable_spec()->mutable_code();
  code.set_tree("aa");
  code.set_placement("bb");
  code.set_git_commit("cc");
  code.set_from("laptop:/home/alice/vit");
  code.set_files(3);
  code.set_bytes(10);
  HideCode(job);
  EXPECT_EQ(job.spec().code().ShortDebugString(), "files: 3 bytes: 10");
}

}  // namespace
}  // namespace muster::coordinator
