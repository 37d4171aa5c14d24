// Barriers, votes and shuffles. Lanes of a warp do not run in step: only these make them meet.
#pragma once

namespace emulation {

inline int lane_of_block() { return int(threadIdx.x + blockDim.x * threadIdx.y); }

inline const std::vector<uint64_t>& meet_block(uint64_t value, Site site) {
  return meet(block_group(), lane_of_block(), value, site);
}

inline const std::vector<uint64_t>& meet_warp(unsigned mask, uint64_t value, Site site) {
  const int lane = lane_of_block() % kWarp, warp = lane_of_block() / kWarp;
  if (!(mask >> lane & 1)) fail(std::string("a lane is not in the mask it gives: ") + site);
  return meet(warp_group(warp, mask), lane, value, site);
}

inline int count_of_block(bool given, Site site) {
  const auto& all = meet_block(given, site);
  return int(std::accumulate(all.begin(), all.begin() + blockDim.count(), uint64_t(0)));
}

inline unsigned ballot(unsigned mask, bool given, Site site) {
  const auto& all = meet_warp(mask, given, site);
  unsigned found = 0;
  for (int lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1) found |= unsigned(all[lane] & 1) << lane;
  return found;
}

// The value of another lane; of a lane that the mask leaves out CUDA says nothing.
template <class T>
T shuffled(unsigned mask, T value, int from, Site site) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "values of up to eight bytes are shuffled");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  const auto& all = meet_warp(mask, bits, site);
  if (!(mask >> from & 1)) fail(std::string("a lane reads one that takes no part: ") + site);
  memcpy(&value, &all[from], sizeof(T));
  return value;
}

inline int lane_of_warp() { return lane_of_block() % kWarp; }

// Lanes are taken in groups of `width`; what would come from outside the group is the own value.
inline int within(int target, int width, bool inside) {
  const int lane = lane_of_warp(), begin = lane / width * width;
  return inside && target >= begin && target < begin + width ? target : lane;
}

}  // namespace emulation

// __PRETTY_FUNCTION__ tells steps of one template apart: each has an array of its own.
#define __syncthreads() ((void)::emulation::meet_block(0, __PRETTY_FUNCTION__))
#define __syncthreads_or(p) int(::emulation::count_of_block((p), __PRETTY_FUNCTION__) > 0)
#define __syncthreads_and(p) \
  int(::emulation::count_of_block((p), __PRETTY_FUNCTION__) == int(blockDim.count()))
#define __syncthreads_count(p) ::emulation::count_of_block((p), __PRETTY_FUNCTION__)
#define __syncwarp(...) ::emulation::sync_warp(::emulation::Mask{__VA_ARGS__}, __PRETTY_FUNCTION__)
#define __ballot_sync(mask, p) ::emulation::ballot((mask), (p), __PRETTY_FUNCTION__)
#define __any_sync(mask, p) int(::emulation::ballot((mask), (p), __PRETTY_FUNCTION__) != 0)
#define __all_sync(mask, p) int(::emulation::ballot((mask), (p), __PRETTY_FUNCTION__) == (mask))
#define __shfl_sync(mask, ...) ::emulation::shfl(__PRETTY_FUNCTION__, (mask), __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) ::emulation::shfl_xor(__PRETTY_FUNCTION__, (mask), __VA_ARGS__)
#define __shfl_up_sync(mask, ...) ::emulation::shfl_up(__PRETTY_FUNCTION__, (mask), __VA_ARGS__)
#define __shfl_down_sync(mask, ...) ::emulation::shfl_down(__PRETTY_FUNCTION__, (mask), __VA_ARGS__)

namespace emulation {

struct Mask {
  unsigned bits = ~0u;
};

inline void sync_warp(Mask mask, Site site) { meet_warp(mask.bits, 0, site); }

template <class T>
T shfl(Site site, unsigned mask, T value, int from, int width = kWarp) {
  const int begin = lane_of_warp() / width * width;
  return shuffled(mask, value, begin + (from & (width - 1)), site);
}

template <class T>
T shfl_xor(Site site, unsigned mask, T value, int bits, int width = kWarp) {
  const int lane = lane_of_warp(), target = lane ^ bits;
  // Groups below the own one may be read, those above not.
  return shuffled(mask, value, target < (lane / width + 1) * width ? target : lane, site);
}

template <class T>
T shfl_up(Site site, unsigned mask, T value, int by, int width = kWarp) {
  return shuffled(mask, value, within(lane_of_warp() - by, width, true), site);
}

template <class T>
T shfl_down(Site site, unsigned mask, T value, int by, int width = kWarp) {
  return shuffled(mask, value, within(lane_of_warp() + by, width, true), site);
}

}  // namespace emulation
