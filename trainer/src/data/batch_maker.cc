// Builds batches independently of the training thread's state; see batch_maker.h.
#include "data/batch_maker.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include "muster/base/errors.h"

namespace muster {
namespace {

// Makes datasets and collate functions compute the same on every thread: without gradients, and
// without an autocast region around the loop, which would apply only without workers.
struct PlainArithmetic {
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

// The current exception, with its message prefixed by `place`.
std::exception_ptr described(const std::string& place) {
  try {
    try {
      throw;
    } catch (const DoNotRetryError& error) {
      std::throw_with_nested(DoNotRetryError(place + ": " + error.what()));
    } catch (const c10::Error& error) {
      std::throw_with_nested(DataError(place + ": " + error.what_without_backtrace()));
    } catch (const std::exception& error) {
      std::throw_with_nested(DataError(place + ": " + error.what()));
    } catch (...) {
      std::throw_with_nested(DataError(place + ": an exception that is not a std::exception"));
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

std::string BatchMaker::sample_text(int64_t index) const {
  std::string text = "sample " + std::to_string(index);
  try {
    const std::string described = source_.describe(index);
    if (!described.empty()) text += " (" + described + ")";
  } catch (const std::exception&) {
    // An error in describe() must not hide the original one.
  }
  return text;
}

std::string BatchMaker::where(const Step& step, const loader_detail::MakeRequest& request) const {
  const std::string epoch = " of epoch " + std::to_string(options_.epoch);
  const std::string rank = "rank " + std::to_string(options_.rank) + ": ";
  if (request.current >= 0) return rank + sample_text(request.current) + epoch;
  std::string batch = "the batch of ";
  if (step.samples) {
    batch += "samples from number " + std::to_string(step.info.begin) + " on";
  } else {
    constexpr size_t kNamed = 4;
    for (size_t i = 0; i < request.picks.size() && i < kNamed; ++i) {
      batch += (i > 0 ? ", " : "") + sample_text(request.picks[i]);
    }
    if (request.picks.size() > kNamed) {
      batch += " and " + std::to_string(request.picks.size() - kNamed) + " more";
    }
  }
  return rank + batch + epoch;
}

std::optional<Step> BatchMaker::plan(std::exception_ptr& error) const {
  const PlainArithmetic plain;
  try {
    return steps_.next();
  } catch (...) {
    const int64_t sample = steps_.failed_sample();
    error = described("rank " + std::to_string(options_.rank) + ": " +
                      (sample >= 0 ? sample_text(sample) : std::string("the start")) +
                      " of epoch " + std::to_string(options_.epoch));
    return std::nullopt;
  }
}

ReadyStep BatchMaker::make(Step step, int worker) const {
  const PlainArithmetic plain;
  ReadyStep ready{.info = step.info};
  loader_detail::MakeRequest request{
      .seed = options_.seed, .epoch = options_.epoch, .worker = worker};
  request.picks = step.picks;
  try {
    if (!step.picks.empty()) ready.batch = source_.make(request, step.samples.get());
    if (ready.batch && options_.pin_for) {
      const c10::OptionalDeviceGuard device(options_.pin_for);
      ready.batch->pin();
    }
  } catch (...) {
    ready.batch.reset();
    ready.error = described(where(step, request));
  }
  return ready;
}

}  // namespace muster
