/* What comes before the first learned weight, `flame.prepare`: logarithm, filling, whitening, pixel fields. */
#include "vectors.h"

/* The least and greatest of some pixels' bands so far; once NaN, always NaN. */
INLINE void widen_range(vec value, float *least, float *most, int begins) {
    vec l = begins ? value : load(least), m = begins ? value : load(most);
    store(least, choose((value >= l) | (l != l), l, value));
    store(most, choose((value <= m) | (m != m), m, value));
}

/* The logarithm of one band of one row, and the least and greatest of its pixels' bands so far. */
INLINE void logarithm_block(const float *from, float *to, float *least, float *most, float floor, float factor, int begins) {
    vec value = load(from);
    widen_range(value, least, most, begins);
    store(to, logarithm(larger(value, splat(floor)) * factor));
}

typedef struct {
    ptrdiff_t rows, width;
    int bands;
    const float *radiance;
    ptrdiff_t band_stride, row_stride, begin;
    float floor;
    const float *factor;
    float *out;
    ptrdiff_t block_rows, tile;
    float *low, *high;
} logarithms;

static void logarithm_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const logarithms job = *(const logarithms *)given;
    ptrdiff_t plane = job.block_rows * job.tile, whole = job.width / LANES * LANES;
    size_t left = (size_t)(job.width - whole) * sizeof(float);
    for (ptrdiff_t row = first; row < last; row++) {
        float *to = job.out + row / job.block_rows * job.bands * plane + row % job.block_rows * job.tile;
        float *least = job.low + row * job.tile, *most = job.high + row * job.tile, end[4][LANES] = {{0}};
        for (int band = 0; band < job.bands; band++, to += plane) {
            const float *from = job.radiance + band * job.band_stride + (row + job.begin) % job.rows * job.row_stride;
            float factor = job.factor[band];
            for (ptrdiff_t at = 0; at < whole; at += LANES)
                logarithm_block(from + at, to + at, least + at, most + at, job.floor, factor, band == 0);
            if (!left) continue;
            memcpy(end[0], from + whole, left);
            logarithm_block(end[0], end[1], end[2], end[3], job.floor, factor, band == 0);
            memcpy(to + whole, end[1], left);
        }
        if (!left) continue;
        memcpy(least + whole, end[2], left);
        memcpy(most + whole, end[3], left);
    }
}

/* One pass over radiance: least and greatest of each pixel's bands, NaN where one is, and the logarithm of each band
 * times its factor, after raising it to `floor`.
 *
 * The radiance may be a ring of `rows` rows whose first stands at `begin`; strides are in floats. Logarithms go into
 * blocks of `block_rows` rows of `tile` columns, (block, band, row, col), images into rows of `tile`. */
void EXPORT(take_logarithm)(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, int64_t begin, float floor, const float *factor, float *out, int64_t block_rows, int64_t tile,
    float *low, float *high) {
    logarithms job = {rows, width, bands, radiance, band_stride, row_stride, begin, floor, factor, out, block_rows, tile,
                      low, high};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, logarithm_rows, &job);
}

typedef struct {
    ptrdiff_t width;
    int bands;
    const float *radiance;
    ptrdiff_t band_stride, row_stride, ring, begin;
    float *low, *high, *sums;
    ptrdiff_t every;
} ranges;

/* Adds a band of one row to the sum of those before. */
INLINE void add_band(const float *from, float *sum, ptrdiff_t width, int begins) {
    for (ptrdiff_t at = 0; at < width; at++) sum[at] = begins ? from[at] : sum[at] + from[at];
}

static void range_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const ranges job = *(const ranges *)given;
    ptrdiff_t whole = job.width / LANES * LANES;
    size_t left = (size_t)(job.width - whole) * sizeof(float);
    for (int band = 0; band < job.bands; band++) /* several rows of a band stand together in memory */
        for (ptrdiff_t row = first; row < last; row++) {
            const float *from = job.radiance + (row + job.begin) % job.ring * job.row_stride + band * job.band_stride;
            const ptrdiff_t ahead = band + 1 < job.bands ? job.band_stride : 0;
            float *least = job.low + row * job.width, *most = job.high + row * job.width, end[3][LANES] = {{0}};
            for (ptrdiff_t at = 0; at < whole; at += LANES) {
                __builtin_prefetch(from + ahead + at); /* no processor foresees the step from band to band */
                widen_range(load(from + at), least + at, most + at, band == 0);
            }
            if (job.sums && row % job.every == 0) add_band(from, job.sums + row / job.every * job.width, job.width, band == 0);
            if (!left) continue;
            memcpy(end[0], from + whole, left);
            memcpy(end[1], least + whole, left);
            memcpy(end[2], most + whole, left);
            widen_range(load(end[0]), end[1], end[2], band == 0);
            memcpy(least + whole, end[1], left);
            memcpy(most + whole, end[2], left);
        }
}

/* Least and greatest of each pixel's bands, NaN where one is, as images of (row, col): of the first `rows` of a ring of
 * rows whose first stands at `begin`. With `sums`, the sum over the bands of the pixels of every `every`-th row too. */
void EXPORT(pixel_range)(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, int64_t ring, int64_t begin, float *low, float *high, float *sums, int64_t every) {
    ranges job = {width, bands, radiance, band_stride, row_stride, ring, begin, low, high, sums, every};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, range_rows, &job);
}

typedef struct {
    ptrdiff_t rows, width;
    float *spectra;
    int bands;
    ptrdiff_t block_rows;
    const uint8_t *usable;
    ptrdiff_t block;
    float *means;
} filling;

static void sum_blocks(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const filling job = *(const filling *)given;
    const ptrdiff_t plane = job.block_rows * job.width, width = job.width, across = (width + job.block - 1) / job.block;
    for (ptrdiff_t down = first; down < last; down++)
        for (int band = 0; band < job.bands; band++) {
            float columns[width], *to = job.means + (down * job.bands + band) * across;
            ptrdiff_t end = (down + 1) * job.block < job.rows ? (down + 1) * job.block : job.rows;
            memset(columns, 0, sizeof(columns));
            for (ptrdiff_t row = down * job.block; row < end; row++) {
                const uint8_t *usable = job.usable + row * width;
                const float *from = job.spectra + (row / job.block_rows * job.bands + band) * plane +
                                    row % job.block_rows * width;
                for (ptrdiff_t at = 0; at < width; at++) columns[at] += usable[at] ? from[at] : 0.0f;
            }
            for (ptrdiff_t part = 0; part < across; part++) {
                float sum = 0.0f;
                for (ptrdiff_t at = part * job.block; at < width && at < (part + 1) * job.block; at++) sum += columns[at];
                to[part] = sum;
            }
        }
}

/* Sums of the usable pixels of each square block, side `block`, of `spectra`, (block, band, row, col): (down, band,
 * across). */
void EXPORT(block_sums)(
    int32_t threads, int64_t rows, int64_t width, float *spectra, int32_t bands, int64_t block_rows,
    const uint8_t *usable, int64_t block, float *sums) {
    filling job = {rows, width, spectra, bands, block_rows, usable, block, sums};
    flame_share_rows(threads, (rows + block - 1) / block, 1, sum_blocks, &job);
}

static void fill_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const filling job = *(const filling *)given;
    const ptrdiff_t plane = job.block_rows * job.width, width = job.width, across = (width + job.block - 1) / job.block;
    for (ptrdiff_t row = first; row < last; row++) {
        const uint8_t *usable = job.usable + row * width;
        int32_t holes[width];
        ptrdiff_t count = 0;
        for (ptrdiff_t at = 0; at < width; at++)
            if (!usable[at]) holes[count++] = (int32_t)at;
        for (int band = 0; count && band < job.bands; band++) {
            float *to = job.spectra + (row / job.block_rows * job.bands + band) * plane + row % job.block_rows * width;
            const float *mean = job.means + (row / job.block * job.bands + band) * across;
            for (ptrdiff_t i = 0; i < count; i++) to[holes[i]] = mean[holes[i] / job.block];
        }
    }
}

/* Puts into each unusable pixel what `means`, laid out as `block_sums` gives sums, has for its block. */
void EXPORT(fill_holes)(
    int32_t threads, int64_t rows, int64_t width, float *spectra, int32_t bands, int64_t block_rows,
    const uint8_t *usable, int64_t block, float *means) {
    filling job = {rows, width, spectra, bands, block_rows, usable, block, means};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, fill_rows, &job);
}

INLINE void whiten_block(
    const int size, int o, const float *const *tap, int bands, const float *weight, const float *zeros, float *to,
    ptrdiff_t plane, ptrdiff_t count, const float *unit, vec response[2], vec power[2]) {
    vec acc[MOST][2];
    begin(acc, size, zeros);
    accumulate(acc, size, tap, weight + (ptrdiff_t)o * bands, bands, 0);
    UNROLL for (int c = 0; c < size; c++) {
        put(to + (o + c) * plane, acc[c][0], acc[c][1], count);
        UNROLL for (int half = 0; half < 2; half++) {
            response[half] += acc[c][half] * unit[o + c];
            power[half] += acc[c][half] * acc[c][half];
        }
    }
}

typedef struct {
    ptrdiff_t rows, width;
    float *spectra;
    int bands;
    ptrdiff_t block_rows;
    const float *mean, *weight, *unit;
    float *layers;
} whitening;

static void whiten_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const whitening job = *(const whitening *)given;
    const ptrdiff_t width = job.width, plane = job.block_rows * width, layer = job.rows * width;
    const int bands = job.bands;
    const float share = 1.0f / (float)bands, each = 1.0f / (float)((bands + 3) / 4);
    float centred[MOST_BANDS][STEP], zeros[MOST] = {0}, steps[width];
    const float *tap[MOST_BANDS];
    for (int band = 0; band < bands; band++) tap[band] = centred[band];
    for (ptrdiff_t row = first; row < last; row++) {
        float *line = job.spectra + row / job.block_rows * bands * plane + row % job.block_rows * width;
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            vec response[2] = {{0}, {0}}, power[2] = {{0}, {0}}, bright[2] = {{0}, {0}};
            for (int band = 0; band < bands; band++) {
                const float *from = line + band * plane + at;
                __builtin_prefetch(from + AHEAD, 1);
                UNROLL for (int half = 0; half < 2; half++) {
                    vec value = load_some(from + half * LANES, width - at - half * LANES);
                    bright[half] += value;
                    store(centred[band] + half * LANES, value - job.mean[band]);
                }
            }
#define BODY(size) \
    whiten_block(size, o, tap, bands, job.weight, zeros, line + at, plane, width - at, job.unit, response, power)
            FOR_BLOCKS(bands, BODY);
#undef BODY
            if (!job.layers) continue;
            float *to = job.layers + row * width + at;
            put(to, response[0], response[1], width - at);
            put(to + layer, power[0] * share, power[1] * share, width - at);
            put(to + 2 * layer, bright[0] * share, bright[1] * share, width - at);
        }
        if (!job.layers) continue;
        float *to = job.layers + 3 * layer + row * width;
        memset(steps, 0, sizeof(steps));
        for (int band = 0; band < bands; band += 4) {
            const float *from = line + band * plane;
            for (ptrdiff_t at = 0; at + 1 < width; at++) steps[at] += (from[at + 1] - from[at]) * (from[at + 1] - from[at]);
        }
        for (ptrdiff_t at = 0; at + 1 < width; at++) to[at] = steps[at] * each;
    }
}

/* Whitens log-radiance, (block, band, row, col), in place.
 *
 * With `layers`, four images of the whole tile: response along `unit`, mean square of the whitened bands, mean of the
 * log-radiance, and the mean square step to the next column of every fourth whitened band, last column left alone. */
void EXPORT(whiten)(
    int32_t threads, int64_t rows, int64_t width, float *spectra, int32_t bands, int64_t block_rows, const float *mean,
    const float *weight, const float *unit, float *layers) {
    whitening job = {rows, width, spectra, bands, block_rows, mean, weight, unit, layers};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, whiten_rows, &job);
}

/* The numbers that `flame.prepare.fields` gives its fields. */
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

typedef struct {
    ptrdiff_t rows, width;
    const float *layers;
    const int32_t *kinds, *places;
    int count;
    float noise, tiny, clip;
    int reach;
    float *out;
} fields;

/* The mean over columns and rows of what differs between neighbouring columns, before the three columns' mean. */
INLINE void local_steps(const fields *job, ptrdiff_t row, float *step) {
    const ptrdiff_t width = job->width;
    const float *steps = job->layers + 3 * job->rows * width;
    for (ptrdiff_t at = 0; width > 1 && at < width; at++) { /* a single column has no neighbours */
        ptrdiff_t left = within(at - 1, width - 1), right = within(at, width - 1);
        float sum = 0.0f;
        for (int i = -1; i <= 1; i++) {
            const float *of = steps + within(row + i, job->rows) * width;
            sum += of[left] + of[right];
        }
        step[at] = sum * (0.25f / 3.0f);
    }
    extend(step, width, 1);
}

/* The mean over rows of the clipped response's square, before the columns' mean. */
INLINE void local_power(const fields *job, ptrdiff_t row, float *around) {
    const ptrdiff_t width = job->width;
    vec clip = splat(job->clip);
    for (ptrdiff_t at = 0; at < width; at += LANES) {
        vec sum = {0};
        for (int i = -job->reach; i <= job->reach; i++) {
            vec response = load_some(job->layers + within(row + i, job->rows) * width + at, width - at);
            response = larger(smaller(response, clip), -clip);
            sum += response * response;
        }
        store(around + at, sum / (float)(2 * job->reach + 1));
    }
    extend(around, width, job->reach);
}

static void field_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const fields job = *(const fields *)given;
    const ptrdiff_t width = job.width, layer = job.rows * width;
    float scratch[2 * (width + 2 * SIDE)], *around = scratch + SIDE, *step = around + width + 2 * SIDE;
    vec offset = logarithm(splat(job.noise));
    memset(scratch, 0, sizeof(scratch));
    for (ptrdiff_t row = first; row < last; row++) {
        local_power(&job, row, around);
        local_steps(&job, row, step);
        for (int k = 0; k < job.count; k++)
            for (ptrdiff_t at = 0; at < width; at += LANES) {
                const float *here = job.layers + row * width + at;
                ptrdiff_t left = width - at;
                vec response = load_some(here, left), power = load_some(here + layer, left) + job.tiny, value;
                switch (job.kinds[k]) {
                case MATCHED_FILTER: value = inverse_hyperbolic_sine(response); break;
                case BRIGHTNESS: value = load_some(here + 2 * layer, left); break;
                case ANOMALY: value = 0.5f * logarithm(power); break;
                case COHERENCE: value = response * exponential(-0.5f * logarithm(power)); break;
                case NOISE: value = 0.5f * logarithm(box(step + at, 1) + job.tiny); break;
                case ENHANCEMENT: value = inverse_hyperbolic_sine(response * job.noise); break;
                default: value = 0.5f * logarithm(box(around + at, job.reach) + job.tiny) + offset;
                }
                store_some(job.out + job.places[k] * layer + row * width + at, value, left);
            }
    }
}

/* Pixel fields from the layers of `whiten`, each of `kinds` into its plane of `out`, (plane, row, col).
 *
 * noise is the tile's noise in units of what counts as faint, clip and reach those of the clutter. */
void EXPORT(pixel_fields)(
    int32_t threads, int64_t rows, int64_t width, const float *layers, const int32_t *kinds, const int32_t *places,
    int32_t count, float noise, float tiny, float clip, int32_t reach, float *out) {
    fields job = {rows, width, layers, kinds, places, count, noise, tiny, clip, reach, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, field_rows, &job);
}
