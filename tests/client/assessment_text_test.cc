// Findings, the ledger and the time left, as people read them.
#include "client/text/assessment_text.h"

#include <gtest/gtest.h>

#include <sstream>

namespace muster::client {
namespace {

v1::Ledger SampleLedger() {
  v1::Ledger ledger;
  ledger.set_total_us(200'000'000);
  ledger.set_wall_us(100'000'000);
  ledger.set_devices(2);
  ledger.set_queue_us(8'000'000);
  ledger.set_compute_us(120'000'000);
  ledger.set_repeated_us(40'000'000);
  ledger.set_restart_us(12'000'000);
  ledger.set_unknown_us(20'000'000);
  ledger.set_goodput(0.6);
  v1::LedgerBlame* blame = ledger.add_blames();
  blame->set_who("rank 1 on node2");
  blame->set_what("2 failures: restarts, repeated steps");
  blame->set_us(52'000'000);
  ledger.set_newest_cause("rank 1 on node2 exited with code 3");
  return ledger;
}

TEST(AssessmentTextTest, TheLedgerIsATableThatFitsAnyTerminal) {
  EXPECT_EQ(LedgerText(SampleLedger(), Terminal{}),
            "Device time: 3m 20s (2 devices, 1m 40s since it was submitted)\n"
            "  queue                 8.0s    4.0 %\n"
            "  start                  0ms    0.0 %\n"
            "  data                   0ms    0.0 %\n"
            "  compute              2m 0s   60.0 %\n"
            "  communication          0ms    0.0 %\n"
            "  checkpoint             0ms    0.0 %\n"
            "  restarts               12s    6.0 %\n"
            "  repeated steps         40s   20.0 %\n"
            "  idle devices           0ms    0.0 %\n"
            "  unknown                20s   10.0 %\n"
            "Goodput: 60.0 % of its device time computed steps that count\n"
            "Lost to rank 1 on node2: 52s (2 failures: restarts, repeated steps)\n"
            "Newest failure: rank 1 on node2 exited with code 3\n");
  std::istringstream lines(LedgerText(SampleLedger(), Terminal{.out_is_tty = true, .width = 80}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(DisplayWidth(line), 80) << line;
}

TEST(AssessmentTextTest, WithoutStepTimesGoodputIsUnknown) {
  v1::Ledger ledger = SampleLedger();
  ledger.clear_goodput();
  EXPECT_NE(LedgerText(ledger, Terminal{}).find("Goodput: unknown"), std::string::npos);
  EXPECT_EQ(GoodputText(ledger), "");
}

TEST(AssessmentTextTest, TheHeadIsTheWorstFindingAndCountsTheOthers) {
  v1::Assessment assessment;
  EXPECT_EQ(FindingHead(assessment, Terminal{}), "");
  v1::Finding* finding = assessment.add_findings();
  finding->set_code("loss-not-finite");
  finding->set_sentence("loss is NaN");
  finding->set_cause("it diverged\x1b[31m");
  finding->set_fix("jobctl cancel x-1");
  v1::FindingNumber* number = finding->add_evidence();
  number->set_name("quiet for");
  number->set_value(75);
  number->set_unit("s");
  finding->set_wasted_device_us(3'000'000);
  EXPECT_EQ(FindingHead(assessment, Terminal{}),
            "! loss is NaN: it diverged\\x1b[31m\n  fix: jobctl cancel x-1\n\n");
  EXPECT_EQ(FindingList(assessment, Terminal{}),
            "! loss is NaN: it diverged\\x1b[31m\n  fix: jobctl cancel x-1\n"
            "  [loss-not-finite] quiet for 1m 15s, wasted 3.0s of device time\n");
  assessment.add_findings()->set_sentence("another");
  EXPECT_NE(FindingHead(assessment, Terminal{}).find("  and 1 more finding below\n"),
            std::string::npos);
}

TEST(AssessmentTextTest, TheTimeLeftIsAbout) {
  EXPECT_EQ(EtaText(754'321), "about 12m 34s");
  EXPECT_EQ(EtaText(0), "about 1s");
}

}  // namespace
}  // namespace muster::client
