// Intrinsics. The approximate ones err here as they may on a card: within the bounds that the
// programming guide and the PTX reference state, in a direction that the operands decide.
#pragma once

namespace emulation {

inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

constexpr float kSmallestNormal = 1.17549435e-38f;

inline float flushed(float x) {
  return std::fabs(x) < kSmallestNormal ? std::copysign(0.0f, x) : x;
}

inline uint32_t hashed(uint32_t bits) { return (bits * 2654435761u) >> 16; }

inline bool power_of_two(float x) { return (bits_of(x) & 0x7fffff) == 0; }

inline bool normal(float x) { return std::fabs(x) >= kSmallestNormal && !std::isinf(x); }

// 1/x, rounded up or down; exact for powers of two.
inline float reciprocal(float x) {
  const float nearest = 1.0f / x;
  if (power_of_two(x) || !normal(nearest) || hashed(bits_of(x)) % 2) return nearest;
  const bool short_of_it = double(nearest) * x < 1.0;  // exact in double
  return float_of(bits_of(nearest) + (short_of_it ? 1u : ~0u));
}

// rcp.approx.ftz.f32: subnormal operands and results are zero.
inline void ptx_rcp_approx_ftz_f32(float& to, float x) { to = flushed(reciprocal(flushed(x))); }

// div.approx.f32: for |b| up to 2^126 within two units in the last place, beyond it zero.
inline float approximate_quotient(float a, float b) {
  if (std::fabs(b) > 8.507059173023462e37f && !std::isinf(b))
    return std::isinf(a) ? NAN : 0.0f * a * b;
  const float nearest = a / b;
  if (power_of_two(b) || !normal(nearest)) return nearest;
  return float_of(bits_of(nearest) + hashed(bits_of(a) ^ bits_of(b)) % 3 - 1);
}

inline void ptx_div_approx_ftz_f32(float& to, float a, float b) {
  to = flushed(approximate_quotient(flushed(a), flushed(b)));
}

inline void ptx_div_approx_f32(float& to, float a, float b) { to = approximate_quotient(a, b); }

}  // namespace emulation

inline float __fdividef(float a, float b) { return emulation::approximate_quotient(a, b); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }

inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline float __int_as_float(int x) { return emulation::float_of(uint32_t(x)); }
inline float __uint_as_float(unsigned x) { return emulation::float_of(x); }
inline int __float_as_int(float x) { return int(emulation::bits_of(x)); }
inline unsigned __float_as_uint(float x) { return emulation::bits_of(x); }

template <class T>
inline T __ldg(const T* from) {
  return *from;
}

// Read, change, write, as one step for every other lane; relaxed, as on a card.
template <class T, class Change>
inline T atomically(T* at, Change change) {
  T old;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  for (;;) {
    T now = change(old);
    if (__atomic_compare_exchange(at, &old, &now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return old;
  }
}

template <class T>
inline T atomicAdd(T* at, T by) {
  return atomically(at, [=](T old) { return T(old + by); });
}
template <class T>
inline T atomicMax(T* at, T by) {
  return atomically(at, [=](T old) { return std::max(old, by); });
}
template <class T>
inline T atomicMin(T* at, T by) {
  return atomically(at, [=](T old) { return std::min(old, by); });
}
template <class T>
inline T atomicOr(T* at, T by) {
  return atomically(at, [=](T old) { return T(old | by); });
}
template <class T>
inline T atomicExch(T* at, T by) {
  return atomically(at, [=](T) { return by; });
}
