// The exceptions of the trainer SDK.
//
// All derive from std::runtime_error through muster::Error, so `catch (const std::exception&)` is
// enough. Messages name the rank where that helps, the offending value, and what to change.
#pragma once

#include <stdexcept>
#include <string>

namespace muster {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The environment does not define this process's rank in a job: a variable is missing, is not a
// number, or contradicts another one. Retrying does not help.
class TopologyError : public Error {
 public:
  using Error::Error;
};

// The ranks cannot communicate, or they disagree (for example on the shape of the model).
class CommunicationError : public Error {
 public:
  using Error::Error;
};

// A kind of device cannot be used: its plug-in is missing or was built for another ABI or LibTorch,
// one of its functions failed, or it lacks something that the run needs. Retrying does not help.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Accelerator::check_loss found a loss that is infinite or NaN.
class NonFiniteLossError : public Error {
 public:
  using Error::Error;
};

// A checkpoint cannot be written, found or loaded.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// Input bytes are invalid: a damaged or hostile safetensors file or manifest. The message names the
// file and the first rule that it breaks.
class FormatError : public Error {
 public:
  using Error::Error;
};

// Samples cannot be read: a dataset or collate function threw, or a data file is truncated or was
// changed. The message names the file, sample, epoch and rank as far as known; the original
// exception, if any, is nested in it (std::rethrow_if_nested).
class DataError : public Error {
 public:
  using Error::Error;
};

// Throw this when retrying cannot help (bad configuration, missing data). run_main turns it into
// exit code 93, which Muster never retries.
class DoNotRetryError : public Error {
 public:
  using Error::Error;
};

}  // namespace muster
