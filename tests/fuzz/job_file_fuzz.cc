// A job file and the --set values for it, which follow it after NUL bytes.
#include <vector>

#include "client/job_file/job_file.h"
#include "client/job_file/yaml.h"
#include "fuzz/harness.h"
#include "muster/v1/job.pb.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::string_view rest = testing::Text(data, size);
  std::vector<std::string> parts;
  for (bool more = true; more;) {
    const size_t end = rest.find('\0');
    parts.emplace_back(rest.substr(0, end));
    more = end != rest.npos;
    if (more) rest.remove_prefix(end + 1);
  }
  const std::string content = parts.front();
  const std::vector<std::string> sets(parts.begin() + 1, parts.end());

  v1::JobSpec spec;
  const auto file = client::ParseJobFile("job.yaml", content, sets, &spec);
  if (file.ok()) {
    v1::JobSpec again;  // it is sent as a message, which rejects texts that are not UTF-8
    FUZZ_EXPECT(again.ParseFromString(spec.SerializeAsString()));
  } else {
    FUZZ_EXPECT(!file.status().message().empty());
  }
  std::vector<client::YamlProblem> problems;
  client::ParseYaml(content, &problems, /*lenient=*/true);  // as for other tools' configurations
  client::FormatProblems("job.yaml", problems);
  return 0;
}
