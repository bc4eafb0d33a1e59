/* The network: convolutions, Fourier transforms along rows, lift, score and segmentation head. */
#include "vectors.h"

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

typedef struct {
    ptrdiff_t width;
    const image *in;
    int images;
    const float *weight, *bias;
    int kind;
    const float *factors, *waves;
    int modes, onto;
    const image *out;
    float *sums;
} convolution;

static void convolve_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const convolution job = *(const convolution *)given;
    const float *tap[MOST_TAPS], *wave[2 * MOST_MODES];
    ptrdiff_t whole = (job.width + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
    for (int m = 0; m < job.modes; m++) wave[m] = job.waves + m * whole;
    for (ptrdiff_t row = first; row < last; row++) {
        int count = list_taps(tap, job.in, job.images, row);
        float lanes[MOST_WIDTH * LANES] = {0};
        for (ptrdiff_t at = 0; at < job.width; at += STEP) {
#define BODY(size)                                                                                                  \
    convolve_block(                                                                                                 \
        size, o, row, at, job.width, tap, count, job.weight, job.bias, job.kind, wave, job.modes, job.factors,      \
        job.onto, job.out, job.sums ? lanes : NULL)
            FOR_BLOCKS(job.out->channels, BODY);
#undef BODY
        }
        for (int c = 0; job.sums && c < job.out->channels; c++) {
            float sum = 0.0f;
            for (int i = 0; i < LANES; i++) sum += lanes[c * LANES + i];
            job.sums[row * job.out->channels + c] = sum;
        }
    }
}

/* Convolution of several images, 3x3 or 1x1 each, into one.
 *
 * With `modes` the waves (mode, width rounded up to whole TILE_STEPs) are added too, with factors of their own in every
 * row: (row, block, mode, channel). With `onto`, so is what already stands in `out`. With `sums`, (row, channel), the
 * sum over each row of what was written. */
void EXPORT(convolve)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, const float *weight, const float *bias,
    int32_t kind, const float *factors, const float *waves, int32_t modes, int32_t onto, const image *out,
    float *sums) {
    convolution job = {width, in, images, weight, bias, kind, factors, waves, modes, onto, out, sums};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, convolve_rows, &job);
}

typedef struct {
    ptrdiff_t width;
    const image *in;
    int kernel;
    const float *weight, *bias;
    int kind;
    const image *out;
} halving;

static void halve_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const halving job = *(const halving *)given;
    const image *in = job.in;
    const ptrdiff_t width = job.width;
    const int kernel = job.kernel;
    const float *tap[MOST_TAPS];
    float scratch[2 * in->channels * kernel * (width + 2 * SIDE)];
    memset(scratch, 0, sizeof(scratch));
    for (ptrdiff_t row = first; row < last; row++) {
        float *even = scratch + SIDE, *odd;
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
#define BODY(size)                                                                                               \
    convolve_block(                                                                                              \
        size, o, row, at, width, tap, count, job.weight, job.bias, job.kind, NULL, 0, NULL, 0, job.out, NULL)
            FOR_BLOCKS(job.out->channels, BODY);
#undef BODY
        }
    }
}

/* The same of one image with stride 2: kernel 3 with a border of 1, or 2 without. Rows and width are the output's. */
void EXPORT(convolve_down)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t kernel, const float *weight, const float *bias,
    int32_t kind, const image *out) {
    halving job = {width, in, kernel, weight, bias, kind, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, halve_rows, &job);
}

/* With `beside`, `channels` rows of 2 STEP pixels, their 1x1 convolution by `beside_weight` is added. */
INLINE void up_block(
    const int size, int o, ptrdiff_t at, ptrdiff_t width, const float *const *left, const float *const *right, int count,
    const float *weight, ptrdiff_t weights, const float *bias, const int kind, const float *const *beside, int channels,
    const float *beside_weight, float *to, ptrdiff_t plane) {
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
    if (!beside) {
        for (int c = 0; c < size; c++, to += plane)
            for (ptrdiff_t i = 0; i < here; i++) {
                to[2 * i] = both[0][c][i];
                to[2 * i + 1] = both[1][c][i];
            }
        return;
    }
    float joined[MOST][2 * STEP];
    for (int c = 0; c < size; c++)
        for (ptrdiff_t i = 0; i < STEP; i++) {
            joined[c][2 * i] = both[0][c][i];
            joined[c][2 * i + 1] = both[1][c][i];
        }
    for (int half = 0; half < 2; half++) {
        vec acc[MOST][2];
        UNROLL for (int c = 0; c < size; c++) {
            acc[c][0] = load(joined[c] + half * STEP);
            acc[c][1] = load(joined[c] + half * STEP + LANES);
        }
        accumulate(acc, size, beside, beside_weight + (ptrdiff_t)o * channels, channels, half * STEP);
        UNROLL for (int c = 0; c < size; c++)
            if (2 * here > half * STEP) put(to + c * plane + half * STEP, acc[c][0], acc[c][1], 2 * here - half * STEP);
    }
}

typedef struct {
    ptrdiff_t width;
    const image *in;
    int images, kernel;
    const float *weight, *bias;
    int kind;
    const float *beside;
    const image *out;
} doubling;

static void double_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const doubling job = *(const doubling *)given;
    const image *in = job.in, *out = job.out;
    const int reach = job.kernel / 2, kept = job.beside ? out->channels : 0;
    const float *tap[2][MOST_TAPS], *old[MOST_WIDTH];
    float before[MOST_WIDTH][2 * STEP]; /* what stood in the place of the output, which overwrites it */
    for (int c = 0; c < kept; c++) old[c] = before[c];
    for (ptrdiff_t row = first; row < last; row++) {
        int parity = row % 2, count = 0;
        for (int i = 0; i < job.images; i++)
            for (int c = 0; c < in[i].channels; c++)
                for (int down = 0; down < reach; down++)
                    for (int across = 0; across < reach; across++, count++)
                        for (int side = 0; side < 2; side++) {
                            ptrdiff_t r = row / 2 + (reach == 2 ? down - 1 + parity : 0);
                            ptrdiff_t shift = reach == 2 ? across - 1 + side : 0;
                            tap[side][count] = in[i].data + c * in[i].plane + r * in[i].stride + shift;
                        }
        ptrdiff_t weights = (ptrdiff_t)count * out->channels;
        const float *own = job.weight + 2 * parity * weights;
        for (ptrdiff_t at = 0; at < job.width; at += STEP) {
            float *to = out->data + row * out->stride + 2 * at;
            ptrdiff_t left = 2 * (job.width - at), held = left < 2 * STEP ? left : 2 * STEP;
            for (int c = 0; c < kept; c++) memcpy(before[c], to + c * out->plane, (size_t)held * sizeof(float));
#define BODY(size)                                                                                                \
    up_block(                                                                                                     \
        size, o, at, job.width, tap[0], tap[1], count, own, weights, job.bias, job.kind, job.beside ? old : NULL, \
        out->channels, job.beside, to + o * out->plane, out->plane)
            FOR_BLOCKS(out->channels, BODY);
#undef BODY
        }
    }
}

/* Transposed convolution of several images with stride 2: kernel 4 with a border of 1, or 2 without. Rows and width are
 * the input's; two output rows come of each. weight is (row parity, column parity, block, tap, channel), taps ordered
 * (channel, row, column). */
void EXPORT(convolve_up)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, int32_t kernel, const float *weight,
    const float *bias, int32_t kind, const image *out) {
    doubling job = {width, in, images, kernel, weight, bias, kind, NULL, out};
    flame_share_rows(threads, 2 * rows, ROWS_AT_ONCE, double_rows, &job);
}

/* The same without activation, and to it is added the 1x1 convolution by `beside` of what stands in `out`, which it takes the
 * place of: a network's last way up and what goes past the others, without an image in between. */
void EXPORT(convolve_up_onto)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, int32_t kernel, const float *weight,
    const float *bias, const float *beside, const image *out) {
    doubling job = {width, in, images, kernel, weight, bias, LINEAR, beside, out};
    flame_share_rows(threads, 2 * rows, ROWS_AT_ONCE, double_rows, &job);
}

/* Fourier transform along the rows: each row times `waves` (column, PARTS), into (channel, row, PARTS).
 *
 * PARTS, real and imaginary part of each mode padded to whole vectors, is what `transform_parts` says. */
#define PARTS ((2 * MOST_MODES + LANES - 1) / LANES * LANES)

int32_t EXPORT(transform_parts)(void) { return PARTS; }

typedef struct {
    ptrdiff_t rows, width;
    const image *in;
    const float *waves;
    float *out;
} transform;

static void transform_some_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const transform job = *(const transform *)given;
    const image *in = job.in;
    for (ptrdiff_t row = first; row < last; row += ROWS_AT_ONCE)
        for (int c = 0; c < in->channels; c++) {
            const float *from[ROWS_AT_ONCE];
            UNROLL for (int r = 0; r < ROWS_AT_ONCE; r++)
                from[r] = in->data + c * in->plane + (row + r < last ? row + r : last - 1) * in->stride;
            vec acc[ROWS_AT_ONCE][PARTS / LANES];
            UNROLL for (int r = 0; r < ROWS_AT_ONCE; r++)
                UNROLL for (int m = 0; m < PARTS / LANES; m++) acc[r][m] = (vec){0};
            for (ptrdiff_t x = 0; x < job.width; x++)
                UNROLL for (int m = 0; m < PARTS / LANES; m++) {
                    vec wave = load(job.waves + x * PARTS + m * LANES);
                    UNROLL for (int r = 0; r < ROWS_AT_ONCE; r++) acc[r][m] += from[r][x] * wave;
                }
            for (int r = 0; r < ROWS_AT_ONCE && row + r < last; r++)
                for (int m = 0; m < PARTS / LANES; m++)
                    store(job.out + (c * job.rows + row + r) * PARTS + m * LANES, acc[r][m]);
        }
}

void EXPORT(transform_rows)(
    int32_t threads, int64_t rows, int64_t width, const image *in, const float *waves, float *out) {
    transform job = {rows, width, in, waves, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE * ROWS_AT_ONCE, transform_some_rows, &job);
}

typedef struct {
    ptrdiff_t rows, width;
    const float *spectra;
    int bands;
    ptrdiff_t block_rows;
    const float *extra;
    int extras;
    const float *weight, *bias;
    const image *out;
} lifting;

static void lift_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const lifting job = *(const lifting *)given;
    const ptrdiff_t plane = job.block_rows * job.width;
    const int count = job.bands + job.extras;
    const float *from[MOST_TAPS], *tap[MOST_TAPS];
    float held[count * STEP]; /* images are a power of two apart: in their places they would push each other out of the caches */
    for (int i = 0; i < count; i++) tap[i] = held + i * STEP;
    for (ptrdiff_t row = first; row < last; row++) {
        const float *line = job.spectra + row / job.block_rows * job.bands * plane + row % job.block_rows * job.width;
        for (int band = 0; band < job.bands; band++) from[band] = line + band * plane;
        for (int k = 0; k < job.extras; k++) from[job.bands + k] = job.extra + (k * job.rows + row) * job.width;
        for (ptrdiff_t at = 0; at < job.width; at += STEP) {
            for (int i = 0; i < count; i++) {
                __builtin_prefetch(from[i] + at + AHEAD);
                store(held + i * STEP, load(from[i] + at));
                store(held + i * STEP + LANES, load(from[i] + at + LANES));
            }
            image here = *job.out;
            here.data += row * here.stride + at;
#define BODY(size)                                                                                                   \
    convolve_block(                                                                                                  \
        size, o, 0, 0, job.width - at, tap, count, job.weight, job.bias, LINEAR, NULL, 0, NULL, 0, &here, NULL)
            FOR_BLOCKS(job.out->channels, BODY);
#undef BODY
        }
    }
}

/* The lift: a 1x1 convolution of `spectra`, (block, band, row, col), and of further images (kind, row, col); width must be
 * a multiple of TILE_STEP. */
void EXPORT(lift)(
    int32_t threads, int64_t rows, int64_t width, const float *spectra, int32_t bands, int64_t block_rows,
    const float *extra, int32_t extras, const float *weight, const float *bias, const image *out) {
    lifting job = {rows, width, spectra, bands, block_rows, extra, extras, weight, bias, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, lift_rows, &job);
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

typedef struct {
    ptrdiff_t width;
    const image *z;
    const float *spectra;
    int bands;
    ptrdiff_t block_rows;
    const float *weight, *bias, *direction;
    float most, *score;
    const image *clipped;
} scoring;

static void score_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const scoring job = *(const scoring *)given;
    const ptrdiff_t plane = job.block_rows * job.width, width = job.width;
    const float *tap[MOST_TAPS];
    for (ptrdiff_t row = first; row < last; row++) {
        int count = list_taps(tap, job.z, 1, row);
        const float *light = job.spectra + (row / job.block_rows) * job.bands * plane + (row % job.block_rows) * width;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            vec sum[2] = {{0}, {0}}, zero = {0}, most = splat(job.most);
            for (int band = 0; band < job.bands; band++) __builtin_prefetch(light + band * plane + at + AHEAD);
#define BODY(size) \
    score_block(size, o, at, tap, count, job.weight, job.bias, job.bands, job.direction, light, plane, sum)
            FOR_BLOCKS(job.bands, BODY);
#undef BODY
            put(job.score + row * width + at, sum[0], sum[1], width - at);
            if (!job.clipped) continue;
            float *to = job.clipped->data + row * job.clipped->stride + at;
            put(to, smaller(larger(sum[0], zero), most), smaller(larger(sum[1], zero), most), width - at);
        }
    }
}

/* The score of eq:flame_score at each pixel: features `z` give background and weight of every band of `spectra`.
 *
 * spectra holds blocks of `block_rows` rows, (block, band, row, col), width a multiple of TILE_STEP. weight is (block,
 * feature, band) for the spectral weight and behind it the same for the background; bias likewise. Out come the score and,
 * clipped to [0, most] and unless it is NULL, the image that the segmentation head reads. */
void EXPORT(score)(
    int32_t threads, int64_t rows, int64_t width, const image *z, const float *spectra, int32_t bands, int64_t block_rows,
    const float *weight, const float *bias, const float *direction, float most, float *score, const image *clipped) {
    scoring job = {width, z, spectra, bands, block_rows, weight, bias, direction, most, score, clipped};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, score_rows, &job);
}

INLINE void logit_block(
    const int size, int o, ptrdiff_t at, const float *const *tap, int count, const float *weight, const float *bias,
    const float *project, int channels, int outputs, vec sum[MOST_OUTPUTS][2]) {
    vec acc[MOST][2];
    begin(acc, size, bias + o);
    accumulate(acc, size, tap, weight + (ptrdiff_t)o * count, count, at);
    UNROLL for (int c = 0; c < size; c++) {
        acc[c][0] = activate(acc[c][0], RELU);
        acc[c][1] = activate(acc[c][1], RELU);
    }
    for (int k = 0; k < outputs; k++)
        UNROLL for (int c = 0; c < size; c++) {
            sum[k][0] += acc[c][0] * project[k * channels + o + c];
            sum[k][1] += acc[c][1] * project[k * channels + o + c];
        }
}

typedef struct {
    ptrdiff_t rows, width;
    const image *in;
    int images;
    const float *weight1, *bias1;
    int hidden;
    const float *weight2, *bias2;
    int channels;
    const float *project, *offset;
    int outputs, probability;
    float *logits;
} segmentation;

/* Of its hidden image three rows exist at a time, in a ring. */
static void segment_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const segmentation job = *(const segmentation *)given;
    const float *tap[MOST_TAPS];
    const ptrdiff_t width = job.width, stride = width + 2 * SIDE;
    float memory[job.hidden * 3 * stride];
    memset(memory, 0, sizeof(memory));
    image ring = {memory + SIDE, 3 * stride, stride, job.hidden, 3};
    for (ptrdiff_t row = first - 1; row <= last; row++) {
        ptrdiff_t slot = (row + 3) % 3, ready = row - 1;
        int count = 0;
        if (row < 0 || row >= job.rows)
            for (int c = 0; c < job.hidden; c++)
                memset(ring.data + c * ring.plane + slot * stride, 0, (size_t)width * sizeof(float));
        else {
            count = list_taps(tap, job.in, job.images, row);
            for (ptrdiff_t at = 0; at < width; at += STEP) {
#define BODY(size)                                                                                                 \
    convolve_block(                                                                                                \
        size, o, slot, at, width, tap, count, job.weight1, job.bias1, RELU, NULL, 0, NULL, 0, &ring, NULL)
                FOR_BLOCKS(job.hidden, BODY);
#undef BODY
            }
        }
        if (ready < first) continue;
        count = 0;
        for (int c = 0; c < job.hidden; c++)
            for (int down = -1; down <= 1; down++)
                for (int across = -1; across <= 1; across++)
                    tap[count++] = ring.data + c * ring.plane + ((ready + down + 3) % 3) * stride + across;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            vec sum[MOST_OUTPUTS][2];
            for (int k = 0; k < job.outputs; k++) sum[k][0] = sum[k][1] = splat(job.offset[k]);
#define BODY(size) \
    logit_block(size, o, at, tap, count, job.weight2, job.bias2, job.project, job.channels, job.outputs, sum)
            FOR_BLOCKS(job.channels, BODY);
#undef BODY
            for (int k = 0; k < job.outputs; k++) {
                vec a = sum[k][0], b = sum[k][1];
                if (job.probability) a = sigmoid(a), b = sigmoid(b);
                put(job.logits + (k * job.rows + ready) * width + at, a, b, width - at);
            }
        }
    }
}

/* The segmentation head: 3x3 to `hidden` channels, ReLU, 3x3 to `channels`, ReLU, 1x1 to `outputs` and their offsets.
 *
 * (output, row, col), as they are or, with `probability`, through a sigmoid. */
void EXPORT(segment)(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, const float *weight1,
    const float *bias1, int32_t hidden, const float *weight2, const float *bias2, int32_t channels, const float *project,
    const float *offset, int32_t outputs, int32_t probability, float *logits) {
    enum { PART = 32 }; /* each part makes two rows of its neighbours' hidden image again */
    segmentation job = {rows, width, in, images, weight1, bias1, hidden, weight2, bias2, channels, project, offset,
                        outputs, probability, logits};
    flame_share_rows(threads, rows, PART, segment_rows, &job);
}

typedef struct {
    ptrdiff_t rows, width;
    float *score;
    const float *windows;
    int count;
    const float *significance, *sigma;
    const image *out;
} rescoring;

static void rescore_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const rescoring job = *(const rescoring *)given;
    const ptrdiff_t layer = job.rows * job.width;
    for (ptrdiff_t row = first; row < last; row++)
        for (ptrdiff_t at = 0; at < job.width; at += LANES) {
            const ptrdiff_t here = row * job.width + at;
            vec score = load(job.score + here) + load(job.significance + here);
            for (int i = 0; i < job.count; i++) score -= load(job.windows + i * layer + here);
            store(job.score + here, score);
            float *to = job.out->data + row * job.out->stride + at;
            store(to, inverse_hyperbolic_sine(score));
            store(to + job.out->plane, inverse_hyperbolic_sine(score * load(job.sigma + here)));
        }
}

/* The score of a network of planes from what `score` gives of its windows, in place: the filter's estimate instead of the
 * windows' own sum, all in standard deviations. Out come its asinh and that of its product with sigma. Width must be a
 * multiple of TILE_STEP. */
void EXPORT(rescore)(
    int32_t threads, int64_t rows, int64_t width, float *score, const float *windows, int32_t count,
    const float *significance, const float *sigma, const image *out) {
    rescoring job = {rows, width, score, windows, count, significance, sigma, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, rescore_rows, &job);
}

typedef struct {
    ptrdiff_t rows, width;
    const float *said, *means;
    ptrdiff_t step;
    int count;
    const float *score, *significance, *sigma;
    float level;
    const float *held;
    float *out;
} telling;

static void tell_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const telling job = *(const telling *)given;
    const ptrdiff_t layer = job.rows * job.width;
    const vec least = splat(job.held[0]), most = splat(job.held[1]), end = splat(job.held[2]);
    const float floor = job.held[3] * job.held[3], bound = job.held[4], slope = job.held[5];
    const vec steep = splat(20.0f), share = splat(job.held[6]), nothing = splat(0.0f);
    for (ptrdiff_t here = first * job.width; here < last * job.width; here += LANES) {
        const float *said = job.said + here;
        vec sigma = load(job.sigma + here), total = splat(1.0f), sum = inverse_hyperbolic_sine(load(job.score + here));
        for (int i = 0; i < job.count; i++) {
            vec weight = exponential(larger(smaller(load(said + (3 + i) * layer), steep), -steep));
            vec up = exponential(load(job.means + i * job.step + here));
            sum += weight * inverse_hyperbolic_sine(0.5f * (up - 1.0f / up) / sigma);
            total += weight;
        }
        vec median = larger(smaller(sum / total + load(said + layer), end), -end);
        vec spread = exponential(larger(smaller(load(said + 2 * layer), most), least)), logit = load(said);
        if (job.level > 0) {
            vec lead = slope * (median - inverse_hyperbolic_sine(job.level / sigma)) / root(spread * spread + floor);
            logit += bound * (2.0f * sigmoid(2.0f / bound * lead) - 1.0f);
        }
        vec up = exponential(median), down = 1.0f / up, own = larger(0.5f * (up + down) * spread, share);
        vec wide = exponential(load(job.means + job.count * job.step - 3 * job.step / 2 + here));
        store(job.out + here, sigmoid(logit));
        store(job.out + layer + here, 0.5f * sigma * (up - down));
        store(job.out + 2 * layer + here, sigma * own);
        store(job.out + 3 * layer + here, sigma * load(job.significance + here));
        vec sure = larger(0.5f * (up - down) / own, nothing), witness = larger(0.5f * (wide - 1.0f / wide), nothing);
        store(job.out + 4 * layer + here, root(sure * root(sure * witness)));
    }
}

/* What a network of planes says of each pixel: (5, row, col), probability, enhancement, its spread, the filter's own
 * estimate, these three in the unit of sigma, and the core: the geometric mean of the enhancement in its own spreads, three
 * times, and of the significance of the widest mean, which stands half a step before that mean as asinh.
 *
 * said: a logit, change of the median and log-spread, both of asinh of standard deviations, and how much each of `count`
 * means, `step` floats apart and given as asinh, counts beside the score. With a level above 0, median and spread say how
 * surely it is exceeded, and the logit corrects that. held: least and most log-spread, most median, least spread, most
 * that median and spread may say, logit of one standard deviation, least spread of the enhancement in units of sigma. */
void EXPORT(tell_planes)(
    int32_t threads, int64_t rows, int64_t width, const float *said, const float *means, int64_t step, int32_t count,
    const float *score, const float *significance, const float *sigma, float level, const float *held, float *out) {
    telling job = {rows, width, said, means, step, count, score, significance, sigma, level, held, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, tell_rows, &job);
}
