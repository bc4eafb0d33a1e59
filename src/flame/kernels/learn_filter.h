/* From sums to the filter at each brightness: `flame.filters.noise_aware.fit`. */
#ifndef FLAME_LEARN_FILTER_H
#define FLAME_LEARN_FILTER_H
#include "learn_noise.h"

/* Pixels of noisy bins count less. */
static void weigh_bins(work *with) {
    const learning *is = with->is;
    double read_out = 0.0, shot = 0.0, typical[MOST_BINS], sorted[MOST_BINS];
    int any = 0;
    for (int band = 0; band < is->bands; band++) {
        read_out += is->law[band] / is->bands;
        shot += is->law[is->bands + band] / is->bands;
    }
    for (int bin = 0; bin < is->bins; bin++) {
        typical[bin] = sorted[bin] = read_out * is->inverse_square[bin] + shot * is->inverse[bin];
        any |= typical[bin] != 0.0;
    }
    const double middle = median_of_doubles(sorted, is->bins);
    for (int bin = 0; bin < is->bins; bin++) with->weight[bin] = any ? 1.0 / (0.3 + typical[bin] / middle) : 1.0;
}

/* Noise law, weights of the bins, moments of pixel and neighbours together, covariance of the pixel's own spectrum. */
static int find_ground(work *with, int first, int last) {
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, line = with->line;
    const int measured = is->bins >= LEAST_BINS && (first || last);
    double largest = 0.0;
    if (measured && measure_noise(with)) return 1;
    if (first) {
        memset(is->law, 0, sizeof(double) * (size_t)(2 * n));
        memset(is->doubtful, 0, (size_t)n);
        if (measured) fit_law(with);
    }
    weigh_bins(with);
    weigh_moments(with, with->weight, with->all, with->wide, with->joint_mean, with->joint);
    memset(with->covariance, 0, sizeof(double) * (size_t)with->square);
    for (ptrdiff_t i = 0; i < n; i++) {
        memcpy(with->covariance + i * line, with->joint + i * with->wide, sizeof(double) * (size_t)n);
        for (ptrdiff_t j = 0; j < n; j++)
            if (j != i) with->covariance[i * line + j] *= 1.0 - is->shrinkage;
        memcpy(is->covariance + i * n, with->covariance + i * line, sizeof(double) * (size_t)n);
        largest = with->covariance[i * line + i] > largest ? with->covariance[i * line + i] : largest;
    }
    memcpy(is->mean, with->joint_mean, sizeof(double) * (size_t)n);
    if (!(largest > 1e-14)) return 1;
    find_mean_noise(with);
    if (!measured || !last) return 0;
    if (imply_noise(with, with->covariance)) return 1;
    fit_law(with);
    find_mean_noise(with);
    return 0;
}

/* Weights of the neighbours' spectra in the best estimate from a pixel and its neighbours together, which responds by 1 to
 * methane in the pixel and by nothing to methane around it; they become one more row of the covariance. */
static int ask_neighbours(work *with) {
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, line = with->line, wide = with->wide;
    double *own = with->each, *half = own + with->square, *left = half + with->square;
    double spectrum[line], plain[line], told[line], blind[line], right[line], ridge[n];
    memset(own, 0, sizeof(double) * (size_t)(3 * with->square));
    for (ptrdiff_t i = 0; i < n; i++) {
        ridge[i] = (is->doubtful[i] ? 1.0 : 0.05) * is->mean_noise[i];
        memcpy(own + i * line, with->joint + i * wide, sizeof(double) * (size_t)n);
        memcpy(half + i * line, with->joint + i * wide + n, sizeof(double) * (size_t)n);
        memcpy(left + i * line, with->joint + (n + i) * wide + n, sizeof(double) * (size_t)n);
        own[i * line + i] += ridge[i];
        left[i * line + i] += is->ring_noise * ridge[i];
    }
    memset(spectrum, 0, sizeof(spectrum));
    memcpy(spectrum, is->spectrum, sizeof(double) * (size_t)n);
    if (factorise(own, n, line)) return 1;
    memcpy(right, spectrum, sizeof(right));
    solve_factored(own, n, line, right, plain);
    memset(right, 0, sizeof(right)); /* how the neighbours' spectra go with what methane changes in the pixel's own */
    for (ptrdiff_t i = 0; i < n; i++) subtract(right, half + i * line, plain[i], 0, line);
    double crossed[line], share[2] = {1.0, 0.0}, response[TERMS][TERMS] = {{0}};
    memcpy(crossed, right, sizeof(crossed));
    solve_half(own, n, line, half, line);
    subtract_square(half, n, line, left);
    if (factorise(left, n, line)) return 1;
    solve_factored(left, n, line, right, told);
    memcpy(right, spectrum, sizeof(right));
    solve_factored(left, n, line, right, blind);
    /* Of C^-1 (s, 0) and C^-1 (0, s) the combination with responses 1 and 0. */
    response[0][0] = dot(spectrum, plain, 0, line) + dot(crossed, told, 0, line);
    response[0][1] = response[1][0] = dot(spectrum, told, 0, line);
    response[1][1] = dot(spectrum, blind, 0, line);
    if (!(solve_small(response, share, 2) > 0.0)) return 1;
    double along = 0.0, norm = dot(spectrum, spectrum, 0, line), power = 0.0, mean = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) along += spectrum[i] * (is->neighbour[i] = share[0] * told[i] + share[1] * blind[i]);
    for (ptrdiff_t i = 0; i < n; i++) is->neighbour[i] -= spectrum[i] * along / norm;
    double *last = with->covariance + n * line;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *cross = with->joint + i * wide + n, *around = cross + n * wide;
        double one = 0.0, other = 0.0;
        for (ptrdiff_t j = 0; j < n; j++) {
            one += cross[j] * is->neighbour[j];
            other += around[j] * is->neighbour[j];
        }
        with->covariance[i * line + n] = last[i] = one;
        power += is->neighbour[i] * other;
        mean += is->neighbour[i] * with->joint_mean[n + i];
    }
    last[n] = power;
    is->told[NEIGHBOUR_MEAN] = mean;
    return 0;
}

typedef struct {
    work *with;
    double least;
    int failed;
} levelling;

static void solve_levels(const void *given, ptrdiff_t first, ptrdiff_t last) {
    levelling *job = (levelling *)given;
    work *with = job->with;
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, line = with->line;
    for (ptrdiff_t level = first; level < last; level++) {
        double *each = with->each + 2 * level * with->square, target[line], solved[line], power = 0.0, offset = 0.0;
        exchange_noise(with, with->covariance, with->rows, job->least, 1.0 / is->level_brightness[level], each);
        memset(target, 0, sizeof(target));
        memcpy(target, is->spectrum, sizeof(double) * (size_t)n);
        int failed = factorise(each, with->rows, line);
        if (!failed) {
            solve_factored(each, with->rows, line, target, solved);
            for (ptrdiff_t i = 0; i < n; i++) power += solved[i] * is->spectrum[i];
        }
        if (failed || !(power > 0.0)) {
            __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
            return;
        }
        for (ptrdiff_t i = 0; i < n; i++) offset += (is->weight[level * n + i] = solved[i] / power) * is->mean[i];
        is->level[OFFSET * is->levels + level] = offset;
        is->level[GAIN * is->levels + level] = with->rows > n ? solved[n] / power : 0.0;
        is->level[SIGMA_OF * is->levels + level] = 1.0 / __builtin_sqrt(power);
    }
}

/* What the neighbours tell each pixel. */
static void hear(work *with) {
    const learning *is = with->is;
    for (ptrdiff_t chunk = 0; chunk < with->padded / CHUNK; chunk++) {
        const float *around = is->chunks + (chunk * with->all + with->bands) * CHUNK;
        float sums[CHUNK] = {0};
        for (ptrdiff_t band = 0; with->rows > with->bands && band < with->bands; band++)
            for (int i = 0; i < CHUNK; i++) sums[i] += (float)is->neighbour[band] * around[band * CHUNK + i];
        for (int i = 0; i < CHUNK; i++)
            with->heard[chunk * CHUNK + i] = with->rows > with->bands ? sums[i] - (float)is->told[NEIGHBOUR_MEAN] : 0.0f;
    }
}

/* Linear estimate and sigma of every pixel, interpolated between the levels. */
static void evaluate(work *with) {
    const learning *is = with->is;
    float table[3][MOST_LEVELS];
    for (int row = 0; row < 3; row++)
        for (int level = 0; level < is->levels; level++) table[row][level] = (float)is->level[row * is->levels + level];
    for (int64_t i = 0; i < is->count; i++) {
        int below = (int)is->place[i];
        below = below < is->levels - 2 ? below : is->levels - 2;
        const float share = is->place[i] - (float)below, rest = 1.0f - share;
        const float *response = with->responses + below * with->padded + i;
        const float offset = table[OFFSET][below] * rest + table[OFFSET][below + 1] * share;
        const float gain = table[GAIN][below] * rest + table[GAIN][below + 1] * share;
        with->estimate[i] = response[0] * rest + response[with->padded] * share - offset + gain * with->heard[i];
        with->sigma[i] = table[SIGMA_OF][below] * rest + table[SIGMA_OF][below + 1] * share;
    }
}

/* First pixel, in order of brightness, at or above a place between the levels. */
static int64_t first_from(const learning *is, double place) {
    int64_t low = 0, high = is->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((double)is->place[middle] < place) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Corrects each level by the median and the spread of what plume-free pixels say there; levels lend to their neighbours. */
static void correct_levels(work *with) {
    enum { LEVEL_PIXELS = 400, LEAST_LEVEL_PIXELS = 30 };
    const learning *is = with->is;
    double median[MOST_LEVELS] = {0}, spread[MOST_LEVELS], count[MOST_LEVELS] = {0};
    for (int level = 0; level < is->levels; level++) {
        const int64_t low = first_from(is, level - 0.5), size = first_from(is, level + 0.5) - low;
        float *here = with->more;
        spread[level] = 1.0;
        if (size < LEAST_LEVEL_PIXELS) continue;
        for (int64_t i = 0; i < size; i++) here[i] = (with->estimate[low + i] - with->plume[low + i]) / with->sigma[low + i];
        const float middle = ranked(here, (int32_t)size, (int32_t)(size / 2));
        for (int64_t i = 0; i < size; i++) here[i] = __builtin_fabsf(here[i] - middle);
        median[level] = (double)middle;
        spread[level] = 1.4826 * (double)ranked(here, (int32_t)size, (int32_t)(size / 2));
        count[level] = size < LEVEL_PIXELS ? (double)size : LEVEL_PIXELS;
    }
    for (int level = 0; level < is->levels; level++) {
        double total = 0.0, middle = 0.0, square = 0.0, *sigma = is->level + SIGMA_OF * is->levels + level;
        for (int other = 0; other < is->levels; other++) {
            const double lent = is->lent[level * is->levels + other] * (count[other] + 1e-9);
            total += lent;
            middle += lent * median[other];
            square += lent * spread[other] * spread[other];
        }
        const double wider = __builtin_sqrt(square / total);
        is->level[OFFSET * is->levels + level] += middle / total * *sigma;
        *sigma *= wider > 0.3 ? wider : 0.3;
    }
}

/* One pass with the plumes found before taken out; the first measures the noise, the last corrects its law. 0 or 1. */
static int fit_filter(work *with, int first, int last) {
    const learning *is = with->is;
    subtract_plume(with);
    if (find_ground(with, first, last)) return 1;
    if (with->rows > with->bands && ask_neighbours(with)) return 1;
    levelling job = {with, least_noise_ratio(with, with->covariance, with->rows), 0};
    if (!(job.least > 0.0)) return 1;
    flame_share_rows(is->threads, is->levels, 1, solve_levels, &job);
    if (job.failed) return 1;
    hear(with);
    respond(with, is->weight, is->levels);
    evaluate(with);
    correct_levels(with);
    evaluate(with);
    return 0;
}
#endif
