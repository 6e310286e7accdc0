// A small harness for tests of the C ABI: they call libseadnative as Go does, and run under AddressSanitizer. A test is
// TEST(name) { … }; CHECK tells file and line and goes on. Whatever a test makes it frees: main() counts handles.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "seadnative.h"

struct Test {
  const char* name;
  void (*run)();
  Test* next;
  static Test* first;
  Test(const char* n, void (*f)()) : name(n), run(f), next(first) { first = this; }
};
extern int failures, checks;

#define TEST(name)                              \
  static void test_##name();                    \
  static Test register_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition, ...)                                       \
  do {                                                              \
    checks++;                                                       \
    if (!(condition)) {                                             \
      failures++;                                                   \
      printf("%s:%d: %s ", __FILE__, __LINE__, #condition);         \
      printf(" " __VA_ARGS__);                                      \
      printf("\n");                                                 \
    }                                                               \
  } while (0)

// code_of takes a status apart: its code; the message goes to *text and is freed.
inline int code_of(sn_status s, std::string* text = nullptr) {
  if (text) *text = s.msg ? s.msg : "";
  sn_free_text(s.msg);
  return s.code;
}

#define OK(call)                                                            \
  do {                                                                      \
    std::string text_;                                                      \
    const int code_ = code_of((call), &text_);                              \
    CHECK(code_ == SN_OK, "%s gave %d: %s", #call, code_, text_.c_str());   \
  } while (0)

// FAILS: the call gives this code and a message that holds the text.
#define FAILS(call, want, part)                                                                             \
  do {                                                                                                      \
    std::string text_;                                                                                      \
    const int code_ = code_of((call), &text_);                                                              \
    CHECK(code_ == (want) && text_.find(part) != std::string::npos, "%s gave %d: %s", #call, code_, text_.c_str()); \
  } while (0)

// A handle that frees itself. Data lies in a vector of exactly its size, so that a read past its end is seen.
struct Tensor {
  std::vector<float> data;
  sn_tensor h = nullptr;
  Tensor() = default;
  Tensor(std::vector<int64_t> shape, std::vector<float> values) : data(std::move(values)) {
    OK(sn_from_blob(data.data(), shape.data(), static_cast<int>(shape.size()), SN_F32, &h));
  }
  Tensor(const Tensor&) = delete;
  ~Tensor() { sn_free(h); }
  operator sn_tensor() const { return h; }
  sn_tensor* out() { return &h; }
  std::vector<float> values() const {
    std::vector<float> v(static_cast<size_t>(h ? sn_numel(h) : 0));
    if (h) OK(sn_to_host(h, v.data(), v.size() * sizeof(float)));
    return v;
  }
};

inline std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (auto& x : v) x = normal(gen);
  return v;
}

// near compares with plain double arithmetic, relative to the largest value.
inline void near(const char* what, const std::vector<float>& got, const std::vector<double>& want, double tolerance = 2e-6) {
  CHECK(got.size() == want.size(), "%s: %zu values, want %zu", what, got.size(), want.size());
  double worst = 0, top = 1;
  for (size_t i = 0; i < got.size() && i < want.size(); i++) {
    worst = std::max(worst, std::isfinite(got[i]) ? std::fabs(got[i] - want[i]) : INFINITY);
    top = std::max(top, std::fabs(want[i]));
  }
  CHECK(worst <= tolerance * top, "%s: off by %g of %g", what, worst, top);
}
