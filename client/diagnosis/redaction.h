// Removes secrets from a bundle before it leaves the cluster. Recognizes them by the name that they
// are assigned to, by their place (a URL's password, a bearer token), by their form, and as values
// of the job's secret variables. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Message;
}
namespace muster::v1 {
class JobSpec;
}

namespace muster::client {

inline constexpr std::string_view kHidden = "(hidden)";

class Redaction {
 public:
  // Hides the values of this job's secret variables wherever they appear.
  void LearnFrom(const v1::JobSpec& spec);
  std::string Apply(std::string_view text);
  // The job's own specification: secret variables and arguments, then all texts.
  void Apply(v1::JobSpec* spec);
  // Every text of a message.
  void ApplyToTexts(google::protobuf::Message* message);

  // What was hidden, by kind, like "passwords in URLs": 2.
  const std::map<std::string, uint64_t>& hidden() const { return hidden_; }

 private:
  // Each tries one kind at one position and returns how many bytes it consumed; 0: no such secret.
  size_t TakeAssignment(std::string_view text, size_t at, std::string* out);
  size_t TakeUrl(std::string_view text, size_t at, std::string* out);
  size_t TakeBearer(std::string_view text, size_t at, std::string* out);
  size_t TakeToken(std::string_view text, size_t at, std::string* out);
  size_t TakePrivateKey(std::string_view text, size_t at, std::string* out);
  std::string WithoutKnownValues(std::string_view text);
  void Hide(const std::string& kind, std::string* out);

  std::vector<std::string> values_;  // longest first
  std::map<std::string, uint64_t> hidden_;
};

}  // namespace muster::client
