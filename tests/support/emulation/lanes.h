// What both engines share: the lanes of a block, where they meet, and what counts as a failure.
#pragma once

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned count() const { return x * y * z; }
};

namespace emulation {

constexpr int kMostLanes = 1024;
constexpr int kWarp = 32;
constexpr unsigned char kPoison = 0xff;  // NaN as float and double, -1 as int

using Site = const char*;  // of a barrier: one address for each instance of a function

// Lanes that wait for each other, each with a value that the others may read. A lane is at most one
// meeting ahead of the slowest, so that two sets of values do.
struct Group {
  int expected = 0, arrived = 0;
  unsigned long phase = 0;
  Site site = nullptr;
  std::vector<uint64_t> values[2];

  explicit Group(int expected, int places) : expected(expected) {
    for (auto& each : values) each.resize(places);
  }

  // Returns what is wrong, or nothing.
  std::string arrive(int place, uint64_t value, Site from) {
    if (arrived > 0 && site != from)
      return std::string("lanes wait at two barriers: ") + site + " and " + from;
    site = from;
    values[phase & 1][place] = value;
    if (++arrived == expected) {
      arrived = 0;
      ++phase;
    }
    return "";
  }
};

// The lanes of a warp that a mask names.
using WarpGroups = std::map<std::pair<int, unsigned>, std::unique_ptr<Group>>;

inline Group& group_of_warp(WarpGroups& groups, int warp, unsigned mask) {
  auto& group = groups[{warp, mask}];
  if (!group) group = std::make_unique<Group>(__builtin_popcount(mask), kWarp);
  return *group;
}

// Numbers for the orders of lanes and blocks; an order of 1 is 0, 1, 2, ..., one of -1 its reverse.
struct Shuffle {
  uint64_t state;
  int order;
  explicit Shuffle(int order) : state(0x9e3779b97f4a7c15u * uint64_t(order) + 1), order(order) {}

  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }

  void operator()(std::vector<int>& items) {
    std::iota(items.begin(), items.end(), 0);
    if (order == -1) std::reverse(items.begin(), items.end());
    if (order == 1 || order == -1) return;
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[next() % i]);
  }
};

inline int g_order = 1;

}  // namespace emulation

extern "C" __attribute__((weak, used)) void fk_set_order(int order) { emulation::g_order = order; }
