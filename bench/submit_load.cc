// Durable submits over one connection: ENDPOINT COUNT WINDOW [CREDENTIALS]. Sends COUNT submits through
// SubmitMany with at most WINDOW of them unanswered, and prints one JSON line: how many were
// accepted, seconds, rate, and the latency of a submit (median and 99th percentile, in ms). WINDOW
// 1 measures them one by one. CREDENTIALS: a file that `jobctl login` made, for TLS.
//
// Two threads: this one writes, the other reads the answers. Uses the synchronous API, because it
// measures the server.
#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "identity/certificate.h"
#include "identity/credential_files.h"
#include "identity/tls_versions.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace {

using Steady = std::chrono::steady_clock;

// Shared by the writer and the reader: when each submit was sent, and how many were answered.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Steady::time_point> sent;
  std::vector<double> latency_ms;
  int accepted = 0;
  std::string first_problem;
  bool stream_over = false;
};

muster::v1::SubmitRequest MakeRequest(int number) {
  muster::v1::SubmitRequest request;
  muster::v1::JobSpec* spec = request.mutable_spec();
  spec->set_name("load");
  spec->add_command("true");
  spec->set_workdir(std::filesystem::current_path().string());
  spec->mutable_shape()->set_processes(1);
  (*spec->mutable_env())["PATH"] = "/usr/bin:/bin";
  request.set_idempotency_key("load-" + std::to_string(getpid()) + "-" + std::to_string(number));
  return request;
}

template <typename Stream>
void ReadAnswers(Stream& stream, Progress& progress) {
  muster::v1::SubmitResponse response;
  while (stream.Read(&response)) {
    std::lock_guard lock(progress.mutex);
    const auto took = Steady::now() - progress.sent[progress.latency_ms.size()];
    progress.latency_ms.push_back(std::chrono::duration<double, std::milli>(took).count());
    if (response.status_code() == 0) ++progress.accepted;
    if (response.status_code() != 0 && progress.first_problem.empty()) {
      progress.first_problem = response.status_message();
    }
    progress.changed.notify_one();
  }
  std::lock_guard lock(progress.mutex);
  progress.stream_over = true;
  progress.changed.notify_one();
}

}  // namespace

int main(int argc, char** argv) {
  muster::identity::SpeakTls13Only();
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: bench_submit ENDPOINT COUNT WINDOW [CREDENTIALS]\n");
    return 2;
  }
  const int count = std::atoi(argv[2]);
  const size_t window = static_cast<size_t>(std::atoi(argv[3]));
  grpc::ChannelArguments arguments;
  arguments.SetString("grpc.default_authority", "localhost");
  std::shared_ptr<grpc::ChannelCredentials> proof = grpc::InsecureChannelCredentials();
  if (argc == 5) {
    const auto credentials = muster::identity::LoadCredentials(argv[4]);
    if (!credentials.ok()) {
      std::fprintf(stderr, "bench_submit: %s\n",
                   std::string(credentials.status().message()).c_str());
      return 2;
    }
    arguments.SetSslTargetNameOverride(std::string(muster::identity::kCoordinatorDnsName));
    proof = grpc::SslCredentials({.pem_root_certs = credentials->authority_pem,
                                  .pem_private_key = credentials->key_pem,
                                  .pem_cert_chain = credentials->certificate_pem});
  }
  auto channel = grpc::CreateCustomChannel(argv[1], proof, arguments);
  auto stub = muster::v1::JobService::NewStub(channel);
  grpc::ClientContext context;
  auto stream = stub->SubmitMany(&context);

  Progress progress;
  std::thread reader([&] { ReadAnswers(*stream, progress); });
  const auto started = Steady::now();
  for (int i = 0; i < count; ++i) {
    const muster::v1::SubmitRequest request = MakeRequest(i);
    {
      std::unique_lock lock(progress.mutex);
      progress.changed.wait(lock, [&] {
        return progress.stream_over || progress.sent.size() - progress.latency_ms.size() < window;
      });
      if (progress.stream_over) break;
      progress.sent.push_back(Steady::now());
    }
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  reader.join();
  const double seconds = std::chrono::duration<double>(Steady::now() - started).count();
  const grpc::Status status = stream->Finish();
  if (!status.ok()) progress.first_problem = status.error_message();
  if (progress.accepted != count) {
    std::fprintf(stderr, "only %d of %d were accepted: %s\n", progress.accepted, count,
                 progress.first_problem.c_str());
    return 1;
  }
  std::sort(progress.latency_ms.begin(), progress.latency_ms.end());
  std::printf(
      "{\"accepted\": %d, \"seconds\": %.4f, \"rate\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
      progress.accepted, seconds, count / seconds,
      progress.latency_ms[progress.latency_ms.size() / 2],
      progress.latency_ms[progress.latency_ms.size() * 99 / 100]);
  return 0;
}
