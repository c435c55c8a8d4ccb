// Two shared objects in one process that each link the SDK: they share one LibTorch, which accepts
// only one fallback per dispatch key.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/paths.h"

namespace {

class Library {
 public:
  explicit Library(const std::string& path)
      : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      ADD_FAILURE() << ::dlerror();
      return;
    }
    call_ = reinterpret_cast<const char* (*)(const char*)>(::dlsym(handle_, "muster_test_library"));
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  std::string operator()(const char* what) const {
    return call_ == nullptr ? "not loaded" : call_(what);
  }

 private:
  void* handle_ = nullptr;
  const char* (*call_)(const char*) = nullptr;
};

TEST(TwoLibrariesWithTheSdk, ShardTheirModelsInOneProcess) {
  const Library second(muster::TestBuild("tests/trainer/libraries/libtrainer_sdk_second.so"));
  {
    const Library first(muster::TestBuild("tests/trainer/libraries/libtrainer_sdk_first.so"));
    EXPECT_EQ(first("open"), "done");
    EXPECT_EQ(second("open"), "done");
    for (int step = 0; step < 3; ++step) {
      const std::string loss = first("step");
      EXPECT_NE(loss.find("0."), std::string::npos) << loss;
      EXPECT_EQ(second("step"), loss);
    }
    EXPECT_EQ(first("close"), "done");
  }
  // What the first one registered for both stays.
  EXPECT_EQ(second("step").find("error"), std::string::npos);
  EXPECT_EQ(second("close"), "done");
  EXPECT_EQ(second("open"), "done");
  EXPECT_NE(second("step").find("0."), std::string::npos);
  EXPECT_EQ(second("close"), "done");
}

}  // namespace
