// The exceptions of the trainer SDK.
//
// All derive from std::runtime_error through muster::Error, so `catch (const std::exception&)` is
// enough. Every message names the rank where that helps, the value that was met, and what to
// change.
#pragma once

#include <stdexcept>
#include <string>

namespace muster {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The environment does not describe a place in a job: a variable is missing, is not a number, or
// contradicts another one. Retrying does not help.
class TopologyError : public Error {
 public:
  using Error::Error;
};

// The ranks cannot talk to each other, or they disagree (for example on the shape of the model).
class CommunicationError : public Error {
 public:
  using Error::Error;
};

// A kind of device cannot be used: its plug-in is missing or was built for something else, a
// function of it failed, or it lacks what the run asks for. Retrying does not help.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Accelerator::check_loss found a loss that is infinite or not a number.
class NonFiniteLossError : public Error {
 public:
  using Error::Error;
};

// A checkpoint cannot be written, found or applied.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// Bytes that were read are not what they claim to be: a damaged or hostile safetensors file or
// manifest. The message names the file and the first rule that it breaks.
class FormatError : public Error {
 public:
  using Error::Error;
};

// Samples cannot be read: a dataset or collate function failed, or a data file is short or changed.
// The message names the file, the sample, the epoch and the rank where they are known; the original
// exception is nested in it (std::rethrow_if_nested) where there was one.
class DataError : public Error {
 public:
  using Error::Error;
};

// Thrown by a trainer to say that trying again cannot help (bad configuration, missing data).
// run_main turns it into exit code 93, which Muster never retries.
class DoNotRetryError : public Error {
 public:
  using Error::Error;
};

}  // namespace muster
