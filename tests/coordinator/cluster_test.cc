#include "coordinator/identity/cluster.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "common/files/files.h"
#include "common/problem.h"
#include "coordinator/calls/sealed_environment.h"
#include "coordinator/identity/seal.h"
#include "temp_dir.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kFoundedMs = 1'790'000'000'000;

class ClusterTest : public testing::Test {
 protected:
  Cluster::Founding Founding(const std::string& name = "lab") {
    return {.data_dir = data_, .name = name, .keys_dir = "", .host_names = {"head", "10.0.0.1"}};
  }

  TempDir dir_;
  const std::string data_ = dir_.path() + "/data";
  const std::string keys_ = data_ + "-keys";
};

TEST_F(ClusterTest, ADataDirectoryWithoutInitHasNone) {
  const auto none = Cluster::Open(dir_.path(), "", kFoundedMs);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
}

TEST_F(ClusterTest, KeysLieOutsideTheDataAndAreTheirOwnersAlone) {
  const auto made = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->keys_dir(), keys_);
  for (const char* name : {"/ca.key", "/secrets.key"}) {
    struct stat info {};
    ASSERT_EQ(stat((keys_ + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
  EXPECT_EQ(common::ListDirectory(data_)->size(), 1u) << "only CLUSTER";
  const auto inside = Founding();
  EXPECT_FALSE(Cluster::Found({.data_dir = dir_.path() + "/other",
                               .name = "lab",
                               .keys_dir = dir_.path() + "/other/keys",
                               .host_names = {}},
                              kFoundedMs)
                   .ok());
}

TEST_F(ClusterTest, ItIsFoundedOnceAndOpenedAgain) {
  const auto made = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Cluster::Found(Founding(), kFoundedMs).status().code(),
            absl::StatusCode::kAlreadyExists);
  const auto opened = Cluster::Open(data_, "", kFoundedMs);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->authority().Fingerprint(), (*made)->authority().Fingerprint());
}

TEST_F(ClusterTest, ASecondCoordinatorSharesTheKeys) {
  const auto first = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(first.ok()) << first.status();
  auto founding = Founding();
  founding.data_dir = dir_.path() + "/second";
  founding.keys_dir = keys_;
  const auto second = Cluster::Found(founding, kFoundedMs);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*first)->authority().Fingerprint(), (*second)->authority().Fingerprint());
  founding.data_dir = dir_.path() + "/third";
  founding.name = "other";
  EXPECT_EQ(common::CodeOf(Cluster::Found(founding, kFoundedMs).status()), "JC1325");
}

TEST_F(ClusterTest, AKeyThatOthersMayReadIsNotUsed) {
  ASSERT_TRUE(Cluster::Found(Founding(), kFoundedMs).ok());
  ASSERT_EQ(chmod((keys_ + "/ca.key").c_str(), 0644), 0);
  EXPECT_EQ(common::CodeOf(Cluster::Open(data_, "", kFoundedMs).status()), "JC1325");
}

// No process can make a file grow meanwhile: as in a unit that may not write the keys' directory.
class NoFileGrows {
 public:
  NoFileGrows() {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoFileGrows() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

TEST_F(ClusterTest, ACertificateThatCannotBeRenewedIsUsedUntilItEnds) {
  ASSERT_TRUE(Cluster::Found(Founding(), kFoundedMs).ok());
  constexpr int64_t kDayMs = 24LL * 3'600'000;
  const int64_t due_ms = kFoundedMs + 61 * kDayMs, over_ms = kFoundedMs + 91 * kDayMs;
  absl::StatusOr<std::unique_ptr<Cluster>> due, over;
  absl::StatusOr<bool> again;
  {
    const NoFileGrows unwritable;
    due = Cluster::Open(data_, "", due_ms);
    over = Cluster::Open(data_, "", over_ms);
    if (due.ok()) again = (*due)->RenewIfDue(due_ms + 1);
  }
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_FALSE(*again);
  const Cluster::CertificateState failed = (*due)->Certificate();
  EXPECT_EQ(failed.failed_renewals, 2u);
  EXPECT_GT(failed.not_after_ms, due_ms);
  EXPECT_EQ(common::CodeOf(failed.why), "JC1370") << failed.why;
  EXPECT_EQ(common::CodeOf(over.status()), "JC1370") << over.status();
  EXPECT_NE(over.status().message().find("ReadWritePaths=" + keys_), std::string::npos);
  EXPECT_TRUE(*(*due)->RenewIfDue(due_ms + 2)) << "as soon as it can";
  EXPECT_TRUE((*due)->Certificate().why.ok());
  EXPECT_GT((*due)->Certificate().not_after_ms, over_ms);
}

TEST_F(ClusterTest, TheCoordinatorsCertificateIsRenewedInTime) {
  const auto made = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(made.ok());
  Cluster& cluster = **made;
  const std::string before = *common::ReadFile(cluster.certificate_file());
  EXPECT_FALSE(*cluster.RenewIfDue(kFoundedMs + Cluster::kServerLivesMs / 2));
  EXPECT_TRUE(*cluster.RenewIfDue(kFoundedMs + Cluster::kServerLivesMs * 3 / 4));
  const std::string after = *common::ReadFile(cluster.certificate_file());
  EXPECT_NE(before, after);
  const auto facts = cluster.authority().FactsIfIssued(after);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->subject.kind, identity::Kind::kCoordinator);
}

TEST_F(ClusterTest, AHashOfWhatIsSecretNeedsTheKey) {
  const auto made = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(made.ok());
  const uint64_t hash = (*made)->KeyedHash("environment of a job", "TOKEN=1");
  EXPECT_EQ((*made)->KeyedHash("environment of a job", "TOKEN=1"), hash);
  EXPECT_NE((*made)->KeyedHash("environment of a job", "TOKEN=2"), hash);
  EXPECT_NE((*made)->KeyedHash("something else", "TOKEN=1"), hash);
  Cluster::Founding other = Founding();
  other.data_dir += "-other";
  other.keys_dir = other.data_dir + "-keys";
  const auto second = Cluster::Found(other, kFoundedMs);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*second)->KeyedHash("environment of a job", "TOKEN=1"), hash);
}

TEST_F(ClusterTest, WhatIsSealedIsOpenedWithTheSameKeyAndPurposeAlone) {
  const auto made = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(made.ok());
  const std::string sealed = (*made)->Seal("secret alice/token", "hf_12345");
  EXPECT_EQ(sealed.find("hf_12345"), std::string::npos);
  EXPECT_EQ(*(*made)->Unseal("secret alice/token", sealed), "hf_12345");
  EXPECT_FALSE((*made)->Unseal("secret bob/token", sealed).ok());
  EXPECT_FALSE(UnsealWith(std::string(kSealKeyBytes, 'k'), "secret alice/token", sealed).ok());
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string broken = sealed;
    broken[i] ^= 1;
    EXPECT_FALSE((*made)->Unseal("secret alice/token", broken).ok()) << i;
    EXPECT_FALSE((*made)->Unseal("secret alice/token", sealed.substr(0, i)).ok()) << i;
  }
}

TEST_F(ClusterTest, OfAnEnvironmentThePathAndTheDeclaredPrecisionStayInClear) {
  const auto made = Cluster::Found(Founding(), kFoundedMs);
  ASSERT_TRUE(made.ok());
  const auto sealed = [&](const std::string& precision) {
    SubmitInput input;
    v1::JobSpec& spec = *input.request.mutable_spec();
    spec.add_command("train");
    spec.set_workdir("/w");
    spec.mutable_shape()->set_processes(1);
    spec.mutable_env()->insert(
        {{"PATH", "/bin"}, {"TOKEN", "t"}, {"ACCELERATE_MIXED_PRECISION", precision}});
    EXPECT_TRUE(SealEnvironment(made->get(), &input).ok());
    return spec;
  };
  v1::JobSpec spec = sealed("bf16");
  EXPECT_EQ(spec.env().size(), 2u);
  EXPECT_EQ(spec.env().at("ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_TRUE(OpenEnvironment(made->get(), &spec).ok());
  EXPECT_EQ(spec.env().size(), 3u);
  // Anything else may be a secret.
  EXPECT_EQ(sealed("hf_12345").env().size(), 1u);
}

}  // namespace
}  // namespace muster::coordinator
