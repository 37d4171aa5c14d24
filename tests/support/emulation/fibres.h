// Lanes as fibres of one thread: each runs until it meets the others or returns, in an order that
// is drawn anew at every barrier of the block.
#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace emulation {

constexpr size_t kStack = 1 << 17;
constexpr size_t kPoisoned = 1 << 13;  // of a fibre's stack, before it starts: its registers
constexpr size_t kGuard = 1 << 12;     // bytes around shared memory

// Made once and used again: a new context costs a system call, a jump does not.
struct Fibre {
  ucontext_t context;
  jmp_buf at;
  bool begun = false, exited = true;
  Group* waits = nullptr;
  unsigned long phase = 0;
};

struct Block {
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::function<void()> body;
  jmp_buf scheduler;
  ucontext_t first;
  int current = 0, exited = 0;
  std::string failure;
  Group whole{0, kMostLanes};
  WarpGroups warps;
  std::vector<char> arena;
  size_t bytes = 0;
  std::map<const void*, std::vector<char>> variables;  // __shared__ ones, by their type
};

inline Block g_block;

// A function that calls _setjmp is not inlined, and after it nothing is held in a register.
__attribute__((noinline)) inline void to_scheduler(Fibre& from) {
  if (_setjmp(from.at) == 0) _longjmp(g_block.scheduler, 1);
}

[[noreturn]] inline void fail(const std::string& message) {
  Fibre& me = *g_block.fibres[g_block.current];
  if (g_block.failure.empty()) g_block.failure = message;
  for (;;) to_scheduler(me);
}

__attribute__((noinline)) inline void poison_registers() {
  char below[kPoisoned];
  memset(below, kPoison, sizeof(below));
  asm volatile("" : : "r"(below) : "memory");
}

inline void live() {
  for (;;) {
    poison_registers();
    g_block.body();
    Fibre& me = *g_block.fibres[g_block.current];
    me.exited = true;
    ++g_block.exited;
    if (g_block.whole.arrived > 0)
      fail(std::string("a lane returns while others wait at a barrier: ") + g_block.whole.site);
    to_scheduler(me);
  }
}

__attribute__((noinline)) inline void resume(Fibre& fibre) {
  if (_setjmp(g_block.scheduler) != 0) return;
  if (fibre.begun) _longjmp(fibre.at, 1);
  fibre.begun = true;
  setcontext(&fibre.context);
}

inline std::unique_ptr<Fibre> make_fibre() {
  auto fibre = std::make_unique<Fibre>();
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  mprotect(stack, page, PROT_NONE);  // an overflow stops the process, it does not corrupt another
  getcontext(&fibre->context);
  fibre->context.uc_stack.ss_sp = stack;
  fibre->context.uc_stack.ss_size = kStack;
  fibre->context.uc_link = nullptr;
  makecontext(&fibre->context, live, 0);
  return fibre;
}

// ---- what the lanes call -----------------------------------------------------------------------

inline const std::vector<uint64_t>& meet(Group& group, int place, uint64_t value, Site site) {
  Fibre& me = *g_block.fibres[g_block.current];
  const unsigned long phase = group.phase;
  const std::string wrong = group.arrive(place, value, site);
  if (!wrong.empty()) fail(wrong);
  if (&group == &g_block.whole && g_block.exited > 0)
    fail(std::string("a lane waits at a barrier after another has returned: ") + site);
  me.waits = &group;
  me.phase = phase;
  to_scheduler(me);
  return group.values[phase & 1];
}

inline Group& block_group() { return g_block.whole; }
inline Group& warp_group(int warp, unsigned mask) {
  return group_of_warp(g_block.warps, warp, mask);
}
inline char* dynamic_shared() { return g_block.arena.data() + kGuard; }

template <class T>
T& shared_variable(const void* key) {
  auto& memory = g_block.variables[key];
  if (memory.empty()) memory.assign(sizeof(T) + 64, char(kPoison));
  return *reinterpret_cast<T*>((uintptr_t(memory.data()) + 63) & ~uintptr_t(63));
}

// ---- running blocks ----------------------------------------------------------------------------

inline bool ready(const Fibre& fibre) {
  return !fibre.exited && (fibre.waits == nullptr || fibre.waits->phase != fibre.phase);
}

inline void run_lanes(int lanes, Shuffle& shuffle) {
  std::vector<int> order(lanes);
  unsigned long phase = ~0ul;
  while (g_block.exited < lanes) {
    if (phase != g_block.whole.phase) shuffle(order);
    phase = g_block.whole.phase;
    bool moved = false;
    for (int lane : order) {
      Fibre& fibre = *g_block.fibres[lane];
      if (!ready(fibre)) continue;
      moved = true;
      fibre.waits = nullptr;
      g_block.current = lane;
      threadIdx = {unsigned(lane) % blockDim.x, unsigned(lane) / blockDim.x, 0};
      resume(fibre);
      if (!g_block.failure.empty()) return;
    }
    if (!moved) {
      g_block.failure = "no lane can go on: some wait for lanes that wait elsewhere or returned";
      return;
    }
  }
}

inline void check_guards() {
  const auto intact = [](const char* from, size_t count) {
    return std::all_of(from, from + count, [](char c) { return c == char(kPoison); });
  };
  const char* begin = g_block.arena.data();
  if (!intact(begin, kGuard) || !intact(begin + kGuard + g_block.bytes, kGuard))
    g_block.failure = "a block wrote outside its shared memory";
}

inline void begin_block(int lanes, size_t bytes) {
  while (int(g_block.fibres.size()) < lanes) g_block.fibres.push_back(make_fibre());
  for (int i = 0; i < lanes; ++i) {
    g_block.fibres[i]->exited = false;
    g_block.fibres[i]->waits = nullptr;
  }
  g_block.arena.assign(bytes + 2 * kGuard, char(kPoison));
  g_block.bytes = bytes;
  g_block.exited = 0;
  g_block.whole.expected = lanes;
  g_block.whole.arrived = 0;
  g_block.warps.clear();
  g_block.variables.clear();
}

// Fibres of a failed block are stuck in the middle of it: new ones take their place.
inline void forget_fibres() {
  for (auto& fibre : g_block.fibres) munmap(fibre->context.uc_stack.ss_sp, kStack);
  g_block.fibres.clear();
}

inline std::string run_grid(dim3 grid, dim3 block, size_t bytes, std::function<void()> body) {
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  Shuffle shuffle(g_order);
  std::vector<int> blocks(grid.count());
  shuffle(blocks);
  gridDim = grid;
  blockDim = block;
  g_block.body = std::move(body);
  g_block.failure.clear();
  for (int at : blocks) {
    begin_block(int(block.count()), bytes);
    blockIdx = {unsigned(at) % grid.x, unsigned(at) / grid.x % grid.y,
                unsigned(at) / grid.x / grid.y};
    run_lanes(int(block.count()), shuffle);
    if (g_block.failure.empty()) check_guards();
    if (!g_block.failure.empty()) {
      forget_fibres();
      return g_block.failure;
    }
  }
  return "";
}

}  // namespace emulation
