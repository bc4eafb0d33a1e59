/* What all kernels are made of: vectors of pixels, elementary functions, the inner loop.
 *
 * The arithmetic of FLAME on a CPU, in plain C with GNU vector types and POSIX threads: no library, no allocation.
 *
 * Every function shares the rows of its output among `threads` (pool.h): what it was called with becomes a job, whose
 * rows any thread can do. It reads and writes planes: one float image a channel, rows `stride` floats apart, channels `plane` floats apart. Images that a 3x3 kernel
 * reads have a border of zeros, a row above and below and SIDE floats left and right.
 *
 * Nearly all the work is one inner loop, `accumulate`: 5 or 4 output channels at 2 vectors of pixels, kept in registers,
 * to which one input row after another ("tap") is added with its weights. A convolution of any size, a 1x1, the inverse
 * Fourier transform along a row and the whitening of spectra are all lists of taps. Fives and fours make up any number of
 * channels from 12 on, so that no lane is idle, and with 5 x 2 sums, 2 inputs and a weight in 16 registers the loop is
 * bound by arithmetic and not by loads. Weights stand as they are used: (block of channels, tap, channel of the block).
 *
 * Compiled once for each instruction set, with SUFFIX naming it.
 */
#ifndef FLAME_VECTORS_H
#define FLAME_VECTORS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "activations.h"
#include "limits.h"
#include "pool.h"
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define EXPORT(name) __attribute__((visibility("default"))) JOIN(name, SUFFIX)

#if defined(LANES) /* given: any width works on any processor, slower where it has no registers for it */
#elif defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define MOST 5           /* output channels of one block */
#define STEP (2 * LANES) /* pixels of one block */
#define AHEAD (2 * STEP) /* floats to fetch ahead */
#define ROWS_AT_ONCE 4
#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vec load(const float *from) { return *(const loose *)from; }
INLINE void store(float *to, vec value) { *(loose *)to = value; }
INLINE vec splat(float value) { return value - (vec){0}; }
INLINE vec choose(ivec which, vec yes, vec no) { return (vec)((which & (ivec)yes) | (~which & (ivec)no)); }
#if LANES == 16 && defined(__AVX512F__)
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vec root(vec a) { return (vec)_mm512_sqrt_ps((__m512)a); }
#elif LANES == 8 && defined(__AVX__)
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vec root(vec a) { return (vec)_mm256_sqrt_ps((__m256)a); }
#else
INLINE vec larger(vec a, vec b) { return choose(a > b, a, b); }
INLINE vec smaller(vec a, vec b) { return choose(a < b, a, b); }
INLINE vec root(vec a) {
    for (int i = 0; i < LANES; i++) a[i] = __builtin_sqrtf(a[i]);
    return a;
}
#endif
INLINE vec magnitude(vec a) { return (vec)((ivec)a & 0x7fffffff); }

/* e^x for x in [-87, 88], relative error 2e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. */
INLINE vec exponential(vec x) {
    x = larger(smaller(x, splat(88.0f)), splat(-87.0f));
    vec shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the integer is in the low bits */
    ivec n = (ivec)shifted - 0x4b400000;
    vec whole = shifted - 12582912.0f;
    vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vec p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (vec)((n + 127) << 23);
}

/* Natural logarithm of a normal positive number, error one unit in the last place; near 1 too. */
INLINE vec logarithm(vec x) {
    ivec bits = (ivec)x;
    ivec e = (bits - 0x3f3504f3) >> 23; /* x / 2^e lies in [sqrt 1/2, sqrt 2) */
    vec m = (vec)(bits - (e << 23)) - 1.0f;
    vec n = __builtin_convertvector(e, vec);
    vec p = splat(7.0376836292e-2f);
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    vec square = m * m;
    vec rest = p * m * square + n * -2.12194440e-4f - 0.5f * square;
    return m + rest + n * 0.693359375f;
}

/* log(1 + e^x), error 1.2e-7: a polynomial in e^-|x|. */
INLINE vec softplus(vec x) {
    vec e = exponential(-magnitude(x));
    vec p = splat(-3.256378463e-03f);
    p = p * e + 1.990716159e-02f;
    p = p * e - 5.706420168e-02f;
    p = p * e + 1.061426476e-01f;
    p = p * e - 1.531186253e-01f;
    p = p * e + 1.967811733e-01f;
    p = p * e - 2.495455891e-01f;
    p = p * e + 3.333000541e-01f;
    p = p * e - 4.999990463e-01f;
    p = p * e + 1.000000000e+00f;
    return larger(x, splat(0.0f)) + p * e;
}
INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE vec inverse_hyperbolic_sine(vec x) {
    vec size = magnitude(x);
    vec value = logarithm(size + root(size * size + 1.0f));
    return choose(x < 0.0f, -value, value);
}

/* x times the normal distribution's integral up to x, which is 1/2 + x P(x^2) / Q(x^2) to 1.5e-7; beyond 5.5 it is 0 or 1. */
INLINE vec gelu(vec x) {
    vec c = larger(smaller(x, splat(5.5f)), splat(-5.5f)), s = c * c;
    vec p = splat(2.275204380e-08f), q = splat(1.197556912e-06f);
    p = p * s + 6.351768207e-06f;
    q = q * s + 7.363391342e-05f;
    p = p * s + 1.687842159e-04f;
    q = q * s + 1.884209458e-03f;
    p = p * s + 4.677006043e-03f;
    q = q * s + 2.864355594e-02f;
    p = p * s + 3.384863958e-02f;
    q = q * s + 2.515118718e-01f;
    p = p * s + 3.989422321e-01f;
    q = q * s + 1.0f;
    return x * (0.5f + c * p / q);
}

INLINE vec activate(vec x, int kind) {
    if (kind == LEAKY) return larger(x, 0.1f * x);
    if (kind == RELU) return larger(x, splat(0.0f));
    return kind == GELU ? gelu(x) : x;
}

/* Runs BODY for the blocks of `channels`: first the fives, then the fours; SIZE is a constant within it. */
#define FOR_BLOCKS(channels, BODY)                                                   \
    do {                                                                             \
        int all_ = (channels), fives_ = (all_ - 4 * ((5 - all_ % 5) % 5)) / 5, o = 0; \
        for (; fives_ > 0; fives_--, o += 5) BODY(5);                                \
        for (; o < all_; o += 4) BODY(4);                                            \
    } while (0)

/* Adds `count` taps, weights (tap, size), to `size` channels of STEP pixels. */
INLINE void accumulate(
    vec acc[MOST][2], const int size, const float *const *tap, const float *weight, int count, ptrdiff_t at) {
    for (int t = 0; t < count; t++, weight += size) {
        __builtin_prefetch(tap[t] + at + AHEAD); /* more rows are read at once than a processor foresees */
        vec a = load(tap[t] + at), b = load(tap[t] + at + LANES);
        UNROLL for (int o = 0; o < size; o++) {
            acc[o][0] += a * weight[o];
            acc[o][1] += b * weight[o];
        }
    }
}

INLINE void begin(vec acc[MOST][2], const int size, const float *bias) {
    UNROLL for (int o = 0; o < size; o++) acc[o][0] = acc[o][1] = splat(bias[o]);
}

/* The first `count` of LANES pixels; what follows them is not read. */
INLINE vec load_some(const float *from, ptrdiff_t count) {
    if (count >= LANES) return load(from);
    float some[LANES] = {0};
    if (count > 0) memcpy(some, from, (size_t)count * sizeof(float));
    return load(some);
}

/* Writes the first `count` of LANES pixels. */
INLINE void store_some(float *to, vec value, ptrdiff_t count) {
    if (count >= LANES) {
        store(to, value);
        return;
    }
    float some[LANES];
    store(some, value);
    if (count > 0) memcpy(to, some, (size_t)count * sizeof(float));
}

/* Writes the first `count` of STEP pixels; the borders right of an image must stay zero. */
INLINE void put(float *to, vec a, vec b, ptrdiff_t count) {
    if (count >= STEP) {
        store(to, a);
        store(to + LANES, b);
        return;
    }
    float both[STEP];
    store(both, a);
    store(both + LANES, b);
    memcpy(to, both, (size_t)count * sizeof(float));
}

/* Adds up the first `count` of STEP pixels, lane by lane. */
INLINE void add_up(float *lanes, vec a, vec b, ptrdiff_t count) {
    if (count >= STEP) {
        store(lanes, load(lanes) + (a + b));
        return;
    }
    float both[STEP];
    store(both, a);
    store(both + LANES, b);
    for (ptrdiff_t i = 0; i < count; i++) lanes[i % LANES] += both[i];
}

#endif
