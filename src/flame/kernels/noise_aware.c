/* The noise-aware matched filter's one pass over the cube, `flame.filters.noise_aware.project`. */
#include "vectors.h"

#define MOST_ROWS 64 /* weights of one pixel: levels, neighbours, directions of the ground */

/* What a table has at `place`, interpolated between its entries: the sum of hats. */
INLINE vec between(const float *table, const vec *hat, int count) {
    vec sum = {0};
    for (int i = 0; i < count; i++) sum += table[i] * hat[i];
    return sum;
}

/* Brightness, estimate, what the neighbours will hear, gain on what they tell, sigma, and three coefficients of the
 * anomaly: eight images of (row, col), 0 where a pixel is too dark or too bright, all but the brightness.
 *
 * light and factor: a number a band, for the brightness and before the logarithm. limits: least and greatest brightness,
 * and the least radiance over that of the pixel's brightness. weight: `levels` rows, one for the neighbours, then
 * `directions`, packed in blocks; offset: one number a row. tables: gain, then sigma, of each level. first, each: place of
 * a logarithm of brightness, `(log - first) * each`. ground: clutter, read-out, shot and methane of each direction. */
void EXPORT(project_spectra)(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, const float *light, const float *factor, const float *limits, int32_t levels, int32_t directions,
    const float *weight, const float *offset, const float *tables, float first, float each, const float *ground,
    float share, float *out) {
    ptrdiff_t layer = rows * width;
    int all = levels + 1 + directions;
    SHARE_ROWS for (ptrdiff_t row = 0; row < rows; row++) {
        float logs[MOST_BANDS][STEP], rest[STEP];
        vec sums[MOST_ROWS][2];
        const float *tap[MOST_BANDS];
        for (int band = 0; band < bands; band++) tap[band] = logs[band];
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            ptrdiff_t count = width - at < STEP ? width - at : STEP;
            vec bright[2] = {{0}, {0}}, safe[2], floor[2];
            ivec usable[2];
            for (int band = 0; band < bands; band++) {
                const float *from = radiance + band * band_stride + row * row_stride + at;
                if (count < STEP) {
                    for (int i = 0; i < STEP; i++) rest[i] = 1.0f;
                    memcpy(rest, from, (size_t)count * sizeof(float));
                    from = rest;
                } else
                    __builtin_prefetch(from + AHEAD);
                UNROLL for (int half = 0; half < 2; half++) {
                    vec value = load(from + half * LANES);
                    bright[half] += value * light[band];
                    store(logs[band] + half * LANES, value * factor[band]);
                }
            }
            UNROLL for (int half = 0; half < 2; half++) {
                usable[half] = (bright[half] >= limits[0]) & (bright[half] <= limits[1]);
                safe[half] = choose(usable[half], bright[half], splat(1.0f));
                floor[half] = safe[half] * limits[2];
            }
            for (int band = 0; band < bands; band++)
                UNROLL for (int half = 0; half < 2; half++) {
                    float *to = logs[band] + half * LANES;
                    store(to, logarithm(larger(load(to), floor[half])));
                }
#define BODY(size)                                                                       \
    do {                                                                                 \
        vec acc[MOST][2];                                                                \
        begin(acc, size, offset + o);                                                    \
        accumulate(acc, size, tap, weight + (ptrdiff_t)o * bands, bands, 0);             \
        UNROLL for (int c = 0; c < size; c++) sums[o + c][0] = acc[c][0], sums[o + c][1] = acc[c][1]; \
    } while (0)
            FOR_BLOCKS(all, BODY);
#undef BODY
            vec made[8][2];
            UNROLL for (int half = 0; half < 2; half++) {
                vec hat[MOST_ROWS], place = (logarithm(safe[half]) - first) * each, inverse = 1.0f / safe[half];
                place = larger(smaller(place, splat((float)(levels - 1))), splat(0.0f));
                vec estimate = {0}, square = {0}, slope = {0}, curve = {0};
                for (int i = 0; i < levels; i++) {
                    hat[i] = larger(1.0f - magnitude(place - (float)i), splat(0.0f));
                    estimate += hat[i] * sums[i][half];
                }
                for (int i = 0; i < directions; i++) {
                    const float *of = ground + i;
                    vec expected = of[0] + inverse * (of[2 * directions] + inverse * of[directions]);
                    vec along = sums[levels + 1 + i][half], scaled = along / expected, methane = of[3 * directions] / expected;
                    square += along * scaled;
                    slope += along * methane;
                    curve += of[3 * directions] * methane;
                }
                made[0][half] = bright[half];
                made[1][half] = estimate;
                made[2][half] = sums[levels][half];
                made[3][half] = between(tables, hat, levels);
                made[4][half] = between(tables + levels, hat, levels);
                made[5][half] = share * square;
                made[6][half] = -2.0f * share * slope;
                made[7][half] = share * curve;
                for (int i = 1; i < 8; i++) made[i][half] = choose(usable[half], made[i][half], splat(0.0f));
            }
            for (int i = 0; i < 8; i++) put(out + i * layer + row * width + at, made[i][0], made[i][1], count);
        }
    }
}
