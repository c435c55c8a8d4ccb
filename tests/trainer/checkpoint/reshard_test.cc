// Sharded checkpoints among real ranks: any number of ranks writes, and any number reads.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/python_reader.h"
#include "muster/checkpoint/checkpoint_options.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

std::vector<ChildResult> run(int world_size, const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> argv = {TestBuild("bin/tests/shard_ranks")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_ranks({.argv = argv, .world_size = world_size, .environment = environment});
}

// The reading ranks get every full tensor, and their ranges of it, with the right values.
void succeeds(int world_size, const std::vector<std::string>& arguments) {
  for (const ChildResult& rank : run(world_size, arguments)) {
    ASSERT_EQ(rank.exit_code, 0) << arguments[0] << "\n" << rank.output;
    auto values = said(rank);
    if (values.contains("wrong")) EXPECT_EQ(values["wrong"], "nothing") << rank.output;
  }
}

void reads(int world_size, const std::string& directory, int64_t step) {
  for (const ChildResult& rank : run(world_size, {"load", "sync", directory})) {
    auto values = said(rank);
    EXPECT_EQ(values["step"], std::to_string(step)) << rank.output;
    EXPECT_EQ(values["wrong"], "nothing") << world_size << " ranks\n" << rank.output;
  }
}

class ShardedSaves : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Are, ShardedSaves, ::testing::Values("sync", "async"),
                         [](const auto& info) { return info.param; });

TEST_P(ShardedSaves, OfFourRanksAreReadByFewerRanks) {
  const TemporaryDirectory directory;
  succeeds(4, {"save_shards", GetParam(), directory.path()});
  const Manifest manifest = read_checkpoint(directory / "step-1", true);
  EXPECT_EQ(manifest.shards.size(), 4u);
  EXPECT_GT(manifest.tensors.at("model/cube").pieces.size(), 1u) << "it is really divided";
  EXPECT_EQ(manifest.tensors.at("model/empty").pieces.size(), 1u);
  reads(3, directory.path(), 1);
  if (GetParam() == "async") return;  // the files are the same
  for (const int world_size : {2, 1}) reads(world_size, directory.path(), 1);
}

TEST(ShardedSaves, BecomeWholeOnesAndTheReverse) {
  const TemporaryDirectory directory;
  succeeds(2, {"save_whole", "sync", directory.path()});
  succeeds(3, {"to_shards", "async", directory.path()});
  succeeds(2, {"to_shards", "sync", directory.path()});
  succeeds(3, {"to_whole", "sync", directory.path()});
  reads(1, directory.path(), 4);
  EXPECT_GT(read_checkpoint(directory / "step-3", true).tensors.at("model/cube").pieces.size(), 1u);
  for (const auto& [name, tensor] : read_checkpoint(directory / "step-4", true).tensors) {
    EXPECT_EQ(tensor.pieces.size(), 1u) << name;
  }
}

TEST_P(ShardedSaves, KilledInTheMiddleLeaveTheEarlierCheckpoint) {
  const TemporaryDirectory directory;
  for (const char* kill : {"1 shard", "0 manifest"}) {
    const auto ranks = run(2, {"killed", GetParam(), directory.path()}, {{"KILL", kill}});
    ASSERT_EQ(ranks[kill[0] - '0'].exit_code, 128 + 9) << kill;
    EXPECT_EQ(list_steps(directory.path()), std::vector<int64_t>{1}) << kill;
  }
  reads(1, directory.path(), 1);
}

TEST_P(ShardedSaves, ThatDoNotMakeWholeTensorsFailOnAllRanksByName) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"hole", "no piece has elements [39, 40) of the 105 of 'model/cube'"},
      {"overlap",
       "elements [40, 41) of 'model/cube' are in shard-00001-of-00003.safetensors and "
       "in shard-00002-of-00003.safetensors"},
      {"shape", "'model/cube' is F32 [5,3,7] in shard-00001-of-00003.safetensors and F32 [3,5,7]"},
      {"dtype", "'model/cube' is F64 [3,5,7] in shard-00001-of-00003.safetensors and F32 [3,5,7]"},
      {"outside", "the shard of 'model/cube' has shape"},
      {"twice", "'model/cube' is both a global tensor and a shard"}};
  const TemporaryDirectory directory;
  for (const ChildResult& rank : run(3, {"faulty", GetParam(), directory.path()})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.output;
    for (const auto& [fault, text] : kFaults) {
      EXPECT_NE(said(rank)[fault].find(text), std::string::npos) << fault << "\n" << rank.output;
    }
  }
  EXPECT_EQ(list_steps(directory.path()), (std::vector<int64_t>{1, 8}));
  EXPECT_FALSE(path_exists(directory / "step-2.tmp"));
}

TEST(ShardedSaves, WithAMissingOrDamagedFileNameIt) {
  const TemporaryDirectory directory;
  succeeds(2, {"save_shards", "sync", directory.path()});
  const std::string step = directory / "step-1";
  const std::string file = step + "/" + shard_name(1, 2);
  const auto refused = [&](const std::string& text) {
    for (const ChildResult& rank :
         run(2, {"load", "sync", directory.path()}, {{"RESUME_FROM", step}})) {
      EXPECT_EQ(rank.exit_code, 1);
      EXPECT_NE(said(rank)["error"].find(text), std::string::npos) << rank.output;
    }
  };
  std::filesystem::rename(file, file + ".away");
  refused("cannot read " + file);
  std::filesystem::copy_file(file + ".away", file);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end)
      << '\xff';
  refused(file + " is damaged");
}

// Uses only docs/formats-checkpoint.md, nothing of the SDK.
constexpr char kPythonReader[] = R"(
import json, os, sys
import numpy as np
from safetensors import deserialize
step = sys.argv[1]
manifest = json.load(open(os.path.join(step, 'manifest.json')))
assert manifest['format'] == 'muster-checkpoint' and manifest['version'] == 1
numpy_type = {'F32': '<f4', 'F64': '<f8', 'F16': '<f2', 'BF16': '<u2', 'I64': '<i8', 'BOOL': '?'}
files = {}
def file(name):
    if name not in files:
        files[name] = dict(deserialize(open(os.path.join(step, name), 'rb').read()))
    return files[name]
def tensor(name):
    entry = manifest['tensors'][name]
    dtype, shape = numpy_type[entry['dtype']], entry['shape']
    flat = np.zeros(int(np.prod(shape)), dtype)
    for piece in entry['pieces']:
        stored = file(piece['file'])[piece['tensor']]
        assert stored['dtype'] == entry['dtype'] and stored['shape'] == piece['sizes']
        values = np.frombuffer(bytes(stored['data']), dtype)
        if len(piece['offsets']) == 1:
            begin = piece['offsets'][0]
            flat[begin:begin + piece['sizes'][0]] = values
        else:
            box = tuple(slice(o, o + s) for o, s in zip(piece['offsets'], piece['sizes']))
            flat.reshape(shape)[box] = values.reshape(piece['sizes'])
    return flat.reshape(shape)
cases = {'matrix': ('F32', (13, 7)), 'bias': ('F32', (7,)), 'cube': ('F32', (3, 5, 7)), 'scalar': ('F32', ()),
         'empty': ('F32', (0, 4)), 'single': ('F32', (1,)), 'half': ('BF16', (5, 3)),
         'half_row': ('BF16', (1, 11, 1)), 'fp16': ('F16', (9, 2)), 'counts': ('I64', (17,)),
         'double': ('F64', (2, 3, 1, 5)), 'mask': ('BOOL', (3, 3))}
assert {n for n in manifest['tensors'] if n.startswith('model/')} == {'model/' + n for n in cases}
divided = 0
for name, (dtype, shape) in cases.items():
    expected = (np.arange(int(np.prod(shape))) + 1) % 100
    if dtype == 'BOOL': expected = expected % 2 == 1
    if dtype == 'BF16': expected = expected.astype('<f4').view('<u4') >> 16
    read = tensor('model/' + name)
    assert read.shape == shape and np.array_equal(read, expected.astype(numpy_type[dtype]).reshape(shape)), name
    divided += len(manifest['tensors']['model/' + name]['pieces']) > 1
print(len(cases), 'tensors,', divided, 'of them divided')
)";

TEST(ShardedSaves, AreReadByNumpyFollowingTheDocument) {
  if (!python_has("safetensors") || !python_has("numpy")) GTEST_SKIP() << "no Python packages";
  const TemporaryDirectory directory;
  succeeds(4, {"save_shards", "sync", directory.path()});
  const ChildResult result = python(kPythonReader, directory / "step-1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output, "12 tensors, 8 of them divided\n");
}

}  // namespace
}  // namespace muster
