/* Plumes in the sample, and pixels that its covariance does not describe: `flame.filters.noise_aware.background`, `.anomaly`. */
#ifndef FLAME_LEARN_ANOMALY_H
#define FLAME_LEARN_ANOMALY_H
#include "learn_filter.h"

/* Averages an image with the taps along columns or, `apart` being its width, along rows; nothing lies beyond the edges. */
static void blur(const float *from, float *to, ptrdiff_t rows, ptrdiff_t cols, const float *taps, int reach, int down, int squared) {
    for (ptrdiff_t row = 0; row < rows; row++) {
        double sums[cols];
        memset(sums, 0, sizeof(sums));
        for (int i = -reach; i <= reach; i++) {
            const float once = taps[reach + i], tap = squared ? once * once : once;
            const ptrdiff_t other = down ? row + i : row, low = down || i > 0 ? 0 : -i, high = down || i < 0 ? cols : cols - i;
            if (other < 0 || other >= rows) continue;
            const float *here = from + other * cols + (down ? 0 : i);
            for (ptrdiff_t at = low; at < high; at++) sums[at] += (double)tap * (double)here[at];
        }
        for (ptrdiff_t at = 0; at < cols; at++) to[row * cols + at] = (float)sums[at];
    }
}

/* What is surely methane in the sample, into `plume`. */
static void find_plume(work *with) {
    const learning *is = with->is;
    const ptrdiff_t size = (ptrdiff_t)is->rows * is->cols;
    float *total = with->images[0], *weighted = with->images[1], *squared = with->images[2], *between = with->images[3];
    memset(total, 0, sizeof(float) * (size_t)size);
    memset(weighted, 0, sizeof(float) * (size_t)size);
    for (int64_t i = 0; i < is->count; i++) {
        const int64_t at = is->order[i];
        total[at] = 1.0f / (with->sigma[i] * with->sigma[i]);
        weighted[at] = total[at] * with->estimate[i];
    }
    blur(total, between, is->rows, is->cols, is->down, is->reach_down, 1, 1);
    blur(between, squared, is->rows, is->cols, is->across, is->reach_across, 0, 1);
    blur(total, between, is->rows, is->cols, is->down, is->reach_down, 1, 0);
    blur(between, total, is->rows, is->cols, is->across, is->reach_across, 0, 0);
    blur(weighted, between, is->rows, is->cols, is->down, is->reach_down, 1, 0);
    blur(between, weighted, is->rows, is->cols, is->across, is->reach_across, 0, 0);
    for (int64_t i = 0; i < is->count; i++) /* the mean over its standard deviation */
        with->some[i] = with->more[i] = weighted[is->order[i]] / __builtin_sqrtf(squared[is->order[i]]);
    /* Noise is independent from pixel to pixel, ground is not: sigma grows to the spread that is really there. */
    const float middle = median_of(with->more, (int32_t)is->count);
    for (int64_t i = 0; i < is->count; i++) with->more[i] = __builtin_fabsf(with->some[i] - middle);
    const float apart = 1.4826f * median_of(with->more, (int32_t)is->count), honest = apart > 1.0f ? apart : 1.0f;
    for (int64_t i = 0; i < is->count; i++) {
        const int64_t at = is->order[i];
        const float mean = weighted[at] / total[at], spread = __builtin_sqrtf(squared[at]) / total[at] * honest;
        const float share = spread / 2000.0f, above = mean / spread - (float)(is->plume_significance - 0.5);
        const float sure = above > 0.0f ? above < 1.0f ? above : 1.0f : 0.0f;
        with->plume[i] = mean / (1.0f + share * share) * sure;
    }
}

/* The directions of most clutter over noise, by subspace iteration, and their eigenvalues, into `clutter`. */
static void find_directions(work *with, const double *scale_of, ptrdiff_t wanted) {
    enum { ROUNDS = 12 };
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, line = with->line, every = at_least(1, n / (2 * wanted)), starts = (n + every - 1) / every;
    double *matrix = with->each, *basis = matrix + with->square, *next = basis + with->square;
    double small[starts * starts], turned[starts * starts];
    memset(matrix, 0, sizeof(double) * (size_t)with->square);
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) matrix[i * line + j] = is->covariance[i * n + j] / (scale_of[i] * scale_of[j]);
    for (ptrdiff_t i = 0; i < starts; i++) memcpy(basis + i * line, matrix + i * every * line, sizeof(double) * (size_t)line);
    orthonormalise(basis, starts, line);
    for (int round = 0; round <= ROUNDS; round++) {
        memset(next, 0, sizeof(double) * (size_t)(starts * line));
        for (ptrdiff_t i = 0; i < starts; i++) {
            double *to = next + i * line;
            for (ptrdiff_t j = 0; j < n; j += 4) {
                double times[4] = {0};
                for (ptrdiff_t r = j; r < at_most(j + 4, n); r++) times[r - j] = -basis[i * line + r];
                if (j + 4 <= n) subtract_four(to, matrix + j * line, line, times, 0, line);
                else
                    for (ptrdiff_t r = j; r < n; r++) subtract(to, matrix + r * line, times[r - j], 0, line);
            }
        }
        if (round == ROUNDS) break;
        double *held = basis;
        basis = next;
        next = held;
        orthonormalise(basis, starts, line);
    }
    for (ptrdiff_t i = 0; i < starts; i++)
        for (ptrdiff_t j = 0; j < starts; j++) small[i * starts + j] = dot(basis + i * line, next + j * line, 0, line);
    find_eigenvectors(small, (int)starts, turned);
    for (ptrdiff_t i = 0; i < wanted; i++) { /* the largest first */
        ptrdiff_t largest = 0;
        for (ptrdiff_t j = 1; j < starts; j++)
            if (small[j * starts + j] > small[largest * starts + largest]) largest = j;
        is->clutter[i] = small[largest * starts + largest];
        small[largest * starts + largest] = -1.0;
        for (ptrdiff_t band = 0; band < n; band++) {
            double sum = 0.0;
            for (ptrdiff_t j = 0; j < starts; j++) sum += turned[largest * starts + j] * basis[j * line + band];
            is->direction[i * n + band] = sum / scale_of[band];
        }
    }
}

/* How far each pixel is from the ground, over what is expected, into `some`. */
static void find_distances(work *with, int count) {
    const learning *is = with->is;
    const ptrdiff_t n = with->bands;
    double mean[DIRECTIONS] = {0}, methane[DIRECTIONS] = {0}, read_out[DIRECTIONS] = {0}, shot[DIRECTIONS] = {0};
    for (int i = 0; i < count; i++)
        for (ptrdiff_t band = 0; band < n; band++) {
            const double here = is->direction[i * n + band];
            mean[i] += here * is->mean[band];
            methane[i] += here * is->spectrum[band];
            read_out[i] += here * here * is->law[band];
            shot[i] += here * here * is->law[n + band];
        }
    respond(with, is->direction, count);
    for (int64_t pixel = 0; pixel < is->count; pixel++) {
        const double inverse = 1.0 / (double)is->brightness[pixel], estimate = with->estimate[pixel];
        double sum = 0.0;
        for (int i = 0; i < count; i++) {
            const double along = (double)with->responses[i * with->padded + pixel] - mean[i] - methane[i] * estimate;
            sum += along * along / (is->clutter[i] + inverse * (shot[i] + inverse * read_out[i]));
        }
        with->some[pixel] = (float)(sum / count);
    }
}

enum { PARTS = 24 };

/* Variance of the estimate over what was expected, against the excess of the distance; in parts of equally many pixels. */
static void fit_widening(work *with) {
    const learning *is = with->is;
    double terms[PARTS * 2], found[2];
    const int32_t count = (int32_t)is->count, size = count / PARTS, more = count % PARTS;
    for (int32_t i = 0; i < count; i++) {
        const float excess = (float)((double)with->some[i] / is->told[TYPICAL] - 1.0);
        with->some[i] = excess > 0.0f ? excess : 0.0f;
    }
    sort_places(with->some, is->places, is->places + count, count);
    for (int32_t part = 0, at = 0; part < PARTS; part++) {
        const int32_t end = (part + 1) * size + (part + 1 < more ? part + 1 : more), held = end - at;
        double excess = 0.0, squares = 0.0;
        for (; at < end; at++) {
            const int32_t pixel = is->places[at];
            const double z = (double)((with->estimate[pixel] - with->plume[pixel]) / with->sigma[pixel]), square = z * z;
            excess += (double)with->some[pixel];
            squares += square < 100.0 ? square : 100.0;
        }
        terms[2 * part] = held / squares;
        terms[2 * part + 1] = excess / squares;
    }
    /* Relative errors alike, so that the few outlying pixels count as much as the many others. */
    fit_not_negative(terms, PARTS, 2, 1e-12, found);
    is->told[WIDENING] = found[0] > 0.5 ? found[0] : 0.5;
    is->told[WIDENING + 1] = found[1];
}

/* Which pixels the covariance does not describe, and how the estimate's spread grows with that. 0 or 1. */
static int find_anomalies(work *with) {
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, wanted = at_most(n, DIRECTIONS);
    double scale_of[n];
    for (ptrdiff_t i = 0; i < n; i++) {
        const double least = 1e-6 * is->covariance[i * n + i];
        scale_of[i] = __builtin_sqrt(is->mean_noise[i] > least ? is->mean_noise[i] : least);
    }
    find_directions(with, scale_of, wanted);
    for (ptrdiff_t i = 0; i < wanted; i++) {
        const double value = is->clutter[i], left = value - 1.0 > 1e-3 * value ? value - 1.0 : 1e-3 * value;
        is->clutter[i] = with->noisy ? left : value;
    }
    is->told[TYPICAL] = is->told[WIDENING] = 1.0;
    is->told[WIDENING + 1] = 0.0;
    if (is->count < 4 * PARTS) return 0;
    find_distances(with, (int)wanted);
    memcpy(with->more, with->some, sizeof(float) * (size_t)is->count);
    is->told[TYPICAL] = (double)median_of(with->more, (int32_t)is->count);
    if (!(is->told[TYPICAL] > 0.0)) return 1;
    fit_widening(with);
    return 0;
}
#endif
