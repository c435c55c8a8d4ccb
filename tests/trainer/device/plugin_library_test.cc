// Which libraries are accepted as plug-ins, and the errors for the others.
#include "device/plugin_library.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "muster/base/errors.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::string refusal(const std::string& name) {
  try {
    load_device_plugin(name, OWN_TORCH,
                       {"/nonexistent", TestBuild("tests/trainer/device/plugins")});
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "loaded";
}

std::string start_of(const std::string& name) {
  return "device '" + name + "': the plug-in " + TestBuild("tests/trainer/device/plugins") +
         "/libmuster_trainer_" + name + ".so ";
}

TEST(PluginLibrary, OfAnotherAbiIsRefusedBeforeAnythingOfItRuns) {
  EXPECT_EQ(refusal("old_abi"),
            start_of("old_abi") +
                "is incompatible: it has version 99 of the device function table, and this program "
                "has version 1: build both with the same release of the Muster trainer SDK");
}

TEST(PluginLibrary, OfAnotherLibTorchIsRefusedBeforeAnythingOfItRuns) {
  const std::string own = OWN_TORCH;
  EXPECT_EQ(
      refusal("old_torch"),
      start_of("old_torch") +
          "is incompatible: it was built for LibTorch 1.13.1, and this program for LibTorch " +
          own + ": build the plug-in against LibTorch " + own.substr(0, own.rfind('.')));
}

TEST(PluginLibrary, WithoutALabelIsJudgedByItsTable) {
  EXPECT_EQ(refusal("unlabelled_abi")
                .find(start_of("unlabelled_abi") +
                      "is incompatible: it has version 98 of the device function table"),
            0u)
      << refusal("unlabelled_abi");
}

TEST(PluginLibrary, WithoutItsFunctionIsRejected) {
  EXPECT_EQ(refusal("no_function"),
            start_of("no_function") +
                "is not a device plug-in: it does not export muster_device_plugin() (see "
                "docs/device-plugins.md)");
  EXPECT_NE(refusal("no_table").find("it has no table in muster_device_plugin()"),
            std::string::npos);
}

TEST(PluginLibrary, ThatCannotBeLoadedReportsTheLoadersReason) {
  const std::string text = refusal("undefined_symbol");
  EXPECT_EQ(text.find(start_of("undefined_symbol") + "cannot be loaded: "), 0u) << text;
  EXPECT_NE(text.find("a_function_of_another_libtorch"), std::string::npos) << text;
  EXPECT_NE(text.find("it was built for another LibTorch"), std::string::npos) << text;
}

TEST(PluginLibrary, MustHaveTheNameAndTheFunctionsThatItNeeds) {
  EXPECT_EQ(refusal("other_name"), start_of("other_name") +
                                       "is incompatible: its table is for device 'elsewhere': the "
                                       "file name must match");
  EXPECT_EQ(refusal("incomplete")
                .find(start_of("incomplete") + "is incompatible: its table has no count: "),
            0u)
      << refusal("incomplete");
}

TEST(PluginLibrary, ThatIsMissingNamesThePlacesThatWereSearched) {
  const std::string text = refusal("absent");
  EXPECT_EQ(text.find("device 'absent': the plug-in libmuster_trainer_absent.so was not found: "),
            0u)
      << text;
  EXPECT_NE(text.find("searched /nonexistent, " + TestBuild("tests/trainer/device/plugins") +
                      ", the system's library directories: add "
                      "its directory to MUSTER_PLUGIN_PATH"),
            std::string::npos)
      << text;
  EXPECT_NE(refusal("../fake").find("not a valid name"), std::string::npos);
}

TEST(PluginDirectories, AreThoseOfTheVariableThenTheExecutables) {
  ::setenv("MUSTER_PLUGIN_PATH", "/first::/second", 1);
  std::vector<std::string> directories = plugin_directories();
  ASSERT_EQ(directories.size(), 3u);
  EXPECT_EQ(directories[0], "/first");
  EXPECT_EQ(directories[1], "/second");
  EXPECT_EQ(directories[2], std::filesystem::read_symlink("/proc/self/exe").parent_path());
  ::unsetenv("MUSTER_PLUGIN_PATH");
  EXPECT_EQ(plugin_directories(), std::vector<std::string>{directories[2]});
}

}  // namespace
}  // namespace muster
