// What is only true of objects in a shared directory: where they lie, and what a killed coordinator leaves.
#include "coordinator/object_files/object_files.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <filesystem>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"
#include "common/text/strings.h"
#include "tests/coordinator/temp_dir.h"

namespace {
bool has_links = true;  // false: as on a file system without
}

// The program's only definition.
extern "C" int link(const char* from, const char* to) noexcept {
  if (has_links) return static_cast<int>(syscall(SYS_link, from, to));
  errno = EPERM;
  return -1;
}

namespace muster::coordinator {
namespace {

using absl::StatusCode;
using common::StrCat;

class ObjectFilesTest : public ::testing::Test {
 protected:
  const TempDir dir_;
  const std::unique_ptr<Objects> store_ = *ObjectFiles::Open(dir_.path());
};

TEST_F(ObjectFilesTest, AnObjectIsTheFileOfItsKey) {
  ASSERT_TRUE(store_->Put("logs/j/1", std::string_view("line\n")).ok());
  EXPECT_EQ(*common::ReadFile(dir_.path() + "/logs/j/1"), "line\n");
  EXPECT_TRUE(common::ListDirectory(dir_.path() + "/.uploads")->empty());
  ASSERT_TRUE(store_->Delete({"logs/j/1"}).ok());
  EXPECT_FALSE(common::Exists(dir_.path() + "/logs")) << "directories are not objects";
}

TEST_F(ObjectFilesTest, WhatAKilledPutLeavesIsListedAndAborted) {
  const std::string id(32, 'a');
  const std::string folder = StrCat(dir_.path(), "/.uploads/", id);
  ASSERT_TRUE(common::MakeDirectories(folder).ok());
  auto open = store_->OpenUploads("");
  ASSERT_EQ(open->uploads.size(), 1u) << "killed before it wrote its key";
  EXPECT_EQ(open->uploads[0].upload.key, "");
  ASSERT_TRUE(common::WriteFileAtomically(folder + "/key", "k").ok());
  ASSERT_TRUE(common::WriteFileAtomically(folder + "/.part-00001-0123", "half").ok());
  open = store_->OpenUploads("");
  EXPECT_EQ(open->uploads[0].upload.key, "k");
  EXPECT_TRUE(store_->Parts(open->uploads[0].upload)->empty());
  EXPECT_TRUE(store_->Abort(open->uploads[0].upload).ok());
  EXPECT_FALSE(common::Exists(folder));
}

TEST_F(ObjectFilesTest, ACompletionThatWasKilledAfterItPlacedTheObjectIsRepeated) {
  const auto upload = store_->BeginUpload("k");
  const auto part = store_->PutPart(*upload, 1, std::string_view("bytes"));
  ASSERT_TRUE(common::WriteFileAtomically(dir_.path() + "/k", "bytes").ok());
  EXPECT_TRUE(store_->Complete(*upload, {*part}).ok());
  EXPECT_TRUE(store_->OpenUploads("")->uploads.empty());
}

TEST_F(ObjectFilesTest, APartThatWasSentAgainIsNoticed) {
  const auto upload = store_->BeginUpload("k");
  const auto before = store_->PutPart(*upload, 1, std::string_view("first"));
  ASSERT_TRUE(store_->PutPart(*upload, 1, std::string_view("other")).ok());
  EXPECT_EQ(store_->Complete(*upload, {*before}).code(), StatusCode::kInvalidArgument);
}

TEST_F(ObjectFilesTest, PagesHoldAThousandKeys) {
  std::vector<std::string> keys;
  for (int i = 0; i < 2'100; ++i) {
    char name[32];
    snprintf(name, sizeof name, "%02d/%04d", i / 100, i);
    keys.push_back(name);
    ASSERT_TRUE(common::MakeDirectories(StrCat(dir_.path(), "/", std::string(name, 2))).ok());
    std::ofstream(StrCat(dir_.path(), "/", name)) << "x";
  }
  std::vector<std::string> listed;
  std::string from;
  int pages = 0;
  do {
    const auto page = store_->List("", from);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->objects.size(), Objects::kPageMax);
    for (const ObjectInfo& object : page->objects) listed.push_back(object.key);
    from = page->next;
    ++pages;
  } while (!from.empty());
  EXPECT_EQ(listed, keys);
  EXPECT_EQ(pages, 3);
}

TEST_F(ObjectFilesTest, KeysAreListedInTheOrderOfTheirBytes) {
  for (const char* key : {"b", "a/c", "a-b", "a/b/d", "ab", "a.x"})
    ASSERT_TRUE(store_->Put(key, std::string_view("1")).ok());
  std::vector<std::string> listed;
  const auto page = store_->List("", "");
  for (const ObjectInfo& object : page->objects) listed.push_back(object.key);
  EXPECT_EQ(listed, (std::vector<std::string>{"a-b", "a.x", "a/b/d", "a/c", "ab", "b"}));
}

TEST_F(ObjectFilesTest, DirectoriesThatComeAndGoHinderNoPut) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 50; ++k) {
        const std::string key = StrCat("a/b/c/", i, "-", k);
        const absl::Status put = store_->Put(key, std::string_view("x"));
        EXPECT_TRUE(put.ok()) << put;
        EXPECT_TRUE(store_->Delete({key}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(common::Exists(dir_.path() + "/a"));
}

TEST_F(ObjectFilesTest, AKeyBelowAnObjectIsNotFound) {
  ASSERT_TRUE(store_->Put("a", std::string_view("x")).ok());
  EXPECT_EQ(store_->Read("a/b", {.size = 1}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Head("a/b").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->Delete({"a/b"}).ok());
}

TEST_F(ObjectFilesTest, AFileSystemWithoutLinksWillDo) {
  has_links = false;
  EXPECT_TRUE(store_->Put("a/b", std::string_view("first")).ok());
  EXPECT_EQ(store_->Put("a/b", std::string_view("second")).code(), StatusCode::kAlreadyExists);
  const auto upload = store_->BeginUpload("c");
  const auto part = store_->PutPart(*upload, 1, std::string_view("part"));
  EXPECT_TRUE(store_->Complete(*upload, {*part}).ok());
  has_links = true;
  EXPECT_EQ(*store_->Read("a/b", {.size = 10}), "first");
  EXPECT_EQ(*store_->Read("c", {.size = 10}), "part");
  EXPECT_TRUE(store_->OpenUploads("")->uploads.empty());
}

TEST_F(ObjectFilesTest, NoLinkLeadsOutOfTheDirectory) {
  const TempDir other;
  ASSERT_TRUE(common::WriteFileAtomically(other.path() + "/secret", "s").ok());
  ASSERT_EQ(symlink((other.path() + "/secret").c_str(), (dir_.path() + "/k").c_str()), 0);
  EXPECT_FALSE(store_->Read("k", {.size = 1}).ok());
  EXPECT_EQ(store_->Head("k").status().code(), StatusCode::kNotFound);
}

// As when the file system is unmounted: the mount point is a directory of this machine's disk.
TEST(ObjectFilesMount, NothingIsPutBesideIt) {
  const TempDir dir;
  const std::string mounted = dir.path() + "/shared", away = dir.path() + "/away";
  std::filesystem::create_directory(mounted);
  const auto store = *ObjectFiles::Open(mounted);
  ASSERT_TRUE(store->Put("a", std::string_view("x")).ok());
  std::filesystem::rename(mounted, away);
  EXPECT_EQ(store->Put("b", std::string_view("x")).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(mounted));
  std::filesystem::create_directory(mounted);
  EXPECT_EQ(store->BeginUpload("b").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::is_empty(mounted));
  ASSERT_TRUE(ObjectFiles::Open(mounted).ok());
  EXPECT_EQ(store->Put("b", std::string_view("x")).code(), StatusCode::kUnavailable)
      << "another one";
  std::filesystem::remove_all(mounted);
  std::filesystem::rename(away, mounted);
  EXPECT_TRUE(store->Put("b", std::string_view("x")).ok());
  EXPECT_EQ((*ObjectFiles::Open(mounted))->List("", "")->objects.size(), 2u);
}

TEST(ObjectFilesAddress, NamesADirectory) {
  EXPECT_EQ(*ObjectFiles::ParseAddress("file:///mnt/shared/"), "/mnt/shared");
  for (const char* text :
       {"/mnt", "file://host/x", "file:///", "file:///a/../b", "file:///a?b", "file:///a b"}) {
    const auto address = ObjectFiles::ParseAddress(text);
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(address.status().message().find(text), std::string::npos) << text;
  }
  const auto missing = ObjectFiles::Open("/no/such/mount");
  EXPECT_EQ(missing.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(missing.status().message().find("mount the file system"), std::string::npos);
}

}  // namespace
}  // namespace muster::coordinator
