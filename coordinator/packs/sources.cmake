# Logs and metrics in the object store.
muster_sources(muster_coordinator
  packs/format.cc
  packs/log_store.cc
  packs/merge.cc
  packs/metric_store.cc
  packs/moved_files.cc
  packs/open_pack.cc
  packs/output_move.cc
  packs/pack_reader.cc
  packs/pack_turns.cc
  packs/pack_writer.cc
  packs/packs.cc)
