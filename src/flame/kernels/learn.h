/* What the kernels that learn a tile's ground share: a sample in bins of brightness, and the sums over it. */
#ifndef FLAME_LEARN_H
#define FLAME_LEARN_H
#include "learning.h"
#include "linear.h"
#include "ordering.h"

/* Working memory, cut out of `room` and `pixels`. */
typedef struct {
    const learning *is;
    ptrdiff_t bands, all, line, wide, rows; /* line: of one spectrum's matrix, wide: of pixel and neighbours together */
    ptrdiff_t square, padded;               /* doubles of such a matrix; pixels in whole chunks */
    double *sums, *cross, *measured, *joint, *joint_mean, *covariance, *each, *diagonal;
    double square_of[MOST_BINS], weight[MOST_BINS];
    int has_plume, noisy; /* noisy: whether any band has noise that is known */
    float *responses, *heard, *estimate, *sigma, *plume, *some, *more, *packed, *images[4];
} work;

INLINE ptrdiff_t at_most(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t at_least(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

/* Takes a plume of `plume` ppm m in each pixel out of the sums: what it adds to them in each bin. */
static void subtract_plume(work *with) {
    const learning *is = with->is;
    const ptrdiff_t all = with->all;
    with->has_plume = 0;
    memset(with->cross, 0, sizeof(double) * (size_t)(is->bins * all));
    for (int bin = 0; bin < is->bins; bin++) {
        double total = 0.0, *cross = with->cross + bin * all;
        with->square_of[bin] = 0.0;
        for (int64_t i = is->edges[bin] * CHUNK; i < is->edges[bin + 1] * CHUNK && i < is->count; i++) {
            double plume = with->plume[i];
            if (plume == 0.0) continue;
            const float *spectra = is->chunks + i / CHUNK * all * CHUNK + i % CHUNK;
            with->has_plume = 1;
            total += plume;
            with->square_of[bin] += plume * plume;
            for (ptrdiff_t band = 0; band < all; band++) cross[band] += plume * (double)spectra[band * CHUNK];
        }
        for (ptrdiff_t band = 0; band < all; band++)
            with->sums[bin * all + band] = is->first[bin * all + band] - total * is->spectrum[band % with->bands];
    }
}

/* Mean and covariance of the first `n` bands, rows `line` apart, with a weight for the pixels of each bin. */
static void weigh_moments(const work *with, const double *weight, ptrdiff_t n, ptrdiff_t line, double *mean, double *covariance) {
    const learning *is = with->is;
    const ptrdiff_t all = with->all;
    double total = 0.0, square = 0.0, cross[line], spectrum[line];
    memset(mean, 0, sizeof(double) * (size_t)line);
    memset(cross, 0, sizeof(cross));
    memset(spectrum, 0, sizeof(spectrum));
    for (ptrdiff_t i = 0; i < n; i++) spectrum[i] = is->spectrum[i % with->bands];
    memset(covariance, 0, sizeof(double) * (size_t)(n * line));
    for (int bin = 0; bin < is->bins; bin++) {
        if (weight[bin] == 0.0) continue;
        total += weight[bin] * is->number[bin];
        square += weight[bin] * with->square_of[bin];
        for (ptrdiff_t i = 0; i < n; i++) {
            const double *second = is->second + (bin * is->side + i) * is->side;
            mean[i] += weight[bin] * with->sums[bin * all + i];
            cross[i] += weight[bin] * with->cross[bin * all + i];
            for (ptrdiff_t j = 0; j < n; j++) covariance[i * line + j] += weight[bin] * second[j];
        }
    }
    for (ptrdiff_t i = 0; i < n; i++) mean[i] /= total;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) {
            double *here = covariance + i * line + j;
            if (with->has_plume) *here += square * spectrum[i] * spectrum[j] - cross[i] * spectrum[j] - cross[j] * spectrum[i];
            *here = *here / total - mean[i] * mean[j];
        }
}

typedef struct {
    const work *with;
    const float *weight;
    int rows;
    float *to;
} responding;

static void respond_to_chunks(const void *given, ptrdiff_t first, ptrdiff_t last) {
    const responding job = *(const responding *)given;
    const work *with = job.with;
    const int bands = (int)with->bands;
    const float *tap[MOST_BANDS];
    for (ptrdiff_t chunk = first; chunk < last; chunk++) {
        for (int band = 0; band < bands; band++) tap[band] = with->is->chunks + (chunk * with->all + band) * CHUNK;
        for (ptrdiff_t at = 0; at < CHUNK; at += STEP) {
            float *to = job.to + chunk * CHUNK + at;
#define BODY(size)                                                                                      \
    do {                                                                                                \
        vec acc[MOST][2] = {{{0}}};                                                                     \
        accumulate(acc, size, tap, job.weight + (ptrdiff_t)o * bands, bands, at);                       \
        UNROLL for (int c = 0; c < size; c++) put(to + (o + c) * with->padded, acc[c][0], acc[c][1], STEP); \
    } while (0)
            FOR_BLOCKS(job.rows, BODY);
#undef BODY
        }
    }
}

/* `rows` of weights times the spectra of every pixel, into `responses`: (row, pixel). */
static void respond(work *with, const double *weight, int rows) {
    int filled = rows;
    while (4 * ((5 - filled % 5) % 5) > filled) filled++; /* fives and fours make it up */
#define BODY(size)                                                                                \
    for (ptrdiff_t band = 0; band < with->bands; band++)                                          \
        for (int c = 0; c < size; c++)                                                            \
    with->packed[o * with->bands + band * size + c] = o + c < rows ? (float)weight[(o + c) * with->bands + band] : 0.0f
    FOR_BLOCKS(filled, BODY);
#undef BODY
    responding job = {with, with->packed, filled, with->responses};
    flame_share_rows(with->is->threads, with->padded / CHUNK, 8, respond_to_chunks, &job);
}
#endif
