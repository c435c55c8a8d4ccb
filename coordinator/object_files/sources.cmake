# Objects as files of a shared directory.
muster_sources(muster_objects COLD
  object_files/key_walk.cc
  object_files/object_files.cc
  object_files/uploads.cc)
