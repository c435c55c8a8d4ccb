// Every path in the coordinator's data directory. Pure; drawn as a tree in docs/formats.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

class Paths {
 public:
  explicit Paths(std::string root) : root_(std::move(root)) {}

  const std::string& Root() const { return root_; }
  // The part of one of these paths that follows the root.
  std::string BelowRoot(const std::string& path) const { return path.substr(root_.size() + 1); }
  std::string Lock() const { return root_ + "/LOCK"; }
  std::string Database() const { return root_ + "/muster.db"; }
  // The highest event number that was ever acknowledged; distinguishes a truncated database from a
  // complete one.
  std::string HighWater() const { return root_ + "/HIGHWATER"; }
  // The coordinator's total uptime, and what retention has removed recently.
  std::string Lived() const { return root_ + "/LIVED"; }
  // Webhooks that still have to be called (notify/notifier.h).
  std::string Notify() const { return root_ + "/NOTIFY"; }
  // The secrets of the HTTP server (http/admission/token_file.h), and the port that it picked last.
  std::string HttpToken() const { return root_ + "/HTTP-TOKEN"; }
  std::string HttpMetricsToken() const { return root_ + "/HTTP-METRICS-TOKEN"; }
  std::string HttpPort() const { return root_ + "/HTTP-PORT"; }
  std::string RetentionShare() const { return root_ + "/RETENTION"; }
  // Space that is freed when the disk is full, so that running jobs can still be recorded.
  std::string Headroom() const { return root_ + "/HEADROOM"; }
  std::string LastHeadroom() const { return root_ + "/HEADROOM-LAST"; }

  // Who did what (audit/audit.h).
  std::string AuditRoot() const { return root_ + "/audit"; }

  // The version of the files below logs/ and metrics/.
  std::string Format() const { return root_ + "/FORMAT"; }

  std::string LogRoot() const { return root_ + "/logs"; }
  std::string LogDirectory(uint64_t job) const;
  std::string LogDirectory(uint64_t job, uint32_t attempt) const;
  // Without the suffixes of its segments (segments/files.h).
  std::string LogStream(const LogKey& key) const;

  std::string MetricRoot() const { return root_ + "/metrics"; }
  std::string MetricDirectory(uint64_t job) const;
  std::string MetricStream(uint64_t job, uint32_t attempt) const;
  std::string NewestMetricsFile(uint64_t job) const;

  // Its files: local/sample_files.h.
  std::string SampleDirectory(uint64_t job) const;

  std::string BlobRoot() const { return root_ + "/blobs/sha256"; }
  std::string BlobDirectory(const std::string& sha256) const;
  std::string BlobFile(const std::string& sha256) const;
  std::string UploadRoot() const { return root_ + "/uploads"; }
  std::string ProofRoot() const { return UploadRoot() + "/proven"; }
  // Of an owner's upload (store_parts/upload_area.h).
  std::string UploadFile(const std::string& sha256, const std::string& owner) const;
  // Checkpoint files that `muster-coordinator repair` found damaged.
  std::string DamagedRoot() const { return root_ + "/damaged"; }

 private:
  std::string root_;
};

// The jobs that have a directory there. May be slow.
std::vector<uint64_t> JobsBelow(const std::string& root);

}  // namespace muster::coordinator
