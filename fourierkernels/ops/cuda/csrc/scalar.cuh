// Numbers as significand and exponent, for host and device, without torch: products of the factors
// of any number of features underflow nowhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FK_HD __host__ __device__ __forceinline__
#define FK_RARE __host__ __device__ __noinline__
#define FK_PROGRAM __device__ __forceinline__
#define FK_PRAGMA(TEXT) _Pragma(#TEXT)
#define FK_UNROLL FK_PRAGMA(unroll)
#define FK_UNROLL_BY(COUNT) FK_PRAGMA(unroll(COUNT))
#define FK_ROLL FK_PRAGMA(unroll 1)
#else
#define FK_HD inline
#define FK_RARE inline
#define FK_PROGRAM inline
#define FK_UNROLL
#define FK_UNROLL_BY(COUNT)
#define FK_ROLL
#endif

namespace fk {

// Added to the exponent by a factor that is zero; no product of other factors gets so low.
constexpr int kZero = -(1 << 24);
// Exponent of a weight that is zero; below all others, and far from the end of int.
constexpr int kNone = -(1 << 30);
// Powers of two beyond which an additive mask has an exponent of its own: see `rank_of`.
constexpr int kLargestBias = 1 << 28;

template <class Real>
struct Format;

template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int digits = 23, bias = 127, exponents = 0xff;
  static constexpr float far = 128;      // of u: eight differences up to 2^8 divide within range
  static constexpr float tiny = 1e-22f;  // beside s x, which is above 1e-15 or exactly zero
  static constexpr float log2e_high = 1.44269502162933349609375f, log2e_low = 1.92596299e-8f;
};

template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int digits = 52, bias = 1023, exponents = 0x7ff;
  static constexpr double far = 1ll << 60;
  static constexpr double tiny = 1e-200;
  static constexpr double log2e_high = 1.4426950408889634, log2e_low = 2.0355273740931033e-17;
};

template <class To, class From>
FK_HD To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// 2^n for any n: zero below the normal numbers, the largest power above them.
template <class Real>
FK_HD Real two_to(int n) {
  using F = Format<Real>;
  using Bits = typename F::Bits;
  const int field = (n > F::bias ? F::bias : n) + F::bias;
  return n < 1 - F::bias ? Real(0) : bits_as<Real>(Bits(field) << F::digits);
}

template <class Real>
FK_HD bool is_finite(Real x) {
  return x - x == Real(0);
}

// 1/b to one unit in the last place for |b| within 2^-126 and 2^126: all that is divided by here
// is. __fdividef takes care of larger ones, which costs as much again as the quotient.
FK_HD float reciprocal(float b) {
#ifdef __CUDA_ARCH__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(b));
  return result;
#else
  return 1.0f / b;
#endif
}

FK_HD float divide(float a, float b) { return a * reciprocal(b); }
FK_HD double divide(double a, double b) { return a / b; }

// ---- a number as significand and exponent ------------------------------------------------------

template <class Real>
struct Scaled {
  Real significand;  // 1 <= |significand| < 2 after `renormalise`
  int exponent;      // value = significand 2^exponent
};

// The exponent moves from the significand to where it cannot underflow. Zero is marked by kZero.
template <class Real>
FK_HD void renormalise(Scaled<Real>& w) {
  using F = Format<Real>;
  using Bits = typename F::Bits;
  const Bits mask = Bits(F::exponents) << F::digits;
  const Bits bits = bits_as<Bits>(w.significand);
  const int field = int((bits & mask) >> F::digits);
  w.exponent += field == 0 ? kZero : field - F::bias;
  w.significand = bits_as<Real>((bits & ~mask) | (Bits(F::bias) << F::digits));
}

template <class Real>
FK_HD void multiply(Scaled<Real>& w, Real factor) {
  w.significand *= factor;
  renormalise(w);
}

template <class Real>
FK_HD bool is_zero(const Scaled<Real>& w) {
  return w.exponent < kZero / 2;
}

// w^l. Up to kDirectPower the significand is left below 2^l, which costs no rescaling.
constexpr int kDirectPower = 16;

template <class Real>
FK_HD Scaled<Real> power_of(Scaled<Real> base, int l) {
  if (is_zero(base)) return {Real(0), kNone};
  Scaled<Real> result = {Real(1), 0};
  const bool rescale = l > kDirectPower;
  for (;;) {
    if (l & 1) {
      result.exponent += base.exponent;
      result.significand *= base.significand;
      if (rescale) renormalise(result);
    }
    l >>= 1;
    if (l == 0) return result;
    base.exponent *= 2;
    base.significand *= base.significand;
    if (rescale) renormalise(base);
  }
}

// The default power, without branches.
template <class Real>
FK_HD Scaled<Real> fourth_power(Scaled<Real> base) {
  const bool zero = is_zero(base);
  const Real square = base.significand * base.significand;
  return {zero ? Real(0) : square * square, zero ? kNone : 4 * base.exponent};
}

FK_HD float exp2_of(float x) { return exp2f(x); }
FK_HD double exp2_of(double x) { return exp2(x); }

// Takes the place of the exponent of e^bias beyond kLargestBias. In order: 32 ranks from one power
// of two to the next, 2^14 apart, so that the smaller of two weights of different rank is zero.
template <class Real>
FK_HD int rank_of(Real bias) {
  using F = Format<Real>;
  const auto bits = bits_as<typename F::Bits>(bias);
  const int steps = int(bits >> (F::digits - 5) & (32 * (F::exponents + 1) - 1)) - 32 * F::bias;
  const int size = kLargestBias + (steps << 14);
  return bias > 0 ? size : -size;
}

// w e^bias beyond kLargestBias: of log|w| stays what its sum with the bias keeps, as it is rounded.
template <class Real>
FK_RARE Scaled<Real> times_large_exp(Scaled<Real> w, Real bias) {
  using F = Format<Real>;
  if (w.significand == Real(0)) return w;
  const Real log_2 = Real(0.69314718055994531);
  const Real score = std::log(std::abs(w.significand)) + Real(w.exponent) * log_2;
  const Real kept = ((score + bias) - bias) * F::log2e_high, whole = std::rint(kept);
  return {std::copysign(exp2_of(kept - whole), w.significand), int(whole) + rank_of(bias)};
}

// w e^bias; minus infinity gives zero, plus infinity and NaN give NaN.
template <class Real>
FK_HD void multiply_exp(Scaled<Real>& w, Real bias) {
  using F = Format<Real>;
  const Real whole = std::rint(bias * F::log2e_high);
  if (whole >= -Real(kLargestBias) && whole <= Real(kLargestBias)) {
    const Real rest = std::fma(bias, F::log2e_high, -whole) + bias * F::log2e_low;
    w.significand *= exp2_of(rest);  // 2^-1/2 to 2^1/2
    w.exponent += int(whole);
  } else if (is_finite(bias)) {
    w = times_large_exp(w, bias);  // by value, or weights would leave their registers
  } else if (bias < 0) {
    w = {Real(0), kNone};
  } else {
    w.significand = Real(NAN);
  }
}

}  // namespace fk
