// Philox4x32-10 (Salmon et al. 2011), a random function without state: which weights dropout keeps.
//
// The key is the seed, low word first; the counter of a pair is (j / 4, i, head, 0) and its word is
// j mod 4, so that every pass draws the same, in whatever order it meets the pairs.
#pragma once

#include "scalar.cuh"

namespace fk {

struct Words {
  uint32_t at[4];
};

FK_HD uint32_t high_word(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) * b >> 32); }

FK_HD Words philox(Words counter, uint64_t seed) {
  uint32_t low = uint32_t(seed), high = uint32_t(seed >> 32);
  Words c = counter;
  FK_UNROLL for (int round = 0; round < 10; ++round) {
    const uint32_t first = c.at[0], third = c.at[2];
    c = {{high_word(0xCD9E8D57u, third) ^ c.at[1] ^ low, 0xCD9E8D57u * third,
          high_word(0xD2511F53u, first) ^ c.at[3] ^ high, 0xD2511F53u * first}};
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  return c;
}

}  // namespace fk
