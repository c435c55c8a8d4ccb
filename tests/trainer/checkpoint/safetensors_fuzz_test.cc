// Thousands of damaged and hostile safetensors files: a clear error or a correct load, never a
// crash and never an allocation that the file does not justify.
#include <gtest/gtest.h>
#include <muster/checkpoint/safetensors.h>
#include <sys/resource.h>

#include <fstream>
#include <random>

#include "checkpoint/python_reader.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

struct Parts {
  std::string json;
  std::string data;
};

std::string assemble(const Parts& parts, uint64_t claimed) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(claimed >> (8 * i));
  return bytes + parts.json + parts.data;
}

Parts good_file(const TemporaryDirectory& directory) {
  save_safetensors(directory / "good",
                   {{"weight", torch::arange(6, at::kFloat).view({2, 3})},
                    {"bias", torch::ones({4}, at::kBFloat16)},
                    {"empty", torch::zeros({0, 2})},
                    {"step", torch::tensor(int64_t{7})},
                    {"mask", torch::ones({3}, at::kBool)}},
                   {{"format", "pt"}});
  std::ifstream file(directory / "good", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const size_t header =
      static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]);
  return {bytes.substr(8, header), bytes.substr(8 + header)};
}

class Mutator {
 public:
  explicit Mutator(const Parts& good) : good_(good) {}

  std::string next() {
    Parts parts = good_;
    for (unsigned changes = 1 + random_() % 2; changes > 0; --changes) change(parts);
    uint64_t claimed = parts.json.size();
    if (pick(8) == 0) claimed = nasty_number();
    if (pick(8) == 0) claimed += pick(17) - 8;
    std::string bytes = assemble(parts, claimed);
    if (pick(8) == 0) bytes.resize(pick(bytes.size() + 1));
    return bytes;
  }

 private:
  size_t pick(size_t below) { return random_() % below; }

  uint64_t nasty_number() {
    const uint64_t numbers[] = {0,          1,          7,          100'000'000, 100'000'001,
                                1ull << 31, 1ull << 32, 1ull << 62, ~0ull >> 1,  ~0ull};
    return numbers[pick(std::size(numbers))];
  }

  void change(Parts& parts) {
    std::string& json = parts.json;
    switch (pick(8)) {
      case 0:
        json[pick(json.size())] = static_cast<char>(random_());
        break;
      case 1:
        json.erase(pick(json.size()), 1 + pick(9));
        break;
      case 2:
        json.insert(pick(json.size()), json.substr(pick(json.size()), pick(40)));
        break;
      case 3:
        replace_number(json, std::to_string(nasty_number()));
        break;
      case 4:
        replace_number(json, std::to_string(pick(40)));
        break;
      case 5:
        replace_number(json, pick(2) ? "-1" : "1e2");
        break;
      case 6:
        parts.data.resize(pick(2 * parts.data.size()));
        break;
      default:
        if (!parts.data.empty()) parts.data[pick(parts.data.size())] ^= 1;  // still a valid file
    }
    if (json.empty()) json = "{";
  }

  void replace_number(std::string& json, const std::string& number) {
    const size_t at = json.find_first_of("0123456789", pick(json.size()));
    if (at == std::string::npos) return;
    const size_t end = json.find_first_not_of("0123456789", at);
    json.replace(at, end - at, number);
  }

  const Parts good_;
  std::mt19937 random_{11};
};

// Lets the process grow by this much; an allocation beyond that fails instead of succeeding lazily.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(size_t growth) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + growth;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST(SafetensorsFuzz, EndsInAClearErrorOrACorrectLoad) {
  const TemporaryDirectory directory;
  Mutator mutator(good_file(directory));
  std::filesystem::create_directory(directory / "accepted");
  int accepted = 0, refused = 0;
  {
    const AddressSpaceLimit limit(size_t{200} << 20);
    for (int round = 0; round < 6'000; ++round) {
      const std::string bytes = mutator.next();
      const std::string path = directory / "f";
      std::filesystem::remove(path);  // some file systems flush a rewritten file
      std::ofstream(path, std::ios::binary) << bytes;
      try {
        size_t read = 0;
        for (const auto& [name, tensor] : load_safetensors(path)) read += tensor.nbytes();
        EXPECT_LE(read, bytes.size());
        ++accepted;
        if (accepted <= 200) {
          std::filesystem::copy(path, directory / ("accepted/" + std::to_string(round)));
        }
      } catch (const FormatError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
        ++refused;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "round " << round << ": " << error.what();
      }
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 3'000);
  if (!python_has("safetensors")) return;
  // The reference implementation reads everything that is accepted here.
  const ChildResult result = python(
      "import os, sys\n"
      "from safetensors import safe_open\n"
      "for name in os.listdir(sys.argv[1]):\n"
      "    with safe_open(os.path.join(sys.argv[1], name), 'np') as file: file.keys()\n"
      "print('all read')\n",
      directory / "accepted");
  EXPECT_EQ(result.output, "all read\n");
}

TEST(SafetensorsFuzz, OfClaimedSizesNeverAllocatesThem) {
  const TemporaryDirectory directory;
  const AddressSpaceLimit limit(size_t{64} << 20);
  for (const char* shape :
       {"[1152921504606846975]", "[4294967296,4294967296]", "[9223372036854775807]",
        "[3037000500,3037000500]", "[0,9223372036854775807]"}) {
    for (const char* end : {"0", "8", "9223372036854775807", "18446744073709551615"}) {
      const Parts parts{"{\"w\":{\"dtype\":\"F64\",\"shape\":" + std::string(shape) +
                            ",\"data_offsets\":[0," + end + "]}}",
                        "12345678"};
      std::ofstream(directory / "f", std::ios::binary) << assemble(parts, parts.json.size());
      EXPECT_THROW(load_safetensors(directory / "f"), FormatError) << shape << " " << end;
    }
  }
}

}  // namespace
}  // namespace muster
