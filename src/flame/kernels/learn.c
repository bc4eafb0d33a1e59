/* A tile's background in passes, each without the plumes found before: `flame.filters.noise_aware.background`. */
#include "learn_anomaly.h"

INLINE ptrdiff_t packed_most(const learning *is) { return at_least(is->levels, DIRECTIONS) + 12; }

/* Cuts the working memory; gives how many doubles and floats that takes. */
static void cut_room(const learning *is, work *to, int64_t needs[2]) {
    const ptrdiff_t bands = is->bands, all = is->parts * bands, rows = bands + is->parts - 1;
    const ptrdiff_t line = line_of(bands + 1), wide = line_of(all), square = (bands + 1) * line;
    const ptrdiff_t padded = (is->count + CHUNK - 1) / CHUNK * CHUNK, pixels = (ptrdiff_t)is->rows * is->cols;
    *to = (work){.is = is, .bands = bands, .all = all, .line = line, .wide = wide, .rows = rows, .square = square, .padded = padded};
    double **doubles[] = {&to->sums, &to->cross, &to->measured, &to->joint, &to->joint_mean, &to->covariance, &to->each, &to->diagonal};
    const ptrdiff_t sizes[] = {is->bins * all, is->bins * all, is->bins * bands, all * wide, wide, square,
                               2 * at_least(2, at_least(is->bins, is->levels)) * square, is->bins * line};
    float **floats[] = {&to->heard, &to->estimate, &to->sigma, &to->plume, &to->some, &to->more, &to->responses,
                        &to->packed, &to->images[0], &to->images[1], &to->images[2], &to->images[3]};
    const ptrdiff_t lengths[] = {padded, padded, padded, padded, padded, padded, packed_most(is) * padded,
                                 packed_most(is) * bands, pixels, pixels, pixels, pixels};
    needs[0] = needs[1] = 0;
    for (int i = 0; i < 8; i++) {
        *doubles[i] = is->room ? is->room + needs[0] : NULL;
        needs[0] += line_of(sizes[i]);
    }
    for (int i = 0; i < 12; i++) {
        *floats[i] = is->pixels ? is->pixels + needs[1] : NULL;
        needs[1] += lengths[i];
    }
}

/* How many doubles `room` and floats `pixels` must have; `places` are twice as many as pixels. */
void EXPORT(learn_room)(const learning *is, int64_t *needs) {
    work with;
    cut_room(is, &with, needs);
}

/* Ground, noise, weights at each level and what is unusual, from a sample and the sums over it.
 *
 * 0, or 1 if something has no inverse: NumPy, which takes other ways then, has the last word. In flight nobody has, and
 * the tile is told as one that could not be judged. */
int32_t EXPORT(learn_filter)(const learning *is) {
    work with;
    int64_t needs[2];
    if (is->bins < 1 || is->bins > MOST_BINS || is->levels < 2 || is->levels > MOST_LEVELS || is->bands > MOST_BANDS) return 1;
    cut_room(is, &with, needs);
    memset(with.plume, 0, sizeof(float) * (size_t)with.padded);
    memset(is->neighbour, 0, sizeof(double) * (size_t)is->bands);
    is->told[NEIGHBOUR_MEAN] = 0.0;
    for (int pass = 0; pass < is->passes; pass++) {
        const int last = pass == is->passes - 1;
        if (fit_filter(&with, pass == 0, last)) return 1;
        if (!last) find_plume(&with);
    }
    return find_anomalies(&with);
}

/* The covariance that was learned with its mean noise exchanged for that of other brightnesses, `at_noise` of the fit:
 * (count, band, band). It works in `room`. */
void EXPORT(learn_at_noise)(const learning *is, int32_t count, const double *brightness, double *out) {
    work with;
    int64_t needs[2];
    const ptrdiff_t n = is->bands;
    cut_room(is, &with, needs);
    memset(with.covariance, 0, sizeof(double) * (size_t)with.square);
    with.noisy = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        memcpy(with.covariance + i * with.line, is->covariance + i * n, sizeof(double) * (size_t)n);
        with.noisy |= is->mean_noise[i] > 0.0;
    }
    const double least = least_noise_ratio(&with, with.covariance, n);
    for (int32_t level = 0; level < count; level++) {
        exchange_noise(&with, with.covariance, n, least, 1.0 / brightness[level], with.each);
        for (ptrdiff_t i = 0; i < n; i++)
            memcpy(out + (level * n + i) * n, with.each + i * with.line, sizeof(double) * (size_t)n);
    }
}
