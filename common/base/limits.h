// Every limit on what crosses a process boundary, with its unit. A queue's own limit is declared
// next to the queue.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::common {

// limit: messages: a job's spec, serialized; a larger one is refused
inline constexpr size_t kSpecBytesMax = 256 * 1024;
// limit: messages: one gRPC message on a control stream or of a call with one answer
inline constexpr size_t kControlMessageBytesMax =
    4 << 20;  // one gRPC message on a control stream or unary call
// limit: messages: one gRPC message of bulk data
inline constexpr size_t kBulkMessageBytesMax = 4 << 20;
// limit: messages: data of one log chunk
inline constexpr size_t kLogChunkBytesMax = 256 * 1024;
// limit: messages: data of one chunk of a checkpoint's file
inline constexpr size_t kBlobChunkBytes = 1 << 20;
// limit: messages: data of one chunk of code
inline constexpr size_t kObjectChunkBytesMax = 256 * 1024;
// limit: messages: a piece of a control message that is sent in pieces
inline constexpr size_t kControlPieceBytes = 1 << 20;
// limit: messages: all pieces of one control message
inline constexpr size_t kControlWholeBytesMax = 32 << 20;
// limit: messages: one response to a client; what is longer comes in pages
inline constexpr size_t kAnswerBytesMax = 2 << 20;
// limit: messages: one event
inline constexpr size_t kJournalRecordBytesMax = 1 << 20;
// limit: messages: a checkpoint's file list in one message or event
inline constexpr size_t kFilesPieceBytes =
    512 * 1024;  // a checkpoint's file list in one message or event
// limit: checkpoints and outputs: files of one checkpoint, all parts together
inline constexpr uint32_t kCheckpointFilesMax = 200'000;
// limit: checkpoints and outputs: files of one part
inline constexpr uint32_t kPartFilesMax = 20'000;
// limit: checkpoints and outputs: names and hashes of a part's files
inline constexpr size_t kPartListBytesMax = 8 << 20;
// limit: checkpoints and outputs: outputs of one attempt, all nodes together
inline constexpr uint64_t kOutputsBytesMax = 1ull << 40;
// limit: trainers: one line on the trainer socket
inline constexpr size_t kTrainerLineBytesMax = 1 << 20;
// limit: trainers: nesting of lists and objects in JSON from a rank; the line is rejected
inline constexpr size_t kJsonDepthMax = 32;
// limit: jobs: the message of a rank's error file
inline constexpr size_t kErrorMessageBytesMax = 8 * 1024;
// limit: jobs: the end of a failed rank's stderr, kept with its exit
inline constexpr size_t kLastLinesBytesMax = 4 * 1024;
// limit: jobs: failures of an attempt that keep their full text; later ones are cut
inline constexpr uint32_t kFailuresToldInFull = 64;
// limit: jobs: what a failure after those is cut to
inline constexpr size_t kFailureShortBytes = 200;
// limit: jobs: one sentence, from any source
inline constexpr size_t kReasonBytesMax = 4 * 1024;
// limit: jobs: ranks of one job
inline constexpr uint32_t kRanksMax = 100'000;
// limit: nodes: nodes of one coordinator
inline constexpr uint32_t kNodesMax = 10'000;
// limit: jobs: queued and running jobs of one coordinator
inline constexpr uint32_t kLiveJobsMax = 100'000;
// limit: nodes: one text that a worker reports about its node
inline constexpr size_t kFactBytesMax = 256;
// limit: nodes: devices of one node
inline constexpr uint32_t kNodeDevicesMax = 4'096;
// limit: jobs: a job's label, a node's name
inline constexpr size_t kNameBytesMax = 100;
inline constexpr size_t kRendezvousSecretBytes = 32;
// limit: jobs: attempts in a job's record; older ones stay in its events
inline constexpr int kAttemptsKept = 20;
// limit: checkpoints and outputs: attempts of a job whose outputs are kept; those of older ones are removed
inline constexpr int kOutputsKept = 10;
// limit: logs: an attempt's undelivered output on a node, by default; backpressure through the ranks' pipes, and
// after 10 s without progress output is dropped and counted (`logs: drop`), or backpressure continues
inline constexpr uint64_t kSpoolQuotaBytes =
    256ull << 20;  // default: output of one attempt on one node not yet uploaded
// limit: logs: bytes of one rank's stream, dropped ones included
inline constexpr uint64_t kLogStreamBytesMax =
    1ull << 43;  // bytes of one rank's stream, dropped ones included

}  // namespace muster::common
