// Prefetching.
#pragma once
#include <cstdint>

namespace sead::SEAD_ISA {

// What will be read next, asked for line by line between the multiply-adds: all at once would wait for each other.
struct Ahead {
  const void* at;
  int64_t lines;  // of 64 bytes
  void take(int64_t n) {
    for (; n > 0 && lines > 0; n--, lines--, at = static_cast<const char*>(at) + 64) __builtin_prefetch(at);
  }
};

}  // namespace sead::SEAD_ISA
