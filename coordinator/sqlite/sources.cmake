# SQLite: the journal and the index that it carries, who is who, whose code is whose.
muster_sources(muster_coordinator
  sqlite/code_store.cc
  sqlite/database.cc
  sqlite/identity_store.cc
  sqlite/job_index.cc
  sqlite/job_rows.cc
  sqlite/journal.cc
  sqlite/journal_writer.cc
  sqlite/replay.cc
  sqlite/snapshot_rows.cc
  sqlite/write_turns.cc)
muster_sources(muster_coordinator COLD
  sqlite/lost_database.cc
  sqlite/offline.cc
  sqlite/schema.cc
  sqlite/state_care.cc)
# Copies of the database that several coordinators keep.
muster_sources(muster_coordinator
  sqlite/changes.cc)
muster_sources(muster_coordinator COLD
  sqlite/audit_store.cc
  sqlite/note_store.cc
  sqlite/replica.cc
  sqlite/replica_tables.cc)
