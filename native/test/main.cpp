// Runs the tests, or those whose name holds one of the arguments. Every test must give back what it took.
#include "test.h"

Test* Test::first = nullptr;
int failures = 0, checks = 0;

int main(int argc, char** argv) {
  sn_init();
  printf("libtorch %s, kernels: %s, %d threads\n", sn_versions(), sn_isa(), sn_get_num_threads());
  int ran = 0;
  for (Test* t = Test::first; t; t = t->next) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted = wanted || strstr(t->name, argv[i]);
    if (!wanted) continue;
    const int64_t before = sn_live();
    const int failed = failures;
    t->run();
    CHECK(sn_live() == before, "%s left %ld tensors", t->name, static_cast<long>(sn_live() - before));
    printf("%-6s %s\n", failures == failed ? "ok" : "FAILED", t->name);
    ran++;
  }
  printf("%d tests, %d checks, %d failed\n", ran, checks, failures);
  return failures || !ran;
}
