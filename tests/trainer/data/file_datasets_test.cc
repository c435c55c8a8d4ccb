// Records and token windows in memory-mapped files.
#include "muster/data/file_datasets.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "data/loader_world.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// A header of 3 bytes; records of a label and two unaligned floats.
std::string records(int count) {
  std::string bytes = "hdr";
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i);
    bytes += bytes_of<float>({i + 0.5f, -1.f * i});
  }
  return bytes;
}

const RecordFormat kFormat{.fields = {{at::kByte, {}}, {at::kFloat, {2}}}, .header_bytes = 3};

TEST(RecordDataset, ReadsTheFieldsOfEachRecord) {
  const TemporaryDirectory directory;
  write(directory / "data", records(5));
  const RecordDataset dataset(directory / "data", kFormat);
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(dataset.get(4)[0].item<int>(), 4);
  EXPECT_TRUE(dataset.get(4)[1].equal(at::tensor({4.5f, -4.f})));
  EXPECT_EQ(dataset.describe(2), (directory / "data") + ", record 2 at byte 21");
  EXPECT_THROW(dataset.get(5), std::out_of_range);
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2});
  std::vector<int64_t> labels;
  for (auto& batch : loader) {
    EXPECT_EQ(batch.at(1).size(1), 2);
    for (const int64_t label : list(batch.at(0).to(at::kLong))) labels.push_back(label);
  }
  EXPECT_EQ(labels, range(5));
}

TEST(RecordDataset, ReportsATruncatedFile) {
  const TemporaryDirectory directory;
  write(directory / "data", records(5) + "x");
  EXPECT_THROW(RecordDataset(directory / "data", kFormat), DataError);
  write(directory / "short", "h");
  EXPECT_THROW(RecordDataset(directory / "short", kFormat), DataError);
  EXPECT_THROW(RecordDataset(directory / "data", {}), std::invalid_argument);
}

TEST(RecordDataset, NamesTheFileToTheLoopWhenItShrinksDuringAnEpoch) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data";
  write(path, records(5));
  DataLoader loader(RecordDataset(path, kFormat), {.batch_size = 2});
  try {
    for ([[maybe_unused]] auto& batch : loader) ASSERT_EQ(::truncate(path.c_str(), 12), 0);
    FAIL() << "no error";
  } catch (const DataError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("sample 2 (" + path + ", record 2 at byte 21)"), std::string::npos) << text;
    EXPECT_NE(text.find("had 48 bytes when it was opened and has 12 now"), std::string::npos)
        << text;
  }
}

TEST(TokenDataset, GivesWindowsOfEveryTokenType) {
  const TemporaryDirectory directory;
  const std::vector<int64_t> expected = {3, 4, 5, 6};
  const auto check = [&](at::ScalarType dtype, const std::string& bytes) {
    write(directory / "tokens", "h" + bytes);
    const TokenDataset dataset(directory / "tokens",
                               {.window = 4, .stride = 3, .dtype = dtype, .header_bytes = 1});
    EXPECT_EQ(dataset.tokens(), 11);
    EXPECT_EQ(dataset.size(), 3);  // 0–3, 3–6, 6–9; token 10 is left over
    EXPECT_EQ(list(dataset.get(1)), expected) << dtype;
    EXPECT_EQ(dataset.describe(1), (directory / "tokens") + ", tokens 3 to 6");
  };
  const std::vector<int64_t> tokens = range(11);
  check(at::kByte, bytes_of(std::vector<uint8_t>(tokens.begin(), tokens.end())));
  check(at::kUInt16, bytes_of(std::vector<uint16_t>(tokens.begin(), tokens.end())));
  check(at::kInt, bytes_of(std::vector<int32_t>(tokens.begin(), tokens.end())));
  check(at::kUInt32, bytes_of(std::vector<uint32_t>(tokens.begin(), tokens.end())));
  check(at::kLong, bytes_of(tokens));
}

TEST(TokenDataset, ReadsTokensInMemoryAlike) {
  const TokenDataset dataset(at::arange(11, at::kByte), {.window = 4, .stride = 3});
  EXPECT_EQ(dataset.size(), 3);
  const std::vector<int64_t> both = {2, 0};
  EXPECT_EQ(list(dataset.get_batch(both)), (std::vector<int64_t>{6, 7, 8, 9, 0, 1, 2, 3}));
  EXPECT_EQ(dataset.get(0).scalar_type(), at::kLong);
}

TEST(TokenDataset, ReportsWhatIsWrongWithAFileOrWindow) {
  const TemporaryDirectory directory;
  const std::string path = directory / "tokens";
  write(path, "abcde");
  EXPECT_THROW(TokenDataset(path, {.window = 6}), DataError);
  EXPECT_THROW(TokenDataset(path, {.window = 2, .dtype = at::kUInt16}), DataError);
  EXPECT_THROW(TokenDataset(path, {.window = 0}), std::invalid_argument);
  EXPECT_THROW(TokenDataset(path, {.window = 1, .dtype = at::kFloat}), std::invalid_argument);
  EXPECT_THROW(TokenDataset(at::ones({3}), {.window = 1}), std::invalid_argument);
  EXPECT_THROW(TokenDataset(path, {.window = 2}).get(2), std::out_of_range);
}

}  // namespace
}  // namespace muster
