# SQLite: the journal and the index that it carries, who is who, whose code is whose.
muster_sources(muster_coordinator
  sqlite/code_store.cc
  sqlite/database/database.cc
  sqlite/database/write_turns.cc
  sqlite/identity_store.cc
  sqlite/job_index.cc
  sqlite/job_rows.cc
  sqlite/journal.cc
  sqlite/journal_writer.cc
  sqlite/object_names.cc
  sqlite/pack_names.cc
  sqlite/replay.cc
  sqlite/snapshot_rows.cc)
muster_sources(muster_coordinator COLD
  sqlite/lost_database.cc
  sqlite/offline.cc
  sqlite/schema.cc
  sqlite/state_care.cc)
# Copies of the database that several coordinators keep.
muster_sources(muster_coordinator
  sqlite/database/changes.cc)
muster_sources(muster_coordinator COLD
  sqlite/archive/archive.cc
  sqlite/archive/archive_changes.cc
  sqlite/archive/archive_rows.cc
  sqlite/audit_store.cc
  sqlite/database/replica_tables.cc
  sqlite/note_store.cc
  sqlite/replica.cc)
