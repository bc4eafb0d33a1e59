/* The noise-aware matched filter's one pass over the cube, `flame.filters.noise_aware.project`. */
#include "vectors.h"

/* What a table has at `place`, interpolated between its entries: the sum of hats. */
INLINE vec between(const float *table, const vec *hat, int count) {
    vec sum = {0};
    for (int i = 0; i < count; i++) sum += table[i] * hat[i];
    return sum;
}

typedef struct {
    ptrdiff_t rows, width;
    int bands;
    const float *radiance;
    ptrdiff_t band_stride, row_stride;
    const float *light, *factor, *limits;
    int levels, directions;
    const float *weight, *offset, *tables;
    float low, each;
    const float *ground;
    float share;
    float *out;
} projection;

static void project_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const projection job = *(const projection *)given;
    const ptrdiff_t width = job.width, layer = job.rows * width;
    const int bands = job.bands, levels = job.levels, directions = job.directions, all = levels + 1 + directions;
    for (ptrdiff_t row = first; row < last; row++) {
        float logs[MOST_BANDS][STEP], rest[STEP];
        vec sums[MOST_RESPONSES][2];
        const float *tap[MOST_BANDS];
        for (int band = 0; band < bands; band++) tap[band] = logs[band];
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            ptrdiff_t count = width - at < STEP ? width - at : STEP;
            vec bright[2] = {{0}, {0}}, safe[2], floor[2];
            ivec usable[2];
            for (int band = 0; band < bands; band++) {
                const float *from = job.radiance + band * job.band_stride + row * job.row_stride + at;
                if (count < STEP) {
                    for (int i = 0; i < STEP; i++) rest[i] = 1.0f;
                    memcpy(rest, from, (size_t)count * sizeof(float));
                    from = rest;
                } else
                    __builtin_prefetch(from + AHEAD);
                UNROLL for (int half = 0; half < 2; half++) {
                    vec value = load(from + half * LANES);
                    bright[half] += value * job.light[band];
                    store(logs[band] + half * LANES, value * job.factor[band]);
                }
            }
            UNROLL for (int half = 0; half < 2; half++) {
                usable[half] = (bright[half] >= job.limits[0]) & (bright[half] <= job.limits[1]);
                safe[half] = choose(usable[half], bright[half], splat(1.0f));
                floor[half] = safe[half] * job.limits[2];
            }
            for (int band = 0; band < bands; band++)
                UNROLL for (int half = 0; half < 2; half++) {
                    float *to = logs[band] + half * LANES;
                    store(to, logarithm(larger(load(to), floor[half])));
                }
#define BODY(size)                                                                       \
    do {                                                                                 \
        vec acc[MOST][2];                                                                \
        begin(acc, size, job.offset + o);                                                    \
        accumulate(acc, size, tap, job.weight + (ptrdiff_t)o * bands, bands, 0);             \
        UNROLL for (int c = 0; c < size; c++) sums[o + c][0] = acc[c][0], sums[o + c][1] = acc[c][1]; \
    } while (0)
            FOR_BLOCKS(all, BODY);
#undef BODY
            vec made[8][2];
            UNROLL for (int half = 0; half < 2; half++) {
                vec hat[MOST_RESPONSES], place = (logarithm(safe[half]) - job.low) * job.each, inverse = 1.0f / safe[half];
                place = larger(smaller(place, splat((float)(levels - 1))), splat(0.0f));
                vec estimate = {0}, square = {0}, slope = {0}, curve = {0};
                for (int i = 0; i < levels; i++) {
                    hat[i] = larger(1.0f - magnitude(place - (float)i), splat(0.0f));
                    estimate += hat[i] * sums[i][half];
                }
                for (int i = 0; i < directions; i++) {
                    const float *of = job.ground + i;
                    vec expected = of[0] + inverse * (of[2 * directions] + inverse * of[directions]);
                    vec along = sums[levels + 1 + i][half], scaled = along / expected, methane = of[3 * directions] / expected;
                    square += along * scaled;
                    slope += along * methane;
                    curve += of[3 * directions] * methane;
                }
                made[0][half] = bright[half];
                made[1][half] = estimate;
                made[2][half] = sums[levels][half];
                made[3][half] = between(job.tables, hat, levels);
                made[4][half] = between(job.tables + levels, hat, levels);
                made[5][half] = job.share * square;
                made[6][half] = -2.0f * job.share * slope;
                made[7][half] = job.share * curve;
                for (int i = 1; i < 8; i++) made[i][half] = choose(usable[half], made[i][half], splat(0.0f));
            }
            for (int i = 0; i < 8; i++) put(job.out + i * layer + row * width + at, made[i][0], made[i][1], count);
        }
    }
}

/* Brightness, estimate, what the neighbours will hear, gain on what they tell, sigma, and three coefficients of the
 * anomaly: eight images of (row, col), 0 where a pixel is too dark or too bright, all but the brightness.
 *
 * light and factor: a number a band, for the brightness and before the logarithm. limits: least and greatest brightness,
 * and the least radiance over that of the pixel's brightness. weight: `levels` rows, one for the neighbours, then
 * `directions`, packed in blocks; offset: one number a row. tables: gain, then sigma, of each level. low, each: place of
 * a logarithm of brightness, `(log - low) * each`. ground: clutter, read-out, shot and methane of each direction. */
void EXPORT(project_spectra)(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, const float *light, const float *factor, const float *limits, int32_t levels, int32_t directions,
    const float *weight, const float *offset, const float *tables, float low, float each, const float *ground,
    float share, float *out) {
    projection job = {rows,   width,      bands,  radiance, band_stride, row_stride, light, factor, limits,
                      levels, directions, weight, offset,   tables,      low,        each,  ground, share,  out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, project_rows, &job);
}

#define MOST_LIGHT 2.0f

/* How much a pixel counts among its neighbours: by its light. */
INLINE float influence(float brightness, const float *limits) {
    float held = brightness < MOST_LIGHT ? brightness : MOST_LIGHT;
    return (brightness >= limits[0]) & (brightness <= limits[1]) ? held : 0.0f;
}

typedef struct {
    ptrdiff_t rows, width;
    const float *projected, *limits, *widening, *curve;
    int nodes;
    float step;
    float *out;
} finishing;

static void finish_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const finishing job = *(const finishing *)given;
    const ptrdiff_t width = job.width, layer = job.rows * width;
    const int nodes = job.nodes;
    for (ptrdiff_t row = first; row < last; row++) {
        float scratch[4 * (width + 2)], *light = scratch + 1, *told = light + width + 2, *own = told + width + 2;
        float *estimate = own + width + 2, limits[2] = {job.limits[0], job.limits[1]};
        memset(scratch, 0, sizeof(scratch));
        for (int side = -1; side <= 1; side++) {
            if (row + side < 0 || row + side >= job.rows) continue;
            const float *bright = job.projected + (row + side) * width, *tells = bright + 2 * layer;
            float share = side ? 1.0f : 2.0f;
            for (ptrdiff_t at = 0; at < width; at++) {
                float weight = influence(bright[at], limits);
                light[at] += share * weight;
                told[at] += share * weight * tells[at];
                own[at] = side ? own[at] : weight;
            }
        }
        const float *here = job.projected + row * width;
        float *to = job.out + row * width, least = job.widening[0], rise = job.widening[1];
        for (ptrdiff_t at = 0; at < width; at++) {
            float around = light[at - 1] + 2.0f * light[at] + light[at + 1] - 4.0f * own[at];
            float heard = told[at - 1] + 2.0f * told[at] + told[at + 1] - 4.0f * own[at] * here[2 * layer + at];
            /* What is left by rounding of nothing around is nothing. */
            float said = around > 1e-5f * own[at] ? heard / around : 0.0f;
            float linear = here[layer + at] + here[3 * layer + at] * said;
            float odd = here[5 * layer + at] + linear * (here[6 * layer + at] + linear * here[7 * layer + at]);
            odd = odd > 0.0f ? odd : 0.0f;
            estimate[at] = linear;
            to[layer + at] = here[4 * layer + at] * __builtin_sqrtf(least + rise * (odd > 1.0f ? odd - 1.0f : 0.0f));
            to[2 * layer + at] = own[at] > 0.0f ? here[at] : 0.0f;
            to[3 * layer + at] = own[at] > 0.0f ? odd : 0.0f;
        }
        float each = 1.0f / job.step, end = (float)(nodes - 1);
        for (ptrdiff_t at = 0; at < width; at++) {
            float place = estimate[at] * each;
            float held = place > end - 1.0f ? end - 1.0f : place > 0.0f ? place : 0.0f;
            int below = (int)held;
            float share = place - (float)below, inside = share > 1.0f ? 1.0f : share > 0.0f ? share : 0.0f;
            const float *curve = job.curve + below, *slopes = curve + nodes;
            float slope = slopes[0] + (slopes[1] - slopes[0]) * inside;
            float beyond = place < 0.0f ? place : place > end ? place - end : 0.0f;
            float enhancement = curve[0] + (curve[1] - curve[0]) * inside + beyond * job.step * slope;
            to[at] = own[at] > 0.0f ? enhancement : 0.0f;
            to[layer + at] = own[at] > 0.0f ? to[layer + at] * slope : __builtin_inff();
        }
    }
}

/* Enhancement, sigma, brightness and anomaly, (kind, row, col), from the eight images of `project_spectra`.
 *
 * limits as there. widening: factor on the variance, and its rise with the anomaly. curve: enhancement, then its slope, at
 * `nodes` readings `step` apart. Where a pixel is not usable all is 0 and sigma infinite. */
void EXPORT(finish_spectra)(
    int32_t threads, int64_t rows, int64_t width, const float *projected, const float *limits, const float *widening,
    const float *curve, int32_t nodes, float step, float *out) {
    finishing job = {rows, width, projected, limits, widening, curve, nodes, step, out};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, finish_rows, &job);
}

/* The logarithm of one band of some pixels; of the floor at brightness 1 where they are not usable. */
INLINE void log_block(const float *from, const float *bright, const float *weight, float factor, float floor, float *to) {
    vec value = choose(load(weight) > 0.0f, load(from) * factor, splat(0.0f));
    store(to, logarithm(larger(value, load(bright) * floor)));
}

typedef struct {
    ptrdiff_t rows, width;
    const float *radiance;
    ptrdiff_t band_stride, row_stride;
    const uint8_t *valid;
    const int32_t *middle;
    ptrdiff_t count;
    const int32_t *bands;
    int used;
    const float *light, *factor, *limits;
    float *out, *images;
} sampling;

static void sample_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    static const float near[3] = {1.0f, 2.0f, 1.0f};
    const sampling job = *(const sampling *)given;
    const ptrdiff_t width = job.width, line = width + 2, layer = job.count * width, all = job.used * layer;
    const int used = job.used;
    for (ptrdiff_t row = first; row < last; row++) {
        float scratch[3 * line * 3 + 9 * width], *bright = scratch + 1, *weight = bright + 3 * line, *logs = weight + 3 * line;
        float *share = logs + 3 * line - 1, *image = job.images + row * width;
        memset(scratch, 0, sizeof(scratch));
        for (int side = 0; side < 3; side++) {
            ptrdiff_t at_row = job.middle[row] + side - 1;
            if (at_row < 0 || at_row >= job.rows) continue;
            float *sum = bright + side * line;
            for (int band = 0; band < used; band++) {
                const float *from = job.radiance + job.bands[band] * job.band_stride + at_row * job.row_stride;
                for (ptrdiff_t at = 0; at < width; at++) sum[at] += from[at] * job.light[job.bands[band]];
            }
            for (ptrdiff_t at = 0; at < width; at++) {
                weight[side * line + at] = job.valid[at_row * width + at] ? influence(sum[at], job.limits) : 0.0f;
                if (weight[side * line + at] == 0.0f) sum[at] = 1.0f;
            }
        }
        for (ptrdiff_t at = 0; at < width; at++) {
            float total = 0.0f, noise = 0.0f;
            for (int n = 0; n < 9; n++) {
                ptrdiff_t from = n / 3 * line + at + n % 3 - 1;
                float w = n == 4 || weight[from] == 0.0f ? 0.0f : near[n / 3] * near[n % 3] / 12.0f * weight[from];
                share[n * width + at] = w;
                total += w;
                if (w > 0.0f) noise += w * w / bright[from];
            }
            int usable = weight[line + at] > 0.0f, ring = usable && total > 0.0f;
            float each = ring ? 1.0f / total : 0.0f;
            for (int n = 0; n < 9; n++) share[n * width + at] *= each;
            image[at] = bright[line + at];
            image[layer + at] = noise * bright[line + at] * each * each;
            image[2 * layer + at] = usable ? 1.0f : 0.0f;
            image[3 * layer + at] = ring ? 1.0f : 0.0f;
        }
        for (int band = 0; band < used; band++) {
            float *own = job.out + band * layer + row * width, *ring = own + all;
            for (int side = 0; side < 3; side++) {
                ptrdiff_t at_row = job.middle[row] + side - 1;
                if (at_row < 0 || at_row >= job.rows) continue;
                const float *from = job.radiance + job.bands[band] * job.band_stride + at_row * job.row_stride;
                float *to = logs + side * line;
                ptrdiff_t at = 0;
                for (; at + LANES <= width; at += LANES)
                    log_block(from + at, bright + side * line + at, weight + side * line + at, job.factor[job.bands[band]], job.limits[2], to + at);
                if (at == width) continue;
                float part[4][LANES];
                size_t size = (size_t)(width - at) * sizeof(float);
                for (int i = 0; i < LANES; i++) part[0][i] = part[1][i] = part[2][i] = 1.0f;
                memcpy(part[0], from + at, size);
                memcpy(part[1], bright + side * line + at, size);
                memcpy(part[2], weight + side * line + at, size);
                log_block(part[0], part[1], part[2], job.factor[job.bands[band]], job.limits[2], part[3]);
                memcpy(to + at, part[3], size);
            }
            memcpy(own, logs + line, (size_t)width * sizeof(float));
            memset(ring, 0, (size_t)width * sizeof(float));
            for (int n = 0; n < 9; n++) {
                if (n == 4) continue;
                const float *from = logs + n / 3 * line + n % 3 - 1, *of = share + n * width;
                for (ptrdiff_t at = 0; at < width; at++) ring[at] += of[at] * from[at];
            }
        }
    }
}

/* Some rows' log-radiance and that of each pixel's neighbours, `flame.filters.noise_aware.sample`.
 *
 * middle: which rows, `count` of them. bands: which bands, `used` of them. out: own and neighbours' log-radiance,
 * (2, band, row, col). images: brightness (1 where not usable), neighbours' noise in units of the pixel's own, whether it
 * is usable and whether it has neighbours: (4, row, col). */
void EXPORT(sample_spectra)(
    int32_t threads, int64_t rows, int64_t width, const float *radiance, int64_t band_stride, int64_t row_stride,
    const uint8_t *valid, const int32_t *middle, int64_t count, const int32_t *bands, int32_t used, const float *light,
    const float *factor, const float *limits, float *out, float *images) {
    sampling job = {rows,  width, radiance, band_stride, row_stride, valid, middle, count,
                    bands, used,  light,    factor,      limits,     out,   images};
    flame_share_rows(threads, count, 1, sample_rows, &job);
}
