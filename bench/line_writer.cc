// Writes LINES lines of exactly 100 bytes to standard output through stdio, like a chatty trainer.
// Run once into a plain file and once under Muster, the same program measures both.
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  const long lines = argc > 1 ? std::atol(argv[1]) : 1'000'000;
  for (long i = 0; i < lines; ++i) {
    std::printf("step %010ld loss 0.43127 accuracy 0.98123 samples/s 12345.6 %-35s\n", i,
                "padding");
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
