/* The noise-aware filter's sample of a tile: its spectra, and the sums over them, `flame.filters.noise_aware.sample`. */
#include "noise_aware.h"

#include "doubles.h"

/* The logarithm of one band of some pixels; of the floor at brightness 1 where they are not usable. */
INLINE void log_block(const float *from, const float *bright, const float *weight, float factor, float floor, float *to) {
    vec value = choose(load(weight) > 0.0f, load(from) * factor, splat(0.0f));
    store(to, logarithm(larger(value, load(bright) * floor)));
}

typedef struct {
    ptrdiff_t rows, width;
    cube from;
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
                const float *from = row_of(&job.from, at_row) + job.bands[band] * job.from.band_stride;
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
                const float *from = row_of(&job.from, at_row) + job.bands[band] * job.from.band_stride;
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
 * ring, begin as in `project_spectra`. middle: which rows, `count` of them. bands: which bands, `used` of them. out: own and neighbours' log-radiance,
 * (2, band, row, col). images: brightness (1 where not usable), neighbours' noise in units of the pixel's own, whether it
 * is usable and whether it has neighbours: (4, row, col). */
void EXPORT(sample_spectra)(
    int32_t threads, int64_t rows, int64_t width, const float *radiance, int64_t band_stride, int64_t row_stride,
    int64_t ring, int64_t begin, const uint8_t *valid, const int32_t *middle, int64_t count, const int32_t *bands,
    int32_t used, const float *light, const float *factor, const float *limits, float *out, float *images) {
    sampling job = {rows,  width, {radiance, band_stride, row_stride, ring, begin},
                    valid, middle, count, bands, used, light, factor, limits, out, images};
    flame_share_rows(threads, count, 1, sample_rows, &job);
}

#define SUM_ROWS 4
#define HELD (CHUNK / 2) /* pixels whose bands lie in the first-level cache while products are added */
#define SUM_VECTORS 3 /* SUM_ROWS times as many sums in registers; SUM_STEP columns hold them, whatever the vectors */

typedef struct {
    ptrdiff_t count, layer;
    int bands, parts;
    const float *own, *ring;
    const int64_t *order;
    const uint8_t *has_ring;
    const int64_t *edges;
    float *chunks;
    double *first, *second;
} binning;

/* Gathers one chunk of pixels, as (band, pixel) in float and as (pixel, band) in double; adds up the bands. */
INLINE void gather(const binning *job, ptrdiff_t chunk, ptrdiff_t side, double *each, double *sums) {
    const ptrdiff_t begin = chunk * CHUNK, left = job->count - begin, held = left < CHUNK ? left : CHUNK;
    const int all = job->parts * job->bands;
    memset(each, 0, (size_t)(CHUNK * side) * sizeof(double));
    for (int band = 0; band < all; band++) {
        const float *own = job->own + band % job->bands * job->layer;
        const float *from = band < job->bands ? own : job->ring + (band - job->bands) * job->layer;
        float *to = job->chunks + (chunk * all + band) * CHUNK;
        double sum = 0.0;
        for (ptrdiff_t i = 0; i < held; i++) {
            ptrdiff_t at = job->order[begin + i];
            to[i] = (job->has_ring[begin + i] ? from : own)[at]; /* a pixel without neighbours speaks for them */
            each[i * side + band] = to[i];
            sum += to[i];
        }
        for (ptrdiff_t i = held; i < CHUNK; i++) to[i] = 0.0f;
        sums[band] += sum;
    }
}

/* Adds the products of SUM_ROWS bands with SUM_STEP others, over HELD pixels. */
INLINE void add_products(const double *each, ptrdiff_t side, ptrdiff_t row, ptrdiff_t col, double *to) {
    dvec sums[SUM_ROWS][SUM_VECTORS];
    UNROLL for (int r = 0; r < SUM_ROWS; r++)
        UNROLL for (int v = 0; v < SUM_VECTORS; v++)
            sums[r][v] = *(const loose_doubles *)(to + r * side + v * DOUBLES);
    for (int i = 0; i < HELD; i++, each += side)
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) {
            dvec other = *(const loose_doubles *)(each + col + v * DOUBLES);
            UNROLL for (int r = 0; r < SUM_ROWS; r++) sums[r][v] += other * each[row + r];
        }
    UNROLL for (int r = 0; r < SUM_ROWS; r++)
        UNROLL for (int v = 0; v < SUM_VECTORS; v++)
            *(loose_doubles *)(to + r * side + v * DOUBLES) = sums[r][v];
}

static void bin_rows(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const binning job = *(const binning *)given;
    const ptrdiff_t all = job.parts * job.bands, side = (all + SUM_STEP - 1) / SUM_STEP * SUM_STEP;
    const ptrdiff_t width = SUM_VECTORS * DOUBLES;
    double each[CHUNK * side];
    for (ptrdiff_t bin = first; bin < last; bin++) {
        double *sums = job.first + bin * all, *products = job.second + bin * side * side;
        memset(sums, 0, (size_t)all * sizeof(double));
        memset(products, 0, (size_t)(side * side) * sizeof(double));
        for (ptrdiff_t chunk = job.edges[bin]; chunk < job.edges[bin + 1]; chunk++) {
            gather(&job, chunk, side, each, sums);
            for (int part = 0; part < CHUNK / HELD; part++)
                for (ptrdiff_t row = 0; row < side; row += SUM_ROWS)
                    for (ptrdiff_t col = row / width * width; col < side; col += width)
                        add_products(each + part * HELD * side, side, row, col, products + row * side + col);
        }
        for (ptrdiff_t row = 1; row < side; row++)
            for (ptrdiff_t col = 0; col < row; col++) products[row * side + col] = products[col * side + row];
    }
}

/* A sample's pixels in order of brightness, and their sums in bins: one bin a thread at a time, so that the sums do not
 * depend on how many threads there are.
 *
 * own, ring: `bands` rows of `layer` pixels each; the neighbours' if `parts` is 2. order, has_ring: of `count` pixels.
 * edges: chunks at which the `bins` begin, and the end. chunks: (chunk, band, CHUNK) in float, filled up with zeros. first:
 * (bin, band) and second: (bin, side, side), side being a multiple of SUM_STEP, in double: a quiet sensor's noise is a
 * hundred-millionth of the variance of brightness, and float loses it. */
void EXPORT(bin_spectra)(
    int32_t threads, int64_t bins, int64_t count, int64_t layer, int32_t bands, int32_t parts, const float *own,
    const float *ring, const int64_t *order, const uint8_t *has_ring, const int64_t *edges, float *chunks,
    double *first, double *second) {
    binning job = {count, layer, bands, parts, own, ring, order, has_ring, edges, chunks, first, second};
    flame_share_rows(threads, bins, 1, bin_rows, &job);
}
