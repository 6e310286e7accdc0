// Collectives between two ranks, here two threads of one process, each with its own store client and group.
#include <chrono>
#include <thread>

#include "test.h"

static void two_ranks(const char* name, int64_t timeout_ms, void (*body)(int rank, sn_comm comm)) {
  void* server = nullptr;
  int port = 0;
  OK(sn_store_open("127.0.0.1", 0, 1, 2, 5000, &server, &port));
  const auto rank = [&](int r) {
    void* store = server;
    int same = 0;
    if (r == 1) OK(sn_store_open("127.0.0.1", port, 0, 2, 5000, &store, &same));
    sn_comm comm = nullptr;
    OK(sn_gloo_open(store, name, r, 2, timeout_ms, &comm));
    if (comm) body(r, comm);
    sn_comm_close(comm);
    if (r == 1) sn_store_close(store);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  sn_store_close(server);
}

TEST(collectives) {
  two_ranks("collectives", 20000, [](int rank, sn_comm comm) {
    Tensor t({3}, {1.0f + rank, 2, 3}), top({1}, {5.0f * rank}), mine({2}, {10.0f * rank, 10.0f * rank + 1}), all, part, told({1}, {7.0f + rank});
    OK(sn_all_reduce_(comm, t, 0));
    near("sum", t.values(), {3, 4, 6});
    OK(sn_all_reduce_(comm, top, 1));
    near("max", top.values(), {5});
    OK(sn_all_gather(comm, mine, 2, all.out()));
    near("all_gather", all.values(), {0, 1, 10, 11});
    Tensor whole({4}, {1, 2, 3, 4.0f + rank});
    OK(sn_reduce_scatter(comm, whole, 2, part.out()));
    // rank 0 gets 1+1, 2+2; rank 1 gets 3+3, 4+5
    near("reduce_scatter", part.values(), rank == 0 ? std::vector<double>{2, 4} : std::vector<double>{6, 9});
    OK(sn_broadcast_(comm, told, 1));
    near("broadcast", told.values(), {8});
    Tensor odd({3}, {1, 2, 3});
    sn_tensor none = nullptr;
    FAILS(sn_reduce_scatter(comm, odd, 2, &none), SN_ERROR, "[3] does not divide by 2");
    OK(sn_barrier(comm));
  });
}

// A rank that does not come must be an error within the deadline, not a hang.
TEST(a_missing_rank_is_an_error_in_time) {
  two_ranks("missing", 1500, [](int rank, sn_comm comm) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(4000));
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    Tensor t({1}, {1});
    FAILS(sn_all_reduce_(comm, t, 0), SN_DIST, "");
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(s < 3.5, "it took %.1f s", s);
  });
}

TEST(no_store) {
  sn_comm comm = nullptr;
  FAILS(sn_gloo_open(nullptr, "x", 0, 1, 1000, &comm), SN_VALUE, "the store is closed");
  Tensor t({1}, {1});
  FAILS(sn_all_reduce_(nullptr, t, 0), SN_VALUE, "the group is closed");
}
