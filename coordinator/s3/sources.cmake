# Objects in a bucket of S3.
muster_sources(muster_objects COLD
  s3/address.cc
  s3/answers.cc
  s3/client.cc
  s3/credential_chain.cc
  s3/credential_files.cc
  s3/credentials.cc
  s3/objects.cc
  s3/refusals.cc
  s3/retry.cc
  s3/signature.cc
  s3/times.cc
  s3/uploads.cc
  s3/xml.cc)
muster_sources(muster_objects COLD
  s3/credential_answer.cc)
