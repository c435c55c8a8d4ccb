// Every limit on what crosses a process boundary, with its unit. A queue's own limit is declared
// next to the queue.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::common {

inline constexpr size_t kSpecBytesMax = 256 * 1024;  // a job spec, serialized
inline constexpr size_t kControlMessageBytesMax =
    4 << 20;  // one gRPC message on a control stream or unary call
inline constexpr size_t kBulkMessageBytesMax = 4 << 20;     // one gRPC message of bulk data
inline constexpr size_t kLogChunkBytesMax = 256 * 1024;     // data of one LogChunk
inline constexpr size_t kBlobChunkBytes = 1 << 20;          // data of one BlobChunk
inline constexpr size_t kObjectChunkBytesMax = 256 * 1024;  // data of one ObjectChunk
inline constexpr size_t kControlPieceBytes = 1 << 20;       // of a control message sent in pieces
inline constexpr size_t kControlWholeBytesMax = 32 << 20;   // … and of all its pieces
inline constexpr size_t kAnswerBytesMax = 2 << 20;          // one response to a client
inline constexpr size_t kJournalRecordBytesMax = 1 << 20;   // one event
inline constexpr size_t kFilesPieceBytes =
    512 * 1024;  // a checkpoint's file list in one message or event
inline constexpr uint32_t kCheckpointFilesMax = 200'000;   // of one checkpoint, all parts together
inline constexpr uint32_t kPartFilesMax = 20'000;          // of one part
inline constexpr size_t kPartListBytesMax = 8 << 20;       // its names and hashes
inline constexpr uint64_t kOutputsBytesMax = 1ull << 40;   // of one attempt, all nodes together
inline constexpr size_t kTrainerLineBytesMax = 1 << 20;    // one line on the trainer socket
inline constexpr size_t kJsonDepthMax = 32;                // nesting of lists and objects
inline constexpr size_t kErrorMessageBytesMax = 8 * 1024;  // from an error file
inline constexpr size_t kLastLinesBytesMax = 4 * 1024;     // end of a failed rank's stderr
inline constexpr uint32_t kFailuresToldInFull = 64;        // of one attempt; later ones are cut …
inline constexpr size_t kFailureShortBytes = 200;          // … to that
inline constexpr size_t kReasonBytesMax = 4 * 1024;        // one sentence, from any source
inline constexpr uint32_t kRanksMax = 100'000;             // ranks of one job
inline constexpr uint32_t kNodesMax = 10'000;              // nodes of one coordinator
inline constexpr uint32_t kLiveJobsMax = 100'000;   // queued and running jobs of one coordinator
inline constexpr size_t kFactBytesMax = 256;        // one text that a worker reports about its node
inline constexpr uint32_t kNodeDevicesMax = 4'096;  // of one node
inline constexpr size_t kNameBytesMax = 100;        // a job's label, a node's name
inline constexpr int kAttemptsKept = 20;  // attempts in a job record; older ones stay in its events
inline constexpr int kOutputsKept = 10;   // attempts of a job whose outputs are kept
inline constexpr uint64_t kSpoolQuotaBytes =
    256ull << 20;  // default: output of one attempt on one node not yet uploaded
inline constexpr uint64_t kLogStreamBytesMax =
    1ull << 43;  // bytes of one rank's stream, dropped ones included

}  // namespace muster::common
