/* What comes before the first learned weight: logarithm, whitening, further inputs. */
#include "vectors.h"

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
