// Lanes as threads of the system, all blocks of a launch at once, for the sanitizers: nothing but
// the barriers of the sources orders what two lanes do, and nothing at all what two blocks do.
// What is wrong ends the process.
#pragma once

#include <pthread.h>

inline thread_local uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace emulation {

struct Block {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  int exited = 0;
  Group whole;
  WarpGroups warps;
  std::unique_ptr<char[]> shared;  // of the size asked for to the byte
  std::map<const void*, std::unique_ptr<char[]>> variables;
  uint3 place;

  Block(int lanes, size_t bytes, uint3 place)
      : whole(lanes, kMostLanes), shared(new char[bytes]), place(place) {
    memset(shared.get(), kPoison, bytes);
  }
};

inline thread_local Block* t_block;

[[noreturn]] inline void fail(const std::string& message) {
  fprintf(stderr, "emulation: %s\n", message.c_str());
  fflush(stderr);
  _Exit(3);
}

struct Locked {
  Block& block;
  explicit Locked(Block& block) : block(block) { pthread_mutex_lock(&block.lock); }
  ~Locked() { pthread_mutex_unlock(&block.lock); }
};

inline const std::vector<uint64_t>& meet(Group& group, int place, uint64_t value, Site site) {
  Block& block = *t_block;
  const Locked locked(block);
  const unsigned long phase = group.phase;
  const std::string wrong = group.arrive(place, value, site);
  if (!wrong.empty()) fail(wrong);
  if (&group == &block.whole && block.exited > 0)
    fail(std::string("a lane waits at a barrier after another has returned: ") + site);
  if (group.phase != phase) pthread_cond_broadcast(&block.changed);
  while (group.phase == phase) pthread_cond_wait(&block.changed, &block.lock);
  return group.values[phase & 1];
}

inline Group& block_group() { return t_block->whole; }
inline Group& warp_group(int warp, unsigned mask) {
  const Locked locked(*t_block);
  return group_of_warp(t_block->warps, warp, mask);
}
inline char* dynamic_shared() { return t_block->shared.get(); }

template <class T>
T& shared_variable(const void* key) {
  const Locked locked(*t_block);
  auto& memory = t_block->variables[key];
  if (!memory) {
    memory.reset(new char[sizeof(T)]);
    memset(memory.get(), kPoison, sizeof(T));
  }
  return *reinterpret_cast<T*>(memory.get());
}

struct Start {
  Block* block;
  const std::function<void()>* body;
  int lane;
};

inline void* live(void* given) {
  const Start& start = *static_cast<Start*>(given);
  t_block = start.block;
  blockIdx = start.block->place;
  threadIdx = {unsigned(start.lane) % blockDim.x, unsigned(start.lane) / blockDim.x, 0};
  (*start.body)();
  const Locked locked(*start.block);
  ++start.block->exited;
  if (start.block->whole.arrived > 0)
    fail(std::string("a lane returns while others wait at a barrier: ") + start.block->whole.site);
  return nullptr;
}

inline std::string run_grid(dim3 grid, dim3 block, size_t bytes, std::function<void()> body) {
  gridDim = grid;
  blockDim = block;
  const int lanes = int(block.count());
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<Start> starts;
  for (unsigned at = 0; at < grid.count(); ++at) {
    const uint3 place = {at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y};
    blocks.push_back(std::make_unique<Block>(lanes, bytes, place));
    for (int lane = 0; lane < lanes; ++lane) starts.push_back({blocks.back().get(), &body, lane});
  }
  std::vector<pthread_t> threads(starts.size());
  for (size_t i = 0; i < starts.size(); ++i)
    if (pthread_create(&threads[i], nullptr, live, &starts[i]) != 0)
      fail("the system has no more threads: take a smaller problem");
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return "";
}

}  // namespace emulation
