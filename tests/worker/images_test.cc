// Images as values: names, manifests, devices, environments and bundles. That ranks run in them is
// shown by tests/e2e/images_test.py.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/job/image_name.h"
#include "common/text/strings.h"
#include "worker/containers/bundle.h"
#include "worker/containers/cdi.h"
#include "worker/containers/container_tools.h"
#include "worker/containers/device_files.h"
#include "worker/containers/find_in_image.h"
#include "worker/containers/image_manifest.h"
#include "worker/containers/rank_containers.h"
#include "worker/containers/tool_versions.h"

namespace muster::worker {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

const std::string kHex(64, 'a');

std::string Why(const absl::Status& status) { return std::string(status.message()); }

TEST(ImageNameTest, TellsWhereAnImageIs) {
  const auto registry = job::ParseImageName("docker.io/library/debian@sha256:" + kHex);
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(registry->kind, job::ImageName::Kind::kRegistry);
  EXPECT_EQ(registry->repository, "docker.io/library/debian");
  EXPECT_EQ(registry->digest, kHex);
  EXPECT_EQ(job::ParseImageName("localhost:5000/a/b:12@sha256:" + kHex)->repository,
            "localhost:5000/a/b");
  for (const char* local : {"base", "base:1", "localhost/base", "localhost/a/b:2", "team/base"}) {
    EXPECT_EQ(job::ParseImageName(local)->kind, job::ImageName::Kind::kLocal) << local;
  }
  EXPECT_EQ(job::ParseImageName("oci:/images/a:b")->directory, "/images/a:b");
}

TEST(ImageNameTest, RefusesWhatIsAmbiguousOrNoName) {
  const std::pair<std::string, std::string> refused[] = {
      {"docker.io/library/debian:12", "docker.io/library/debian@sha256:…"},
      {"debian@sha256:" + kHex, "docker.io/library/debian@sha256:" + kHex},
      {"docker.io/debian@sha256:" + std::string(64, 'A'), "64 lower-case hex digits"},
      {"docker.io/debian@sha256:aa", "64 lower-case hex digits"},
      {"oci:images", "absolute path"},
      {"oci:/images/../etc", "absolute path"},
      {"--help", "not the name"},
      {"a b", "not the name"},
      {"a/../b", "not the name"},
      {"", "not the name"},
      {"docker://debian", "not the name"},
      {std::string(600, 'a'), "too long"}};
  for (const auto& [name, words] : refused) {
    const auto parsed = job::ParseImageName(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_NE(Why(parsed.status()).find(words), std::string::npos) << Why(parsed.status());
  }
}

json Descriptor(const std::string& type = "application/vnd.oci.image.layer.v1.tar+gzip") {
  return {{"mediaType", type}, {"digest", "sha256:" + kHex}, {"size", 10}};
}

json Manifest() {
  return {{"schemaVersion", 2},
          {"config", Descriptor("application/vnd.oci.image.config.v1+json")},
          {"layers", json::array({Descriptor()})}};
}

TEST(ImageManifestTest, DockersLayersAreCalledWhatOciCallsThem) {
  json docker = Manifest();
  docker["layers"] = {Descriptor("application/vnd.docker.image.rootfs.diff.tar.gzip"),
                      Descriptor("application/vnd.docker.image.rootfs.diff.tar")};
  const auto parsed = ParseManifest(docker.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->layers[0].media_type, "application/vnd.oci.image.layer.v1.tar+gzip");
  EXPECT_EQ(parsed->layers[1].media_type, "application/vnd.oci.image.layer.v1.tar");
  const auto again = ParseManifest(ManifestJson(*parsed));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->layers.size(), 2u);
  EXPECT_TRUE(IsImageIndex(IndexJson(ManifestJson(*parsed))));
  EXPECT_EQ(ChooseManifest(IndexJson(ManifestJson(*parsed)))->size, ManifestJson(*parsed).size());
}

TEST(ImageManifestTest, RefusesWhatItCannotTrust) {
  std::vector<json> bad(8, Manifest());
  bad[0]["layers"][0]["digest"] = "sha256:../../etc/passwd";
  bad[1]["layers"][0]["digest"] = "sha512:" + kHex;
  bad[2]["layers"][0]["size"] = -1;
  bad[3]["layers"][0]["size"] = uint64_t{1} << 41;
  bad[4]["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+zstd";
  bad[5]["layers"] = json::array();
  for (int i = 0; i < 600; ++i) bad[5]["layers"].push_back(Descriptor());
  bad[6].erase("config");
  bad[7]["layers"] = "none";
  for (const json& manifest : bad) EXPECT_FALSE(ParseManifest(manifest.dump()).ok()) << manifest;
  for (const std::string text : {"", "[]", "{", "null", "{\"layers\": 3}"}) {
    EXPECT_FALSE(ParseManifest(text).ok()) << text;
    EXPECT_FALSE(ChooseManifest(text).ok()) << text;
    EXPECT_FALSE(ParseImageConfig(text).ok()) << text;
  }
  EXPECT_FALSE(ParseManifest(std::string(100'000, '[')).ok());
  EXPECT_FALSE(ParseManifest(std::string(5 << 20, ' ')).ok());
}

TEST(ImageManifestTest, AnIndexIsSearchedForThisMachine) {
  json other = Descriptor(), ours = Descriptor();
  other["platform"] = {{"architecture", "riscv64"}, {"os", "linux"}};
  ours["platform"] = {{"architecture", ImageArchitecture()}, {"os", "linux"}};
  ours["size"] = 11;
  json index = {{"manifests", {other, ours}}};
  EXPECT_EQ(ChooseManifest(index.dump())->size, 11u);
  index["manifests"] = {other};
  EXPECT_NE(Why(ChooseManifest(index.dump()).status()).find("only for riscv64"), std::string::npos);
}

TEST(ImageManifestTest, AConfigurationIsForThisMachineAndKeepsOnlyVariables) {
  json config = {{"architecture", ImageArchitecture()},
                 {"os", "linux"},
                 {"config", {{"Env", {"A=1", "=2", "B", "C=x=y"}}, {"WorkingDir", "/w"}}}};
  const auto parsed = ParseImageConfig(config.dump());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->env, (Texts{"A=1", "C=x=y"}));
  EXPECT_EQ(parsed->workdir, "/w");
  config["architecture"] = "s390x";
  EXPECT_NE(Why(ParseImageConfig(config.dump()).status()).find("on s390x, this node"),
            std::string::npos);
}

Texts EnvironmentOf(const Texts& image, const Texts& rank, const Texts& named,
                    const RankAccount& account = {}) {
  v1::JobSpec spec;
  for (const std::string& name : named) (*spec.mutable_env())[name] = "x";
  ReadyImage ready;
  ready.config.env = image;
  return EnvironmentIn(ready, spec, account, rank);
}

TEST(ImageEnvironmentTest, TheJobsVariablesComeBeforeTheImagesAndThoseBeforeTheNodes) {
  EXPECT_EQ(EnvironmentOf({"PATH=/image", "RANK=9", "ONLY=1", "HOME=/h"},
                          {"PATH=/node", "RANK=0", "HOME=/home/alice", "USER=alice"}, {}),
            (Texts{"HOME=/h", "ONLY=1", "PATH=/image", "RANK=0", "USER=alice"}));
  EXPECT_EQ(EnvironmentOf({"PATH=/image", "HOME=/h"}, {"PATH=/job", "HOME=/job"}, {"PATH", "HOME"}),
            (Texts{"HOME=/job", "PATH=/job"}));
}

TEST(ImageEnvironmentTest, AHomeOfTheNodeIsNotInAnImage) {
  const RankAccount alice{
      .ids = {true, 1000, 1000, {1000}}, .name = "alice", .home = "/home/alice"};
  EXPECT_EQ(EnvironmentOf({}, {"HOME=/home/alice"}, {}, alice), (Texts{"HOME=/tmp"}));
  EXPECT_EQ(EnvironmentOf({}, {"HOME=/root"}, {}), (Texts{"HOME=/root"}));
}

constexpr char kCdi[] = R"({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
  "containerEdits": {"env": ["A=1"], "mounts": [{"hostPath": "/usr/lib/libcuda.so", "containerPath": "/usr/lib/libcuda.so",
    "options": ["ro", "nosuid", "bind"]}], "deviceNodes": [{"path": "/dev/nvidiactl"}],
    "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk", "args": ["nvidia-ctk", "hook"]}]},
  "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
    {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1", "hostPath": "/dev/nvidia7"}]}}]})";

TEST(CdiTest, IsReadAsTheVendorWroteIt) {
  const auto spec = ParseCdi(kCdi);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->kind, "nvidia.com/gpu");
  ASSERT_EQ(spec->common.mounts.size(), 2u);
  EXPECT_TRUE(spec->common.mounts[0].is_device);
  EXPECT_TRUE(spec->common.mounts[1].read_only);
  EXPECT_EQ(spec->common.hooks.at(0).args, (Texts{"nvidia-ctk", "hook"}));
  EXPECT_EQ(spec->devices.at("1").mounts.at(0).source, "/dev/nvidia7");
}

TEST(CdiTest, RefusesWhatReachesElsewhere) {
  const std::pair<const char*, json> edits[] = {
      {"below /dev", {{"deviceNodes", {{{"path", "/etc/shadow"}}}}}},
      {"below /dev", {{"deviceNodes", {{{"path", "/dev/../etc/shadow"}}}}}},
      {"absolute paths", {{"mounts", {{{"hostPath", "lib"}, {"containerPath", "/lib"}}}}}},
      {"absolute paths", {{"mounts", {{{"hostPath", "/a/../b"}, {"containerPath", "/lib"}}}}}},
      {"not supported", {{"hooks", {{{"hookName", "prestart"}, {"path", "/bin/x"}}}}}},
      {"absolute path", {{"hooks", {{{"hookName", "createContainer"}, {"path", "x"}}}}}},
      {"not a string", {{"env", {1}}}}};
  for (const auto& [words, edit] : edits) {
    const json spec = {{"kind", "a/b"}, {"containerEdits", edit}};
    const auto parsed = ParseCdi(spec.dump());
    ASSERT_FALSE(parsed.ok()) << spec;
    EXPECT_NE(Why(parsed.status()).find(words), std::string::npos) << Why(parsed.status());
  }
  for (const std::string text :
       {"", "[]", "{}", "{\"kind\": 1}", "{\"kind\": \"a\", \"devices\": [1]}"})
    EXPECT_FALSE(ParseCdi(text).ok()) << text;
  EXPECT_FALSE(ParseCdi(std::string(50'000, '{')).ok());
}

class DeviceFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/images-XXXXXX";
    directory_ = mkdtemp(path);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }
  v1::NodePart Part(const std::vector<uint32_t>& indexes) {
    v1::NodePart part;
    part.set_device_kind("gpu");
    for (const uint32_t index : indexes) part.add_device_indexes(index);
    return part;
  }
  std::string directory_;
};

TEST_F(DeviceFilesTest, GrantedDevicesAndWhatTheyShareComeFromCdi) {
  Write("nvidia.json", kCdi);
  const auto edits = DeviceEdits(Part({1}), {directory_});
  ASSERT_TRUE(edits.ok()) << edits.status();
  Texts sources;
  for (const BundleMount& mount : edits->mounts) sources.push_back(mount.source);
  EXPECT_EQ(Texts(sources.begin(), sources.begin() + 3),
            (Texts{"/dev/nvidiactl", "/usr/lib/libcuda.so", "/dev/nvidia7"}));
  EXPECT_EQ(edits->hooks.size(), 1u);
  const auto missing = DeviceEdits(Part({5}), {directory_});
  EXPECT_NE(Why(missing.status()).find("has no device 5"), std::string::npos);
}

TEST_F(DeviceFilesTest, ADamagedCdiFileIsToldAndAMissingDeviceNamed) {
  const auto none = DeviceEdits(Part({4095}), {directory_});
  EXPECT_NE(Why(none.status()).find("/dev/nvidia4095 is not on the node"), std::string::npos);
  Write("nvidia.json", "{");
  const auto damaged = DeviceEdits(Part({0}), {directory_});
  EXPECT_NE(Why(damaged.status()).find(directory_ + "/nvidia.json: it is not a JSON object"),
            std::string::npos)
      << damaged.status();
}

TEST_F(DeviceFilesTest, InAContainerGrantedDevicesCountFromZero) {
  Texts env = {"CUDA_VISIBLE_DEVICES=5,2", "OTHER=5,2"};
  RenumberDevices(Part({2, 5, 7}), &env);
  EXPECT_EQ(env, (Texts{"CUDA_VISIBLE_DEVICES=1,0", "OTHER=5,2"}));
}

TEST(BundleTest, IsWhatTheRuntimeGets) {
  Bundle bundle{.root = "/s/root",
                .shm = "/s/shm",
                .processes = "/s/p",
                .argv = {"python", "train.py"},
                .env = {"RANK=0"},
                .workdir = "/w",
                .uid = 1000,
                .gid = 100,
                .groups = {100, 7},
                .covers = {"/var/lib/muster"},
                .mounts = {{.source = "/dev/nvidia0", .target = "/dev/nvidia0", .is_device = true},
                           {.source = "/s/mounts/0", .target = "/data", .read_only = true}},
                .hooks = {{.path = "/bin/hook", .args = {"hook", "x"}, .env = {}}}};
  const json config = json::parse(BundleJson(bundle));
  EXPECT_EQ(config["process"]["user"],
            (json{{"uid", 1000}, {"gid", 100}, {"additionalGids", {100, 7}}}));
  EXPECT_EQ(config["process"]["noNewPrivileges"], true);
  for (const auto& [set, held] : config["process"]["capabilities"].items())
    EXPECT_EQ(held, json::array()) << set;
  EXPECT_EQ(config["root"]["path"], "/s/root");
  EXPECT_EQ(
      config["linux"]["namespaces"],
      json::parse(R"([{"type": "mount"}, {"type": "uts"}, {"type": "pid", "path": "/s/p"}])"));
  EXPECT_FALSE(config["linux"].contains("resources"));
  EXPECT_EQ(config["linux"]["seccomp"]["defaultAction"], "SCMP_ACT_ALLOW");
  std::map<std::string, json> mounts;
  for (const json& mount : config["mounts"]) mounts[mount["destination"]] = mount["options"];
  EXPECT_EQ(mounts.at("/data"), (json{"rbind", "rnosuid", "rro", "rnodev"}));
  EXPECT_EQ(mounts.at("/dev/nvidia0"), (json{"rbind", "rnosuid", "rw"}));
  EXPECT_TRUE(mounts.contains("/var/lib/muster"));
  EXPECT_EQ(config["hooks"]["createContainer"][0]["path"], "/bin/hook");
  bundle.hooks.clear();
  EXPECT_FALSE(json::parse(BundleJson(bundle)).contains("hooks"));
}

TEST(FindInImageTest, AMountPointIsNamedWithoutLinks) {
  char path[] = "/tmp/images-XXXXXX";
  const std::string root = mkdtemp(path);
  std::filesystem::create_directories(root + "/usr/bin");
  const std::pair<const char*, const char*> links[] = {{"usr/bin", "bin"},
                                                       {"/run", "var-run"},
                                                       {"../../../../usr", "up"},
                                                       {"around", "circle"},
                                                       {"circle", "around"},
                                                       {"/bin", "usr/more"},
                                                       {"/etc/passwd", "usr/bin/file"}};
  for (const auto& [to, from] : links) {
    ASSERT_EQ(symlink(to, (root + "/" + from).c_str()), 0);
  }
  const int fd = open(root.c_str(), O_PATH | O_DIRECTORY);
  const std::pair<const char*, const char*> found[] = {{"/", "/"},
                                                       {"/data", "/data"},
                                                       {"/bin", "/usr/bin"},
                                                       {"/bin/x/y", "/usr/bin/x/y"},
                                                       {"/var-run/x", "/run/x"},
                                                       {"/up/bin/../more/z", "/usr/bin/z"},
                                                       {"/bin/file", "/etc/passwd"},
                                                       {"/../..//./data/", "/data"}};
  for (const auto& [asked, is] : found) EXPECT_EQ(PathWithoutLinks(fd, asked), is) << asked;
  EXPECT_EQ(PathWithoutLinks(fd, "/circle/x"), std::nullopt);
  close(fd);
  std::filesystem::remove_all(root);
}

TEST(FindInImageTest, LinksStayInside) {
  char path[] = "/tmp/images-XXXXXX";
  const std::string root = mkdtemp(path);
  std::filesystem::create_directories(root + "/usr/bin");
  std::ofstream(root + "/usr/bin/tool") << "x";
  chmod((root + "/usr/bin/tool").c_str(), 0755);
  std::ofstream(root + "/usr/bin/data") << "x";
  std::filesystem::create_symlink("/usr/bin", root + "/bin");
  std::filesystem::create_symlink("/../../../../bin", root + "/up");
  const common::UniqueFd fd(open(root.c_str(), O_PATH | O_DIRECTORY));
  EXPECT_EQ(FindProgramIn(fd.get(), "/no:/bin", "/", "tool"), "/bin/tool");
  EXPECT_EQ(FindProgramIn(fd.get(), "/bin", "/", "data"), "") << "not executable";
  EXPECT_EQ(FindProgramIn(fd.get(), "", "/usr", "bin/tool"), "/usr/bin/tool");
  EXPECT_EQ(FindProgramIn(fd.get(), "/up", "/", "sh"), "") << "the node's sh is outside";
  EXPECT_EQ(FindProgramIn(fd.get(), "/up", "/", "tool"), "/up/tool");
  EXPECT_TRUE(IsDirectoryIn(fd.get(), "/bin"));
  EXPECT_FALSE(IsDirectoryIn(fd.get(), "/bin/tool"));
  std::filesystem::remove_all(root);
}

class SystemPathsTest : public testing::Test {
 protected:
  SystemPathsTest() {
    char name[] = "/tmp/imgXXXXXX";
    root_ = mkdtemp(name);
    for (const char* path : {"usr/bin", "usr/lib", "run"})
      std::filesystem::create_directories(root_ + "/" + path);
    std::ofstream(root_ + "/usr/bin/true") << "x";
    chmod((root_ + "/usr/bin/true").c_str(), 0755);
    // As Debian has them.
    std::filesystem::create_directory_symlink("usr/bin", root_ + "/bin");
    std::filesystem::create_directory_symlink("usr/lib", root_ + "/lib");
    std::filesystem::create_directory(root_ + "/var");
    std::filesystem::create_directory_symlink("/run", root_ + "/var/run");
  }
  ~SystemPathsTest() override { std::filesystem::remove_all(root_); }
  // Why a rank is not started in it; empty: it would be.
  std::string Problem() {
    const ContainerPlace place{.node = "n1", .directory = root_ + "-place"};
    ReadyImage image;
    image.name = "base";
    image.root = root_;
    std::vector<common::RankLaunch> ranks(1);
    ranks[0].argv = {"/bin/true"};
    const auto problem = CheckContainers(place, image, v1::JobSpec(), v1::NodePart(), RankAccount(),
                                         PreparedPlace(), &ranks);
    return problem ? problem->text : "";
  }
  std::string root_;
};

TEST_F(SystemPathsTest, AnImageWhoseDevLeadsToTheNodeIsRefused) {
  EXPECT_EQ(Problem(), "") << "a minimal image has none of them";
  for (const char* name : {"dev", "proc", "sys"})
    std::filesystem::create_directory(root_ + "/" + name);
  EXPECT_EQ(Problem(), "") << "links elsewhere are ordinary";
  for (const std::string name : {"dev", "proc", "sys"}) {
    for (const char* target : {"/etc/sudoers.d", "../../etc", "run", "/nowhere"}) {
      std::filesystem::remove(root_ + "/" + name);
      std::filesystem::create_symlink(target, root_ + "/" + name);
      EXPECT_EQ(Problem(), "node n1 cannot run the image base: its /" + name +
                               " is not a directory but a link or a file; fix: make the image with "
                               "an empty directory /" +
                               name);
    }
    std::filesystem::remove(root_ + "/" + name);
    std::ofstream(root_ + "/" + name) << "x";
    EXPECT_NE(Problem(), "") << "a file";
    std::filesystem::remove(root_ + "/" + name);
    std::filesystem::create_directory(root_ + "/" + name);
  }
  EXPECT_EQ(Problem(), "");
}

TEST(ContainerFactsTest, WhatIsMissingHasAReasonAndAFix) {
  ContainerHost host{.tools = {.runc = "/r", .umoci = "/u", .skopeo = "/s", .podman = "/p"},
                     .is_root = true,
                     .may_mount = true,
                     .has_overlay = true};
  const auto version = [](const std::string& path) { return path == "/r" ? "1.1.5" : "2"; };
  const v1::ContainerFacts all = DescribeContainers(host, version);
  EXPECT_EQ(all.runtime(), "runc 1.1.5");
  EXPECT_EQ(all.fetcher(), "skopeo 2 and umoci 2");
  EXPECT_EQ(all.lacks_size(), 0);
  host.tools.skopeo = host.tools.podman = "";
  EXPECT_EQ(DescribeContainers(host, version).fetcher(), "");
  EXPECT_EQ(DescribeContainers(host, version).lacks_size(), 2);
  const auto why = [&] { return DescribeContainers(host, version).lacks(0); };
  host.has_overlay = false;
  EXPECT_NE(why().find("modprobe overlay"), std::string::npos);
  host.may_mount = false;
  EXPECT_NE(why().find("CAP_SYS_ADMIN"), std::string::npos);
  host.is_root = false;
  EXPECT_NE(why().find("not root"), std::string::npos);
  host.tools.runc = "";
  EXPECT_NE(why().find("install it (Debian: runc)"), std::string::npos);
  EXPECT_EQ(DescribeContainers(host, version).runtime(), "");
  host.has_docker = true;
  EXPECT_EQ(DescribeContainers(host, version).lacks_size(), 2);
}

TEST(ContainerFactsTest, AVersionIsFoundInWhatToolsPrint) {
  EXPECT_EQ(VersionIn("runc version 1.1.5+ds1\ncommit: 1.1\n"), "1.1.5");
  EXPECT_EQ(VersionIn("podman version 4.3.1\n"), "4.3.1");
  EXPECT_EQ(VersionIn("none"), "");
}

TEST(ContainerFactsTest, AToolIsAskedAgainOnceItsFileHasChanged) {
  char name[] = "/tmp/tool-versions-XXXXXX";
  const std::string directory = mkdtemp(name);
  const std::string tool = directory + "/tool", kept = directory + "/versions";
  std::ofstream(tool) << "one";
  int asked = 0;
  const auto version = [&] {
    ToolVersions versions(kept, [&](const std::string&) { return "1." + std::to_string(++asked); });
    const std::string found = versions.Of(tool);
    versions.Save();
    return found;
  };
  EXPECT_EQ(version(), "1.1");
  EXPECT_EQ(version(), "1.1");
  std::ofstream(tool) << "another";
  EXPECT_EQ(version(), "1.2");
  std::ofstream(kept) << "no file of ours\tnone\n\t\n";
  EXPECT_EQ(version(), "1.3");
  std::filesystem::remove(tool);
  EXPECT_EQ(version(), "1.4");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace muster::worker
