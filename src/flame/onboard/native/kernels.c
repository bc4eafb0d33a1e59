/* The arithmetic of FLAME on a CPU, in plain C with GNU vector types and OpenMP: no library, no allocation.
 *
 * Every function shares the rows of its output among `threads` (one, if compiled without OpenMP). It reads and writes
 * planes: one float image a channel, rows `stride` floats apart, channels `plane` floats apart. Images that a 3x3 kernel
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
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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
#define MOST_TAPS 640
#define MOST_BANDS 320
#define AHEAD (2 * STEP) /* floats to fetch ahead */
#define MOST_CHANNELS 64
#define MOST_MODES 64
#define SIDE 32
#define UNROLL _Pragma("GCC unroll 16")
#define SHARE_ROWS _Pragma("omp parallel for num_threads(threads) schedule(dynamic, 4)")
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
#elif LANES == 8 && defined(__AVX__)
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE vec larger(vec a, vec b) { return choose(a > b, a, b); }
INLINE vec smaller(vec a, vec b) { return choose(a < b, a, b); }
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
    vec size = magnitude(x), root;
    vec square = size * size + 1.0f;
    for (int i = 0; i < LANES; i++) root[i] = __builtin_sqrtf(square[i]);
    vec value = logarithm(size + root);
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

enum { LINEAR, LEAKY, RELU, GELU };

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

typedef struct {
    float *data;
    ptrdiff_t plane, stride;
    int32_t channels, kernel; /* kernel: 1 or 3 */
} image;

static int list_taps(const float **tap, const image *in, int images, ptrdiff_t row) {
    int count = 0;
    for (int i = 0; i < images; i++)
        for (int c = 0; c < in[i].channels; c++) {
            const float *here = in[i].data + c * in[i].plane + row * in[i].stride;
            if (in[i].kernel == 1) tap[count++] = here;
            else
                for (int down = -1; down <= 1; down++)
                    for (int across = -1; across <= 1; across++) tap[count++] = here + down * in[i].stride + across;
        }
    return count;
}

INLINE void convolve_block(
    const int size, int o, ptrdiff_t row, ptrdiff_t at, ptrdiff_t width, const float *const *tap, int count,
    const float *weight, const float *bias, const int kind, const float *const *wave, int modes, const float *factors,
    const int onto, const image *out, float *lanes) {
    vec acc[MOST][2];
    float *to = out->data + o * out->plane + row * out->stride + at;
    begin(acc, size, bias + o);
    if (onto)
        UNROLL for (int c = 0; c < size; c++) {
            acc[c][0] += load(to + c * out->plane);
            acc[c][1] += load(to + c * out->plane + LANES);
        }
    accumulate(acc, size, tap, weight + (ptrdiff_t)o * count, count, at);
    if (modes) accumulate(acc, size, wave, factors + (row * out->channels + o) * modes, modes, at);
    UNROLL for (int c = 0; c < size; c++) {
        vec a = activate(acc[c][0], kind), b = activate(acc[c][1], kind);
        put(to + c * out->plane, a, b, width - at);
        if (lanes) add_up(lanes + (o + c) * LANES, a, b, width - at);
    }
}

/* Convolution of several images, 3x3 or 1x1 each, into one.
 *
 * With `modes` the waves (mode, width) are added too, with factors of their own in every row: (row, block, mode, channel).
 * With `onto`, so is what already stands in `out`. With `sums`, (row, channel), the sum over each row of what was
 * written. */
void EXPORT(convolve)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, const float *weight, const float *bias,
    int32_t kind, const float *factors, const float *waves, int32_t modes, int32_t onto, const image *out,
    float *sums) {
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        const float *tap[MOST_TAPS], *wave[MOST_MODES];
        for (int m = 0; m < modes; m++) wave[m] = waves + m * width;
        int count = list_taps(tap, in, images, row);
        float lanes[MOST_CHANNELS * LANES] = {0};
        for (ptrdiff_t at = 0; at < width; at += STEP) {
#define BODY(size) \
    convolve_block(size, o, row, at, width, tap, count, weight, bias, kind, wave, modes, factors, onto, out, lanes)
            FOR_BLOCKS(out->channels, BODY);
#undef BODY
        }
        for (int c = 0; sums && c < out->channels; c++) {
            float sum = 0.0f;
            for (int i = 0; i < LANES; i++) sum += lanes[c * LANES + i];
            sums[row * out->channels + c] = sum;
        }
    }
}

/* The same of one image with stride 2: kernel 3 with a border of 1, or 2 without. Rows and width are the output's. */
void EXPORT(convolve_down)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t kernel, const float *weight, const float *bias,
    int32_t kind, const image *out) {
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        const float *tap[MOST_TAPS];
        float scratch[2 * in->channels * kernel * (width + 2 * SIDE)], *even = scratch + SIDE, *odd;
        int count = 0;
        for (int c = 0; c < in->channels; c++)
            for (int down = 0; down < kernel; down++) {
                const float *from = in->data + c * in->plane + (2 * row + down - (kernel == 3)) * in->stride;
                odd = even + width + 2 * SIDE;
                odd[-1] = from[-1];
                for (ptrdiff_t i = 0; i < width; i++) even[i] = from[2 * i];
                for (ptrdiff_t i = 0; i < width; i++) odd[i] = from[2 * i + 1];
                if (kernel == 3) tap[count++] = odd - 1;
                tap[count++] = even;
                tap[count++] = odd;
                even = odd + width + 2 * SIDE;
            }
        for (ptrdiff_t at = 0; at < width; at += STEP) {
#define BODY(size) convolve_block(size, o, row, at, width, tap, count, weight, bias, kind, NULL, 0, NULL, 0, out, NULL)
            FOR_BLOCKS(out->channels, BODY);
#undef BODY
        }
    }
}

INLINE void up_block(
    const int size, int o, ptrdiff_t at, ptrdiff_t width, const float *const *left, const float *const *right, int count,
    const float *weight, ptrdiff_t weights, const float *bias, const int kind, float *to, ptrdiff_t plane) {
    float both[2][MOST][STEP];
    UNROLL for (int side = 0; side < 2; side++) {
        vec acc[MOST][2];
        begin(acc, size, bias + o);
        accumulate(acc, size, side ? right : left, weight + side * weights + (ptrdiff_t)o * count, count, at);
        UNROLL for (int c = 0; c < size; c++) {
            store(both[side][c], activate(acc[c][0], kind));
            store(both[side][c] + LANES, activate(acc[c][1], kind));
        }
    }
    ptrdiff_t here = width - at < STEP ? width - at : STEP;
    for (int c = 0; c < size; c++, to += plane)
        for (ptrdiff_t i = 0; i < here; i++) {
            to[2 * i] = both[0][c][i];
            to[2 * i + 1] = both[1][c][i];
        }
}

/* Transposed convolution of several images with stride 2: kernel 4 with a border of 1, or 2 without. Rows and width are
 * the input's; two output rows come of each. weight is (row parity, column parity, block, tap, channel), taps ordered
 * (channel, row, column). */
void EXPORT(convolve_up)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, int32_t kernel, const float *weight,
    const float *bias, int32_t kind, const image *out) {
    int reach = kernel / 2;
    SHARE_ROWS for (ptrdiff_t row = 0; row < 2 * rows; row++) {
        const float *tap[2][MOST_TAPS];
        int parity = row % 2, count = 0;
        for (int i = 0; i < images; i++)
            for (int c = 0; c < in[i].channels; c++)
                for (int down = 0; down < reach; down++)
                    for (int across = 0; across < reach; across++, count++)
                        for (int side = 0; side < 2; side++) {
                            ptrdiff_t r = row / 2 + (reach == 2 ? down - 1 + parity : 0);
                            ptrdiff_t shift = reach == 2 ? across - 1 + side : 0;
                            tap[side][count] = in[i].data + c * in[i].plane + r * in[i].stride + shift;
                        }
        ptrdiff_t weights = (ptrdiff_t)count * out->channels;
        const float *own = weight + 2 * parity * weights;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            float *to = out->data + row * out->stride + 2 * at;
#define BODY(size) \
    up_block(size, o, at, width, tap[0], tap[1], count, own, weights, bias, kind, to + o * out->plane, out->plane)
            FOR_BLOCKS(out->channels, BODY);
#undef BODY
        }
    }
}

/* Fourier transform along the rows: each row times `waves` (column, PARTS), into (channel, row, PARTS).
 *
 * PARTS, real and imaginary part of each mode padded to whole vectors, is what `transform_parts` says. */
#define PARTS ((24 + LANES - 1) / LANES * LANES)
#define ROWS 4

int32_t EXPORT(transform_parts)(void) { return PARTS; }

void EXPORT(transform_rows)(
    int32_t threads, int64_t rows, int64_t width, const image *in, const float *waves, float *out) {
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row += ROWS)
        for (int c = 0; c < in->channels; c++) {
            const float *from[ROWS];
            UNROLL for (int r = 0; r < ROWS; r++)
                from[r] = in->data + c * in->plane + (row + r < rows ? row + r : rows - 1) * in->stride;
            vec acc[ROWS][PARTS / LANES];
            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int m = 0; m < PARTS / LANES; m++) acc[r][m] = (vec){0};
            for (ptrdiff_t x = 0; x < width; x++)
                UNROLL for (int m = 0; m < PARTS / LANES; m++) {
                    vec wave = load(waves + x * PARTS + m * LANES);
                    UNROLL for (int r = 0; r < ROWS; r++) acc[r][m] += from[r][x] * wave;
                }
            for (int r = 0; r < ROWS && row + r < rows; r++)
                for (int m = 0; m < PARTS / LANES; m++)
                    store(out + (c * rows + row + r) * PARTS + m * LANES, acc[r][m]);
        }
}

/* The lift: a 1x1 convolution of `spectra`, (block, band, row, col), and of further images (kind, row, col). */
void EXPORT(lift)(
    int32_t threads, int64_t rows, int64_t width, const float *spectra, int32_t bands, int64_t block_rows,
    const float *extra, int32_t extras, const float *weight, const float *bias, const image *out) {
    ptrdiff_t plane = block_rows * width;
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        const float *tap[MOST_TAPS], *line = spectra + row / block_rows * bands * plane + row % block_rows * width;
        for (int band = 0; band < bands; band++) tap[band] = line + band * plane;
        for (int k = 0; k < extras; k++) tap[bands + k] = extra + (k * rows + row) * width;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
#define BODY(size) \
    convolve_block(size, o, row, at, width, tap, bands + extras, weight, bias, LINEAR, NULL, 0, NULL, 0, out, NULL)
            FOR_BLOCKS(out->channels, BODY);
#undef BODY
        }
    }
}

INLINE void score_block(
    const int size, int o, ptrdiff_t at, const float *const *tap, int count, const float *weight, const float *bias,
    int bands, const float *direction, const float *light, ptrdiff_t plane, vec sum[2]) {
    vec share[MOST][2], ground[MOST][2];
    begin(share, size, bias + o);
    accumulate(share, size, tap, weight + (ptrdiff_t)o * count, count, at);
    UNROLL for (int c = 0; c < size; c++) {
        share[c][0] = softplus(share[c][0]) * direction[o + c];
        share[c][1] = softplus(share[c][1]) * direction[o + c];
    }
    begin(ground, size, bias + bands + o);
    accumulate(ground, size, tap, weight + (ptrdiff_t)(bands + o) * count, count, at);
    UNROLL for (int c = 0; c < size; c++) {
        const float *l = light + (o + c) * plane + at;
        sum[0] += (load(l) - ground[c][0]) * share[c][0];
        sum[1] += (load(l + LANES) - ground[c][1]) * share[c][1];
    }
}

/* The score of eq:flame_score at each pixel: features `z` give background and weight of every band of `spectra`.
 *
 * spectra holds blocks of `block_rows` rows, (block, band, row, col). weight is (block, feature, band) for the spectral
 * weight and behind it the same for the background; bias likewise. Out come the score and, clipped to [0, most], the
 * image that the segmentation head reads. */
void EXPORT(score)(
    int32_t threads, int64_t rows, int64_t width, const image *z, const float *spectra, int32_t bands, int64_t block_rows,
    const float *weight, const float *bias, const float *direction, float most, float *score, const image *clipped) {
    ptrdiff_t plane = block_rows * width;
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        const float *tap[MOST_TAPS];
        int count = list_taps(tap, z, 1, row);
        const float *light = spectra + (row / block_rows) * bands * plane + (row % block_rows) * width;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            vec sum[2] = {{0}, {0}}, zero = {0};
            for (int band = 0; band < bands; band++) __builtin_prefetch(light + band * plane + at + AHEAD);
#define BODY(size) score_block(size, o, at, tap, count, weight, bias, bands, direction, light, plane, sum)
            FOR_BLOCKS(bands, BODY);
#undef BODY
            put(score + row * width + at, sum[0], sum[1], width - at);
            float *to = clipped->data + row * clipped->stride + at;
            put(to, smaller(larger(sum[0], zero), splat(most)), smaller(larger(sum[1], zero), splat(most)), width - at);
        }
    }
}

INLINE void logit_block(
    const int size, int o, ptrdiff_t at, const float *const *tap, int count, const float *weight, const float *bias,
    const float *project, vec sum[2]) {
    vec acc[MOST][2];
    begin(acc, size, bias + o);
    accumulate(acc, size, tap, weight + (ptrdiff_t)o * count, count, at);
    UNROLL for (int c = 0; c < size; c++) {
        sum[0] += activate(acc[c][0], RELU) * project[o + c];
        sum[1] += activate(acc[c][1], RELU) * project[o + c];
    }
}

/* Rows [first, last) of the segmentation head. Of its hidden image three rows exist at a time, in a ring. */
static void segment_rows(
    ptrdiff_t first, ptrdiff_t last, ptrdiff_t rows, ptrdiff_t width, const image *in, int images, const float *weight1,
    const float *bias1, int hidden_channels, const float *weight2, const float *bias2, int channels, const float *project,
    float offset, float *probability) {
    const float *tap[MOST_TAPS];
    ptrdiff_t stride = width + 2 * SIDE;
    float memory[hidden_channels * 3 * stride];
    memset(memory, 0, sizeof(memory));
    image ring = {memory + SIDE, 3 * stride, stride, hidden_channels, 3};
    for (ptrdiff_t row = first - 1; row <= last; row++) {
        ptrdiff_t slot = (row + 3) % 3, ready = row - 1;
        int count = 0;
        if (row < 0 || row >= rows)
            for (int c = 0; c < hidden_channels; c++)
                memset(ring.data + c * ring.plane + slot * stride, 0, (size_t)width * sizeof(float));
        else {
            count = list_taps(tap, in, images, row);
            for (ptrdiff_t at = 0; at < width; at += STEP) {
#define BODY(size) \
    convolve_block(size, o, slot, at, width, tap, count, weight1, bias1, RELU, NULL, 0, NULL, 0, &ring, NULL)
                FOR_BLOCKS(hidden_channels, BODY);
#undef BODY
            }
        }
        if (ready < first) continue;
        count = 0;
        for (int c = 0; c < hidden_channels; c++)
            for (int down = -1; down <= 1; down++)
                for (int across = -1; across <= 1; across++)
                    tap[count++] = ring.data + c * ring.plane + ((ready + down + 3) % 3) * stride + across;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            vec sum[2] = {splat(offset), splat(offset)};
#define BODY(size) logit_block(size, o, at, tap, count, weight2, bias2, project, sum)
            FOR_BLOCKS(channels, BODY);
#undef BODY
            put(probability + ready * width + at, sigmoid(sum[0]), sigmoid(sum[1]), width - at);
        }
    }
}

/* The segmentation head: 3x3 to `hidden` channels, ReLU, 3x3 to `channels`, ReLU, 1x1 and `offset`, sigmoid. */
void EXPORT(segment)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, const float *weight1,
    const float *bias1, int32_t hidden, const float *weight2, const float *bias2, int32_t channels, const float *project,
    float offset, float *probability) {
    enum { PART = 32 };
    _Pragma("omp parallel for num_threads(threads) schedule(dynamic, 1)")
    for (ptrdiff_t first = 0; first < rows; first += PART) {
        ptrdiff_t last = first + PART < rows ? first + PART : rows;
        segment_rows(
            first, last, rows, width, in, images, weight1, bias1, hidden, weight2, bias2, channels, project, offset,
            probability);
    }
}

/* The logarithm of one band of one row, and the least and greatest of its pixels' bands so far. */
INLINE void logarithm_block(const float *from, float *to, float *least, float *most, float floor, float factor, int begins) {
    vec value = load(from), l = begins ? value : load(least), m = begins ? value : load(most);
    store(least, choose((value >= l) | (l != l), l, value));
    store(most, choose((value <= m) | (m != m), m, value));
    store(to, logarithm(larger(value, splat(floor)) * factor));
}

/* One pass over radiance: least and greatest of each pixel's bands, NaN where one is, and the logarithm of each band
 * times its factor, after raising it to `floor`.
 *
 * The radiance may be a ring of `rows` rows whose first stands at `first`; strides are in floats. Logarithms go into blocks
 * of `block_rows` rows of `tile` columns, (block, band, row, col), images into rows of `tile`. */
void EXPORT(take_logarithm)(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, int64_t first, float floor, const float *factor, float *out, int64_t block_rows, int64_t tile,
    float *low, float *high) {
    ptrdiff_t plane = block_rows * tile, whole = width / LANES * LANES;
    size_t left = (size_t)(width - whole) * sizeof(float);
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        float *to = out + row / block_rows * bands * plane + row % block_rows * tile;
        float *least = low + row * tile, *most = high + row * tile, end[4][LANES] = {{0}};
        for (int band = 0; band < bands; band++, to += plane) {
            const float *from = radiance + band * band_stride + (row + first) % rows * row_stride;
            for (ptrdiff_t at = 0; at < whole; at += LANES)
                logarithm_block(from + at, to + at, least + at, most + at, floor, factor[band], band == 0);
            if (!left) continue;
            memcpy(end[0], from + whole, left);
            logarithm_block(end[0], end[1], end[2], end[3], floor, factor[band], band == 0);
            memcpy(to + whole, end[1], left);
        }
        memcpy(least + whole, end[2], left);
        memcpy(most + whole, end[3], left);
    }
}

INLINE void whiten_block(
    const int size, int o, const float *const *tap, int bands, const float *weight, const float *zeros, float *to,
    ptrdiff_t plane, const float *unit, vec response[2], vec power[2]) {
    vec acc[MOST][2];
    begin(acc, size, zeros);
    accumulate(acc, size, tap, weight + (ptrdiff_t)o * bands, bands, 0);
    UNROLL for (int c = 0; c < size; c++)
        UNROLL for (int half = 0; half < 2; half++) {
            store(to + (o + c) * plane + half * LANES, acc[c][half]);
            response[half] += acc[c][half] * unit[o + c];
            power[half] += acc[c][half] * acc[c][half];
        }
}

/* Whitens log-radiance, (block, band, row, col), in place; width must be a multiple of 2 LANES.
 *
 * With `layers`, four images of the whole tile: response along `unit`, mean square of the whitened bands, mean of the
 * log-radiance, and the mean square step to the next column of every fourth whitened band, last column left alone. */
void EXPORT(whiten)(
    int32_t threads, int64_t rows, int64_t width, float *spectra, int32_t bands, int64_t block_rows, const float *mean,
    const float *weight, const float *unit, float *layers) {
    ptrdiff_t plane = block_rows * width, layer = rows * width;
    float share = 1.0f / (float)bands, each = 1.0f / (float)((bands + 3) / 4);
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        float centred[MOST_BANDS][STEP], zeros[MOST] = {0};
        const float *tap[MOST_BANDS];
        float *line = spectra + row / block_rows * bands * plane + row % block_rows * width, *image = layers + row * width;
        for (int band = 0; band < bands; band++) tap[band] = centred[band];
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            vec response[2] = {{0}, {0}}, power[2] = {{0}, {0}}, bright[2] = {{0}, {0}};
            for (int band = 0; band < bands; band++) {
                const float *from = line + band * plane + at;
                __builtin_prefetch(from + AHEAD, 1);
                UNROLL for (int half = 0; half < 2; half++) {
                    vec value = load(from + half * LANES);
                    bright[half] += value;
                    store(centred[band] + half * LANES, value - mean[band]);
                }
            }
#define BODY(size) whiten_block(size, o, tap, bands, weight, zeros, line + at, plane, unit, response, power)
            FOR_BLOCKS(bands, BODY);
#undef BODY
            for (int half = 0; layers && half < 2; half++) {
                float *to = image + at + half * LANES;
                store(to, response[half]);
                store(to + layer, power[half] * share);
                store(to + 2 * layer, bright[half] * share);
            }
        }
        if (!layers) continue;
        float steps[width], *to = image + 3 * layer;
        memset(steps, 0, sizeof(steps));
        for (int band = 0; band < bands; band += 4) {
            const float *from = line + band * plane;
            for (ptrdiff_t at = 0; at + 1 < width; at++) steps[at] += (from[at + 1] - from[at]) * (from[at + 1] - from[at]);
        }
        for (ptrdiff_t at = 0; at + 1 < width; at++) to[at] = steps[at] * each;
    }
}

enum { MATCHED_FILTER, BRIGHTNESS, ANOMALY, COHERENCE, NOISE, ENHANCEMENT, CLUTTER };

INLINE ptrdiff_t within(ptrdiff_t at, ptrdiff_t count) { return at < 0 ? 0 : at >= count ? count - 1 : at; }

/* Repeats the ends of a row of sums to both sides. */
INLINE void extend(float *row, ptrdiff_t width, int reach) {
    for (int i = 1; i <= reach; i++) {
        row[-i] = row[0];
        row[width - 1 + i] = row[width - 1];
    }
}

/* Means over (2 reach + 1) columns of `row`, which is extended by that many. */
INLINE vec box(const float *row, int reach) {
    vec sum = {0};
    for (int i = -reach; i <= reach; i++) sum += load(row + i);
    return sum / (float)(2 * reach + 1);
}

/* The lift's further inputs, `flame.models.noise_inputs`, from the layers of `whiten`: (kind, row, col).
 *
 * noise is the tile's noise in units of what counts as faint, clip and reach those of the clutter. width is a multiple
 * of LANES. */
void EXPORT(noise_inputs)(
    int32_t threads, int64_t rows, int64_t width, const float *layers, const int32_t *kinds, int32_t count,
    float noise, float tiny, float clip, int32_t reach, float *out) {
    ptrdiff_t layer = rows * width;
    const float *steps = layers + 3 * layer;
    vec offset = logarithm(splat(noise));
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        float scratch[2 * (width + 2 * SIDE)], *around = scratch + SIDE, *step = around + width + 2 * SIDE;
        for (ptrdiff_t at = 0; at < width; at += LANES) {
            vec sum = {0};
            for (int i = -reach; i <= reach; i++) {
                vec response = load(layers + within(row + i, rows) * width + at);
                response = larger(smaller(response, splat(clip)), splat(-clip));
                sum += response * response;
            }
            store(around + at, sum / (float)(2 * reach + 1));
        }
        extend(around, width, reach);
        for (ptrdiff_t at = 0; at < width; at++) {
            ptrdiff_t left = within(at - 1, width - 1), right = within(at, width - 1);
            float sum = 0.0f;
            for (int i = -1; i <= 1; i++) {
                const float *of = steps + within(row + i, rows) * width;
                sum += of[left] + of[right];
            }
            step[at] = sum * (0.25f / 3.0f);
        }
        extend(step, width, 1);
        for (int k = 0; k < count; k++)
            for (ptrdiff_t at = 0; at < width; at += LANES) {
                const float *here = layers + row * width + at;
                vec response = load(here), power = load(here + layer) + tiny, value;
                switch (kinds[k]) {
                case MATCHED_FILTER: value = inverse_hyperbolic_sine(response); break;
                case BRIGHTNESS: value = load(here + 2 * layer); break;
                case ANOMALY: value = 0.5f * logarithm(power); break;
                case COHERENCE: value = response * exponential(-0.5f * logarithm(power)); break;
                case NOISE: value = 0.5f * logarithm(box(step + at, 1) + tiny); break;
                case ENHANCEMENT: value = inverse_hyperbolic_sine(response * noise); break;
                default: value = 0.5f * logarithm(box(around + at, reach) + tiny) + offset;
                }
                store(out + k * layer + row * width + at, value);
            }
    }
}

#ifdef BASELINE
/* The most capable instruction set that was compiled and that this processor has. */
__attribute__((visibility("default"))) int32_t instruction_set(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}
#endif
