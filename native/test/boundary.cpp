// The border between C++ and C: every exception becomes a code and a message of that same call, and nothing is lost.
#include "test.h"

TEST(every_exception_has_its_code) {
  const struct {
    int kind, code;
    const char* text;
  } cases[] = {
      {0, SN_ERROR, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"},
      {1, SN_ERROR, "index_select"},
      {2, SN_OUT_OF_MEMORY, ""},
      {3, SN_OUT_OF_MEMORY, "std::bad_alloc"},
      {4, SN_UNKNOWN, "unknown C++ exception"},
      {5, SN_STD, "a plain runtime error"},
      {6, SN_INDEX, "out of range"},
      {7, SN_DIST, "a peer is gone"},
      {8, SN_UNSUPPORTED, "CUDA"},
      {99, SN_ERROR, "no such kind"},
  };
  for (int round = 0; round < 20; round++)
    for (const auto& c : cases) FAILS(sn_test_throw(c.kind), c.code, c.text);
}

TEST(the_process_goes_on_after_an_error) {
  Tensor a({2, 3}, {1, 2, 3, 4, 5, 6}), b({3, 2}, {1, 0, 0, 1, 1, 1}), bad({2, 2}, {1, 2, 3, 4}), c;
  sn_tensor none = nullptr;
  FAILS(sn_binary(4, a, bad, &none), SN_ERROR, "2x3 and 2x2");
  CHECK(none == nullptr);
  OK(sn_binary(4, a, b, c.out()));
  // [1 2 3; 4 5 6] @ [1 0; 0 1; 1 1] = [1+3, 2+3; 4+6, 5+6]
  near("matmul", c.values(), {4, 5, 10, 11});
}

TEST(wrong_handles_and_codes) {
  sn_tensor out = nullptr;
  const int64_t shape[] = {2};
  FAILS(sn_unary(0, nullptr, &out), SN_VALUE, "freed");
  FAILS(sn_empty(shape, 1, 77, SN_CPU, &out), SN_ERROR, "dtype code 77");
  FAILS(sn_empty(shape, 1, SN_F32, 77, &out), SN_ERROR, "device code 77");
  const int64_t negative[] = {-1};
  FAILS(sn_empty(negative, 1, SN_F32, SN_CPU, &out), SN_ERROR, "");
  CHECK(out == nullptr);
  sn_free(nullptr);
}

TEST(the_handle_counter_counts) {
  const int64_t before = sn_live(), shape[] = {3};
  sn_tensor t[3];
  for (auto& x : t) OK(sn_full(shape, 1, 1.0, SN_F32, SN_CPU, &x));
  CHECK(sn_live() == before + 3);
  sn_free_many(t, 3);
  CHECK(sn_live() == before);
}

TEST(host_copies_have_the_right_size) {
  const int64_t shape[] = {2, 2};
  std::vector<float> host(4, 1.5f), back(4);
  Tensor t;
  OK(sn_from_host(host.data(), 16, shape, 2, SN_F32, t.out()));
  host.assign(4, 0);  // a copy: later changes do not show
  OK(sn_to_host(t, back.data(), 16));
  CHECK(back[0] == 1.5f && back[3] == 1.5f);
  FAILS(sn_to_host(t, back.data(), 12), SN_ERROR, "");
  sn_tensor none = nullptr;
  FAILS(sn_from_host(host.data(), 12, shape, 2, SN_F32, &none), SN_ERROR, "");
}

TEST(openmp_team_is_whole) {
  // Without -fopenmp at::parallel_for runs on one thread and says nothing.
  CHECK(sn_openmp_threads() == sn_get_num_threads(), "%d of %d", sn_openmp_threads(), sn_get_num_threads());
}

TEST(cuda_without_plugin) {
  CHECK(sn_cuda_devices() == 0);
  sn_memory memory;
  FAILS(sn_cuda_memory(0, &memory), SN_UNSUPPORTED, "CUDA is not open");
  FAILS(sn_cuda_open("/no/such/plugin.so"), SN_UNSUPPORTED, "/no/such/plugin.so");
}
