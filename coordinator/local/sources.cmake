# Files of the data directory: logs, metrics, samples, blobs, notes.
muster_sources(muster_coordinator
  local/blob_store.cc
  local/log_quota.cc
  local/log_reader.cc
  local/log_store.cc
  local/log_stream_file.cc
  local/metric_quota.cc
  local/metric_reader.cc
  local/metric_store.cc
  local/metric_stream_file.cc
  local/sample_file_table.cc
  local/sample_files.cc
  local/sample_reader.cc
  local/sample_store.cc)
muster_sources(muster_coordinator COLD
  local/audit_files.cc
  local/audit_store.cc
  local/blob_check.cc
  local/note_store.cc
  local/format.cc
  local/segment_check.cc)
