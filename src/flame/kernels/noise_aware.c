/* The noise-aware matched filter's one pass over the cube, `flame.filters.noise_aware.project`. */
#include "noise_aware.h"

typedef struct {
    ptrdiff_t rows, width;
    int bands;
    cube from;
    const uint8_t *valid;
    const float *light, *factor, *limits;
    int levels, directions;
    const float *weight, *offset, *tables;
    float low, each;
    const float *ground;
    float share;
    float *out;
    int functions, anchors, windows;
    const float *noise;
    float *functions_out, *windows_out;
    ptrdiff_t stride, plane;
} projection;

#define STRETCH 256 /* pixels of a row that are fetched at a time */

/* STEP pixels: their log-radiance, and what goes with it. */
typedef struct {
    float logs[MOST_BANDS][STEP];
    const float *tap[MOST_BANDS];
    vec bright[2], safe[2], place[2];
    ivec valid[2], usable[2];
    float least, most; /* of the places */
} pixels;

/* Rows of weights from one kind of response to the next. */
typedef struct {
    const float *weight, *offset;
} responses;

INLINE responses after(responses now, int rows, int bands) {
    return (responses){now.weight + (ptrdiff_t)rows * bands, now.offset + rows};
}

/* The least number from `rows` on that fives and fours make up: as many are packed, the last of them zeros. */
INLINE int packed(int rows) {
    while (4 * ((5 - rows % 5) % 5) > rows) rows++;
    return rows;
}

INLINE void respond(vec sums[MOST_RESPONSES][2], int rows, const pixels *of, int bands, responses by) {
#define BODY(size)                                                                                    \
    do {                                                                                              \
        vec acc[MOST][2];                                                                             \
        begin(acc, size, by.offset + o);                                                              \
        accumulate(acc, size, of->tap, by.weight + (ptrdiff_t)o * bands, bands, 0);                   \
        UNROLL for (int c = 0; c < size; c++) sums[o + c][0] = acc[c][0], sums[o + c][1] = acc[c][1]; \
    } while (0)
    FOR_BLOCKS(rows, BODY);
#undef BODY
}

INLINE void see_valid(const projection *job, ptrdiff_t row, ptrdiff_t at, ptrdiff_t count, pixels *to) {
    int32_t held[STEP];
    for (int i = 0; i < STEP; i++) held[i] = -1;
    for (ptrdiff_t i = 0; job->valid && i < count; i++) held[i] = -(job->valid[row * job->width + at + i] != 0);
    memcpy(to->valid, held, sizeof(held));
}

/* Brightness, and where it lies between the levels: the least and the greatest tell which of them are needed. */
INLINE void find_place(const projection *job, pixels *to) {
    float places[STEP];
    UNROLL for (int half = 0; half < 2; half++) {
        vec bright = to->bright[half] = choose(to->valid[half], to->bright[half], splat(0.0f));
        to->usable[half] = to->valid[half] & (bright >= job->limits[0]) & (bright <= job->limits[1]);
        to->safe[half] = choose(to->usable[half], bright, splat(1.0f));
        vec place = (logarithm(to->safe[half]) - job->low) * job->each;
        to->place[half] = larger(smaller(place, splat((float)(job->levels - 1))), splat(0.0f));
        store(places + half * LANES, to->place[half]);
    }
    to->least = to->most = places[0];
    for (int i = 1; i < STEP; i++) {
        to->least = places[i] < to->least ? places[i] : to->least;
        to->most = places[i] > to->most ? places[i] : to->most;
    }
}

/* Copies a stretch of a row out of all bands, ones beyond its end. Bands are often a power of two apart: pixel by pixel they
 * would push each other out of the caches before all of a line in memory is read. */
INLINE void fetch_stretch(const projection *job, ptrdiff_t row, ptrdiff_t at, ptrdiff_t count, float to[][STRETCH]) {
    const float *line = row_of(&job->from, row) + at;
    for (int band = 0; band < job->bands; band++) {
        const float *from = line + band * job->from.band_stride;
        const ptrdiff_t ahead = band + 1 < job->bands ? job->from.band_stride : 0;
        for (ptrdiff_t i = 0; i < count; i += 16) __builtin_prefetch(from + ahead + i);
        memcpy(to[band], from, (size_t)count * sizeof(float));
        for (ptrdiff_t i = count; i < STRETCH; i++) to[band][i] = 1.0f;
    }
}

INLINE void read_pixels(const projection *job, float fetched[][STRETCH], ptrdiff_t within, ptrdiff_t row, ptrdiff_t at, ptrdiff_t count, pixels *to) {
    to->bright[0] = to->bright[1] = splat(0.0f);
    for (int band = 0; band < job->bands; band++) {
        const float *from = fetched[band] + within;
        UNROLL for (int half = 0; half < 2; half++) {
            vec value = load(from + half * LANES);
            to->bright[half] += value * job->light[band];
            store(to->logs[band] + half * LANES, value * job->factor[band]);
        }
    }
    see_valid(job, row, at, count, to);
    find_place(job, to);
    vec floor[2] = {to->safe[0] * job->limits[2], to->safe[1] * job->limits[2]};
    for (int band = 0; band < job->bands; band++)
        UNROLL for (int half = 0; half < 2; half++) {
            float *log = to->logs[band] + half * LANES;
            store(log, logarithm(larger(load(log), floor[half])));
        }
}

INLINE vec hat(vec place, float at) { return larger(1.0f - magnitude(place - at), splat(0.0f)); }

/* Estimate, gain and sigma between the levels, four of them at a time and only those near some pixel's brightness. */
INLINE void find_estimate(const projection *job, const pixels *of, responses by, vec made[8][2]) {
    const int all = (job->levels + 3) / 4 * 4;
    made[1][0] = made[1][1] = made[3][0] = made[3][1] = made[4][0] = made[4][1] = splat(0.0f);
    for (int o = 0; o < all; o += 4) {
        if ((float)(o + 4) <= of->least || (float)(o - 1) >= of->most) continue;
        vec acc[MOST][2];
        begin(acc, 4, by.offset + o);
        accumulate(acc, 4, of->tap, by.weight + (ptrdiff_t)o * job->bands, job->bands, 0);
        UNROLL for (int c = 0; c < 4; c++)
            UNROLL for (int half = 0; half < 2; half++) {
                vec near = hat(of->place[half], (float)(o + c));
                made[1][half] += near * acc[c][half];
                made[3][half] += near * job->tables[o + c];
                made[4][half] += near * job->tables[all + o + c];
            }
    }
}

/* What the neighbours will hear, and the three coefficients of the anomaly. */
INLINE void find_ground(const projection *job, const pixels *of, responses by, vec made[8][2]) {
    vec sums[MOST_RESPONSES][2];
    const int directions = job->directions;
    respond(sums, packed(1 + directions), of, job->bands, by);
    UNROLL for (int half = 0; half < 2; half++) {
        vec square = {0}, slope = {0}, curve = {0}, inverse = 1.0f / of->safe[half];
        for (int i = 0; i < directions; i++) {
            const float *ground = job->ground + i;
            vec expected = ground[0] + inverse * (ground[2 * directions] + inverse * ground[directions]);
            vec along = sums[1 + i][half], methane = ground[3 * directions] / expected;
            square += along * (along / expected);
            slope += along * methane;
            curve += ground[3 * directions] * methane;
        }
        made[2][half] = sums[0][half];
        made[5][half] = job->share * square;
        made[6][half] = -2.0f * job->share * slope;
        made[7][half] = job->share * curve;
    }
}

/* Learned functions of wavelength, in units of their spread over ground and this pixel's noise; their asinh. */
INLINE void find_functions(const projection *job, const pixels *of, responses by, float *to, ptrdiff_t count) {
    vec sums[MOST_RESPONSES][2];
    respond(sums, packed(job->functions), of, job->bands, by);
    vec inverse[2] = {1.0f / of->safe[0], 1.0f / of->safe[1]};
    for (int i = 0; i < job->functions; i++) {
        const float shot = job->noise[i], read_out = job->noise[job->functions + i];
        vec value[2];
        UNROLL for (int half = 0; half < 2; half++) {
            vec spread = root(1.0f + inverse[half] * (shot + inverse[half] * read_out));
            value[half] = choose(of->usable[half], inverse_hyperbolic_sine(sums[i][half] / spread), splat(0.0f));
        }
        put(to + i * job->plane, value[0], value[1], count);
    }
}

/* What each window adds to the estimate, in ppm m, between the anchors near some pixel's brightness. */
INLINE void find_windows(const projection *job, const pixels *of, responses by, float *to, ptrdiff_t count) {
    vec sums[MOST_RESPONSES][2], parts[MOST_RESPONSES][2];
    const int windows = job->windows, rows = packed(windows);
    const float ratio = (float)(job->anchors - 1) / (float)(job->levels - 1);
    memset(parts, 0, (size_t)windows * sizeof(parts[0]));
    for (int a = 0; a < job->anchors; a++, by = after(by, rows, job->bands)) {
        if ((float)(a + 1) <= of->least * ratio || (float)(a - 1) >= of->most * ratio) continue;
        respond(sums, rows, of, job->bands, by);
        UNROLL for (int half = 0; half < 2; half++) {
            vec near = hat(of->place[half] * ratio, (float)a);
            for (int i = 0; i < windows; i++) parts[i][half] += near * sums[i][half];
        }
    }
    for (int i = 0; i < windows; i++) {
        UNROLL for (int half = 0; half < 2; half++)
            parts[i][half] = choose(of->usable[half], parts[i][half], splat(0.0f));
        put(to + i * job->plane, parts[i][0], parts[i][1], count);
    }
}

static void project_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const projection job = *(const projection *)given;
    const ptrdiff_t width = job.width, layer = job.rows * width;
    const responses levels = {job.weight, job.offset}, ground = after(levels, (job.levels + 3) / 4 * 4, job.bands);
    const responses functions = after(ground, packed(1 + job.directions), job.bands);
    const responses windows = after(functions, packed(job.functions), job.bands);
    pixels here;
    float fetched[job.bands][STRETCH];
    for (int band = 0; band < job.bands; band++) here.tap[band] = here.logs[band];
    for (ptrdiff_t row = first; row < last; row++)
        for (ptrdiff_t at = 0; at < width; at += STEP) {
            ptrdiff_t count = width - at < STEP ? width - at : STEP, place = row * job.stride + at, within = at % STRETCH;
            vec made[8][2];
            if (!within) fetch_stretch(&job, row, at, width - at < STRETCH ? width - at : STRETCH, fetched);
            read_pixels(&job, fetched, within, row, at, count, &here);
            find_estimate(&job, &here, levels, made);
            find_ground(&job, &here, ground, made);
            UNROLL for (int half = 0; half < 2; half++) {
                made[0][half] = here.bright[half];
                for (int i = 1; i < 8; i++) made[i][half] = choose(here.usable[half], made[i][half], splat(0.0f));
            }
            for (int i = 0; i < 8; i++) put(job.out + i * layer + row * width + at, made[i][0], made[i][1], count);
            if (job.functions) find_functions(&job, &here, functions, job.functions_out + place, count);
            if (job.anchors) find_windows(&job, &here, windows, job.windows_out + place, count);
        }
}

/* Brightness, estimate, what the neighbours will hear, gain on what they tell, sigma, and three coefficients of the
 * anomaly: eight images of (row, col), 0 where a pixel is too dark or too bright, all but the brightness, and where it
 * is not valid.
 *
 * ring, begin: rows of the radiance, and where the first of them stands. valid: a byte a pixel, or NULL if all are.
 * light and factor: a number a band, for the brightness and before the logarithm. limits: least and greatest brightness,
 * and the least radiance over that of the pixel's brightness. weight: `levels` rows, one for the neighbours and
 * `directions`, `functions`, and `windows` for each of the `anchors`; each kind filled up with zeros (levels to fours,
 * the others to what fives and fours make up) and packed by itself; offset: one number a row. tables: gain, then sigma, of
 * each level. low, each: place of a logarithm of brightness, `(log - low) * each`. ground: clutter, read-out, shot and
 * methane of each direction. noise: of each function by shot, then by read-out.
 *
 * functions_out takes the functions' planes, windows_out those of the windows in ppm m, rows `stride` and planes `plane`
 * floats apart; anchors lie as far apart as the levels do, from the first to the last. */
void EXPORT(project_spectra)(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, int64_t ring, int64_t begin, const uint8_t *valid, const float *light, const float *factor,
    const float *limits, int32_t levels, int32_t directions, const float *weight, const float *offset,
    const float *tables, float low, float each, const float *ground, float share, float *out, int32_t functions,
    int32_t anchors, int32_t windows, const float *noise, float *functions_out, float *windows_out, int64_t stride,
    int64_t plane) {
    projection job = {
        rows,  width, bands,  {radiance, band_stride, row_stride, ring, begin}, valid, light,     factor,
        limits, levels, directions, weight, offset, tables, low, each, ground, share, out, functions,
        anchors, windows, noise, functions_out, windows_out, stride, plane};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, project_rows, &job);
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
