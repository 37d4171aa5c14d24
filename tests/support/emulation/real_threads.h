// Lanes as threads of the system, the blocks of a launch side by side, for the sanitizers: nothing
// but the barriers of the sources orders what two lanes do, and nothing what two blocks do. What is
// wrong ends the process.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

inline thread_local uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace emulation {

constexpr int kMostThreads = 1024;

// A number that threads wait for to change; a change is seen with all that was written before it.
class Turn {
 public:
  unsigned now() const { return value_.load(std::memory_order_acquire); }
  void wait_beyond(unsigned old) {
    while (now() == old) syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, nullptr);
  }
  void next() {
    value_.fetch_add(1, std::memory_order_acq_rel);
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX);
  }

 private:
  std::atomic<unsigned> value_{0};
};

struct Block {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int exited = 0;
  Group whole;
  WarpGroups warps;
  std::map<const Group*, Turn> turns;
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
  Turn* turn;
  unsigned before;
  bool last;
  {
    const Locked locked(block);
    turn = &block.turns[&group];
    before = group.phase;
    const std::string wrong = group.arrive(place, value, site);
    if (!wrong.empty()) fail(wrong);
    if (&group == &block.whole && block.exited > 0)
      fail(std::string("a lane waits at a barrier after another has returned: ") + site);
    last = group.phase != before;
  }
  if (last)
    turn->next();
  else
    turn->wait_beyond(before);
  return group.values[before & 1];
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

// ---- threads, kept from launch to launch -------------------------------------------------------

struct Work {
  std::vector<std::unique_ptr<Block>> blocks;
  std::function<void()> body;
  int lanes = 0, threads = 0;
};

struct Pool {
  int size = 0;
  Work work;
  Turn begun, ended;
  std::atomic<int> busy{0};
};

inline Pool g_pool;

inline void run_lane(Block& block, int lane, const std::function<void()>& body) {
  t_block = &block;
  blockIdx = block.place;
  threadIdx = {unsigned(lane) % blockDim.x, unsigned(lane) / blockDim.x, 0};
  body();
  const Locked locked(block);
  ++block.exited;
  if (block.whole.arrived > 0)
    fail(std::string("a lane returns while others wait at a barrier: ") + block.whole.site);
}

inline void* live(void* given) {
  const int me = int(reinterpret_cast<intptr_t>(given));
  for (unsigned launch = 0;; ++launch) {
    g_pool.begun.wait_beyond(launch);
    const Work& work = g_pool.work;
    if (me < work.threads)  // a lane of every so many blocks, one after the other
      for (size_t at = me / work.lanes; at < work.blocks.size(); at += work.threads / work.lanes)
        run_lane(*work.blocks[at], me % work.lanes, work.body);
    if (g_pool.busy.fetch_sub(1, std::memory_order_acq_rel) == 1) g_pool.ended.next();
  }
  return nullptr;
}

// All threads are made at once, before the first launch.
inline void fill_pool() {
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (; g_pool.size < kMostThreads; ++g_pool.size) {
    pthread_t thread;
    void* name = reinterpret_cast<void*>(intptr_t(g_pool.size));
    if (pthread_create(&thread, &detached, live, name) != 0) fail("the system has too few threads");
  }
}

inline std::string run_grid(dim3 grid, dim3 block, size_t bytes, std::function<void()> body) {
  fill_pool();
  gridDim = grid;
  blockDim = block;
  Work work;
  work.body = std::move(body);
  work.lanes = int(block.count());
  for (unsigned at = 0; at < grid.count(); ++at) {
    const uint3 place = {at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y};
    work.blocks.push_back(std::make_unique<Block>(work.lanes, bytes, place));
  }
  work.threads = work.lanes * std::min(int(grid.count()), kMostThreads / work.lanes);
  g_pool.work = std::move(work);
  g_pool.busy.store(g_pool.size, std::memory_order_release);
  const unsigned before = g_pool.ended.now();
  g_pool.begun.next();
  g_pool.ended.wait_beyond(before);
  g_pool.work.blocks.clear();
  return "";
}

}  // namespace emulation
