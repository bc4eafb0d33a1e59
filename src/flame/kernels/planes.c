/* The planes of the noise-aware filter's results, `flame.prepare.planes.preparer`: averages, clutter, logarithms. */
#include "vectors.h"

/* Layers of the filter's results, and of the scratch images between the kernels. */
enum { ENHANCEMENT, SIGMA, BRIGHTNESS, ANOMALY };
enum { WEIGHT, WEIGHTED, POWER, SEEN };

/* Where the planes stand: rows `stride` and planes `plane` floats apart. */
typedef struct {
    float *data;
    ptrdiff_t stride, plane;
} planes;

/* The settings that the kernels need; see `flame.prepare.planes.compiled`. */
typedef struct {
    float unit, tiny, most_sigma, most_share, clip;
} constants;

typedef struct {
    ptrdiff_t rows, width, line;
    const float *found;
    constants is;
    planes fields, seen, parts;
    int widths, windows;
    float *significance, *sigma, *scratch;
} spreading;

/* One vector of pixels: everything that needs no neighbours. */
INLINE void spread_pixels(const spreading *job, ptrdiff_t row, ptrdiff_t at) {
    const ptrdiff_t left = job->width - at, layer = job->rows * job->width, last = 3 + 2 * job->widths;
    const float *here = job->found + row * job->width + at;
    const constants is = job->is;
    float *fields = job->fields.data + row * job->fields.stride + at, *to = job->scratch + row * job->line + at;
    const ptrdiff_t plane = job->fields.plane, image = job->rows * job->line;
    vec zero = splat(0.0f), enhancement = load_some(here, left), sigma = load_some(here + SIGMA * layer, left);
    vec brightness = load_some(here + BRIGHTNESS * layer, left), anomaly = load_some(here + ANOMALY * layer, left);
    ivec usable = (brightness > 0.0f) & (sigma < __builtin_inff());
    vec held = choose(usable, smaller(sigma, splat(is.most_sigma)), splat(is.most_sigma));
    vec z = enhancement / held, clipped = larger(smaller(z, splat(is.clip)), splat(-is.clip));
    vec weight = choose(usable, 1.0f / (sigma * sigma), zero);
    store(to + WEIGHT * image, weight);
    store(to + WEIGHTED * image, choose(usable, weight * enhancement, zero));
    store(to + POWER * image, choose(usable, clipped * clipped, zero));
    store(to + SEEN * image, choose(usable, splat(1.0f), zero));
    store_some(job->significance + row * job->fields.stride + at, z, left);
    store_some(job->sigma + row * job->fields.stride + at, held / is.unit, left);
    store_some(fields, inverse_hyperbolic_sine(z), left);
    store_some(fields + plane, logarithm(held / is.unit), left);
    store_some(fields + 2 * plane, inverse_hyperbolic_sine(enhancement / is.unit), left);
    store_some(fields + last * plane, logarithm(choose(usable, brightness, splat(1.0f))), left);
    store_some(fields + (last + 1) * plane, 0.5f * logarithm(anomaly + is.tiny), left);
    for (int i = 0; i < job->windows; i++) {
        float *part = job->parts.data + i * job->parts.plane + row * job->parts.stride + at;
        vec share = load_some(part, left) / held;
        share = larger(smaller(share, splat(is.most_share)), splat(-is.most_share));
        store_some(part, share, left);
        float *seen = job->seen.data + i * job->seen.plane + row * job->seen.stride + at;
        store_some(seen, inverse_hyperbolic_sine(share), left);
    }
}

static void spread_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const spreading job = *(const spreading *)given;
    for (ptrdiff_t row = first; row < last; row++)
        for (ptrdiff_t at = 0; at < job.line; at += LANES) spread_pixels(&job, row, at); /* zeros right of the image */
}

typedef struct {
    ptrdiff_t rows, width, line;
    const float *scratch;
    constants is;
    planes fields;
    int widths;
    const int32_t *reach;
    const float *taps;
} smoothing;

/* A row above or below the image stands for its mirror image, the edge between the two. */
INLINE ptrdiff_t mirrored(ptrdiff_t at, ptrdiff_t count) {
    at = at < 0 ? -1 - at : at;
    at %= 2 * count;
    return at < count ? at : 2 * count - 1 - at;
}

INLINE void extend_mirrored(float *line, ptrdiff_t width, ptrdiff_t reach) {
    for (ptrdiff_t i = 1; i <= reach; i++) {
        line[-i] = line[mirrored(-i, width)];
        line[width - 1 + i] = line[mirrored(width - 1 + i, width)];
    }
}

/* Inverse-variance averages of the rows around one, before those of the columns: of weights with the taps, with their
 * squares, and of weighted estimates. Nothing lies beyond the edges. */
INLINE void average_down(const smoothing *job, ptrdiff_t row, const float *taps, ptrdiff_t reach, float *to, ptrdiff_t next) {
    const ptrdiff_t image = job->rows * job->line;
    const ptrdiff_t above = row < reach ? row : reach, below = job->rows - 1 - row < reach ? job->rows - 1 - row : reach;
    for (ptrdiff_t at = 0; at < job->line; at += STEP) {
        vec sums[3][2] = {{{0}}};
        for (ptrdiff_t i = -above; i <= below; i++) {
            const float *from = job->scratch + (row + i) * job->line + at, tap = taps[reach + i];
            UNROLL for (int half = 0; half < 2; half++) {
                vec weight = tap * load(from + half * LANES);
                sums[0][half] += weight;
                sums[1][half] += tap * weight;
                sums[2][half] += tap * load(from + image + half * LANES);
            }
        }
        for (int i = 0; i < 3; i++) put(to + i * next + at, sums[i][0], sums[i][1], STEP);
    }
}

/* Then along the columns: the mean, and the mean over its standard deviation, each into its plane. */
INLINE void average_across(const smoothing *job, const float *taps, ptrdiff_t reach, const float *from, ptrdiff_t next, float *to) {
    for (ptrdiff_t at = 0; at < job->width; at += STEP) {
        vec sums[3][2] = {{{0}}}, z[2], mean[2];
        for (ptrdiff_t i = -reach; i <= reach; i++) {
            const float *here = from + at + i, tap = taps[reach + i], square = tap * tap;
            UNROLL for (int half = 0; half < 2; half++, here += LANES) {
                sums[0][half] += tap * load(here);
                sums[1][half] += square * load(here + next);
                sums[2][half] += tap * load(here + 2 * next);
            }
        }
        UNROLL for (int half = 0; half < 2; half++) {
            ivec near = sums[0][half] > 0.0f;
            z[half] = choose(near, sums[2][half] / root(sums[1][half]), splat(0.0f));
            mean[half] = choose(near, sums[2][half] / sums[0][half], splat(0.0f));
            mean[half] = inverse_hyperbolic_sine(mean[half] / job->is.unit);
        }
        put(to + at, z[0], z[1], job->width - at);
        put(to + job->fields.plane + at, mean[0], mean[1], job->width - at);
    }
}

/* Mean of two images over the rows or columns that `around` points at; `apart` floats from one image to the other. */
INLINE void average_two(const float *const *around, const float *taps, ptrdiff_t count, ptrdiff_t at, ptrdiff_t apart, vec sums[2][2]) {
    sums[0][0] = sums[0][1] = sums[1][0] = sums[1][1] = splat(0.0f);
    for (ptrdiff_t i = 0; i < count; i++)
        UNROLL for (int half = 0; half < 2; half++) {
            const float *from = around[i] + at + half * LANES;
            sums[0][half] += taps[i] * load(from);
            sums[1][half] += taps[i] * load(from + apart);
        }
}

/* The local clutter: the mean square of clipped significance over the usable pixels of a Gaussian, image mirrored. */
INLINE void find_clutter(const smoothing *job, ptrdiff_t row, const float *taps, ptrdiff_t reach, float *line, ptrdiff_t next, float *to) {
    const ptrdiff_t image = job->rows * job->line, count = 2 * reach + 1;
    const float *around[2 * MOST_BLUR + 1];
    vec sums[2][2], tiny = splat(job->is.tiny);
    for (ptrdiff_t i = 0; i < count; i++)
        around[i] = job->scratch + POWER * image + mirrored(row + i - reach, job->rows) * job->line;
    for (ptrdiff_t at = 0; at < job->line; at += STEP) {
        average_two(around, taps, count, at, image, sums);
        for (int i = 0; i < 2; i++) put(line + i * next + at, sums[i][0], sums[i][1], STEP);
    }
    for (ptrdiff_t i = 0; i < count; i++) around[i] = line + i - reach;
    extend_mirrored(line, job->width, reach);
    extend_mirrored(line + next, job->width, reach);
    for (ptrdiff_t at = 0; at < job->width; at += STEP) {
        average_two(around, taps, count, at, next, sums);
        UNROLL for (int half = 0; half < 2; half++)
            sums[0][half] = 0.5f * logarithm(sums[0][half] / larger(sums[1][half], tiny) + tiny);
        put(to + at, sums[0][0], sums[0][1], job->width - at);
    }
}

static void smooth_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const smoothing job = *(const smoothing *)given;
    const ptrdiff_t next = job.line + 2 * MOST_BLUR;
    float lines[3 * next], *line = lines + MOST_BLUR;
    for (ptrdiff_t row = first; row < last; row++) {
        float *to = job.fields.data + 3 * job.fields.plane + row * job.fields.stride;
        const float *taps = job.taps;
        memset(lines, 0, sizeof(lines));
        for (int i = 0; i < job.widths; i++) {
            average_down(&job, row, taps, job.reach[i], line, next);
            average_across(&job, taps, job.reach[i], line, next, to);
            taps += 2 * job.reach[i] + 1;
            to += 2 * job.fields.plane;
        }
        find_clutter(&job, row, taps, job.reach[job.widths], line, next, to + 2 * job.fields.plane);
    }
}

typedef struct {
    ptrdiff_t rows, width, line;
    const float *seen;
    planes fields;
    float *factors;
} judging;

/* Values in the order of their keys, as unsigned numbers. */
INLINE uint32_t key_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

INLINE float value_of(uint32_t key) {
    uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The usable pixels of a plane, or how far they are from a value. */
typedef struct {
    const judging *job;
    const float *values;
    int distance;
    float from;
} choice;

#define FOR_CHOSEN(of, key, DO)                                                                        \
    for (ptrdiff_t row_ = 0; row_ < (of).job->rows; row_++) {                                          \
        const float *value_ = (of).values + row_ * (of).job->fields.stride;                            \
        const float *seen_ = (of).job->seen + row_ * (of).job->line;                                   \
        for (ptrdiff_t at_ = 0; at_ < (of).job->width; at_++) {                                        \
            if (seen_[at_] == 0.0f) continue;                                                          \
            float held_ = (of).distance ? __builtin_fabsf(value_[at_] - (of).from) : value_[at_];      \
            uint32_t key = key_of(held_);                                                              \
            DO;                                                                                        \
        }                                                                                              \
    }

/* The bin of a histogram in which a rank falls; the rank within it is left. */
INLINE uint32_t bin_of(const uint32_t *counts, uint32_t *rank) {
    uint32_t bin = 0;
    while (*rank >= counts[bin]) *rank -= counts[bin++];
    return bin;
}

/* The median of `count` pixels, exactly: by the upper half of the key's bits, then by the lower. */
static float median(choice of, uint32_t count) {
    uint32_t counts[1 << 16], rank = (count - 1) / 2, next = UINT32_MAX;
    memset(counts, 0, sizeof(counts));
    FOR_CHOSEN(of, key, counts[key >> 16]++);
    const uint32_t upper = bin_of(counts, &rank), held = counts[upper];
    uint32_t second = rank + 1;
    memset(counts, 0, sizeof(counts));
    FOR_CHOSEN(of, key, if (key >> 16 == upper) counts[key & 0xffffu]++);
    const float middle = value_of(upper << 16 | bin_of(counts, &rank));
    if (count % 2) return middle;
    if (second < held)
        next = upper << 16 | bin_of(counts, &second);
    else /* the last of its bin: what follows has other upper bits */
        FOR_CHOSEN(of, key, if (key >> 16 > upper && key < next) next = key);
    return 0.5f * (middle + value_of(next));
}

static void judge_planes(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const judging job = *(const judging *)given;
    uint32_t count = 0;
    for (ptrdiff_t row = 0; row < job.rows; row++)
        for (ptrdiff_t at = 0; at < job.width; at++) count += job.seen[row * job.line + at] > 0.0f;
    for (ptrdiff_t i = first; i < last; i++) {
        choice of = {&job, job.fields.data + (3 + 2 * i) * job.fields.plane, 0, 0.0f};
        float spread = 0.0f;
        if (count) {
            of.from = median(of, count);
            of.distance = 1;
            spread = 1.4826f * median(of, count);
        }
        job.factors[i] = spread > 1.0f ? spread : 1.0f;
    }
}

typedef struct {
    ptrdiff_t width;
    planes fields;
    int widths;
    const float *factors;
} finishing;

static void finish_planes(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const finishing job = *(const finishing *)given;
    for (ptrdiff_t row = first; row < last; row++)
        for (int i = 0; i < job.widths; i++) {
            float *to = job.fields.data + (3 + 2 * i) * job.fields.plane + row * job.fields.stride;
            for (ptrdiff_t at = 0; at < job.width; at += LANES)
                store_some(to + at, inverse_hyperbolic_sine(load_some(to + at, job.width - at) / job.factors[i]), job.width - at);
        }
}

/* The planes of `FIELD_NAMES` and those of the windows, from what `finish_spectra` found.
 *
 * found: its four layers. settings: reference, what is added before logarithms, greatest sigma, greatest share of a window,
 * clip of the clutter. reach, taps: of each of the `widths` Gaussians, then of the clutter's; count: all taps. fields, seen and parts: where
 * the fields, the windows' asinh and the windows stand; the windows come in ppm m, as `project_spectra` gives them, and are
 * divided by sigma in place. significance, sigma: images with rows as the fields'. scratch: four images of rows `line`
 * floats long, a multiple of TILE_STEP that is not less than `width`. factors: one for each width, by which sigma was raised.
 *
 * Gives 1, and makes nothing, if the reaches are not those of so many taps: a damaged table must not lead out of memory. */
int32_t EXPORT(filter_planes)(
    int32_t threads, int64_t rows, int64_t width, const float *found, const float *settings, int32_t widths,
    const int32_t *reach, const float *taps, int32_t count, float *fields, float *seen, float *parts, int32_t windows,
    int64_t stride, int64_t plane, float *significance, float *sigma, float *scratch, int64_t line, float *factors) {
    int32_t checked[MOST_GAUSSIANS];
    if (widths < 0 || widths >= MOST_GAUSSIANS) return 1;
    for (int i = 0; i <= widths; i++) {
        checked[i] = reach[i];
        if (checked[i] < 0 || checked[i] > MOST_BLUR) return 1;
        count -= 2 * checked[i] + 1;
    }
    if (count != 0) return 1;
    constants is = {settings[0], settings[1], settings[2], settings[3], settings[4]};
    planes of = {fields, stride, plane}, windows_seen = {seen, stride, plane}, windows_given = {parts, stride, plane};
    spreading spread = {rows, width, line, found, is, of, windows_seen, windows_given, widths, windows, significance, sigma, scratch};
    smoothing smooth = {rows, width, line, scratch, is, of, widths, checked, taps};
    judging judge = {rows, width, line, scratch + SEEN * rows * line, of, factors};
    finishing finish = {width, of, widths, factors};
    flame_share_rows(threads, rows, ROWS_AT_ONCE, spread_rows, &spread);
    flame_share_rows(threads, rows, ROWS_AT_ONCE, smooth_rows, &smooth);
    flame_share_rows(threads, widths, 1, judge_planes, &judge);
    flame_share_rows(threads, rows, ROWS_AT_ONCE, finish_planes, &finish);
    return 0;
}
