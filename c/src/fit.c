#include "fit.h"

#include <math.h>
#include <string.h>

#include "linear.h"
#include "noise.h"
#include "ordering.h"

enum { LEAST_BINS = 4, PIXELS_PER_BAND = 5, LEVEL_PIXELS = 400, LEAST_LEVEL_PIXELS = 30 };
static const double LOW_END = 0.002, HIGH_END = 0.998, LEAST_SPREAD = 0.3, RIDGE = 0.05;

/* Pixels of noisy bins count less. */
static void weigh_bins(const moments *of, const noise_law *law, double *weight) {
    double read_out = 0.0, shot = 0.0, typical[MOST_BINS] = {0}, sorted[MOST_BINS];
    int any = 0;
    for (int band = 0; band < of->live; band++) {
        read_out += law->read_out[band] / of->live;
        shot += law->shot[band] / of->live;
    }
    for (int bin = 0; bin < of->bins; bin++) {
        typical[bin] = read_out * of->inverse_square[bin] + shot * of->inverse[bin];
        any |= typical[bin] != 0.0;
    }
    memcpy(sorted, typical, sizeof(sorted));
    const double middle = median_of_doubles(sorted, of->bins);
    for (int bin = 0; bin < of->bins; bin++) weight[bin] = any ? 1.0 / (0.3 + typical[bin] / middle) : 1.0;
}

/* Noise law, weights of the bins, covariance of the spectra and its mean noise. */
static int find_ground(statistics *with, const model *of, int first, int last, double *weight, background *to) {
    const moments *sums = &with->sums;
    const int n = sums->live, measured = sums->bins >= LEAST_BINS && (first || last);
    double pixels = 0.0, largest = 0.0;
    if (measured && measure_noise(with)) return 1;
    if (first) {
        memset(to->law.read_out, 0, sizeof(double) * (size_t)n);
        memset(to->law.shot, 0, sizeof(double) * (size_t)n);
        memset(to->law.doubtful, 0, (size_t)n);
        if (measured && fit_law(with, &to->law)) return 1;
    }
    weigh_bins(sums, &to->law, weight);
    weigh_moments(sums, weight, n, with->joint_mean, to->covariance);
    for (int bin = 0; bin < sums->bins; bin++) pixels += sums->count[bin];
    for (int i = 0; i < n; i++) largest = fmax(largest, to->covariance[i * n + i]);
    if (!(largest > 1e-14)) return 1;
    if (pixels < PIXELS_PER_BAND * n) {
        double shrinkage = of->shrinkage < 0.0 ? leave_one_out_shrinkage(with) : of->shrinkage;
        for (int i = 0; i < n * n; i++)
            if (i % (n + 1)) to->covariance[i] *= 1.0 - shrinkage;
    }
    if (measured && last) {
        mean_noise_of(sums, &to->law, weight, to->mean_noise);
        if (imply_noise(with, to->covariance, to->mean_noise, &to->law) || fit_law(with, &to->law)) return 1;
    }
    mean_noise_of(sums, &to->law, weight, to->mean_noise);
    return 0;
}

/* Weights of the neighbours' spectra in the best estimate from a pixel and its neighbours together, which responds by 1 to
 * methane in the pixel and by nothing to methane around it. `joint`: covariance of both. */
static int find_neighbour(statistics *with, background *to) {
    const int n = with->sums.live, all = 2 * n, wide = n + 1;
    const double *joint = with->joint, *spectrum = to->spectrum;
    double *own = with->work[0], *solved = with->work[1], *left = with->work[2], *both = with->work[3];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            own[i * n + j] = joint[i * all + j];
            solved[i * wide + j] = joint[i * all + n + j];
        }
        own[i * n + i] += (to->law.doubtful[i] ? 1.0 : RIDGE) * to->mean_noise[i];
        solved[i * wide + n] = spectrum[i];
    }
    if (solve(own, n, solved, wide)) return 1;
    memset(left, 0, sizeof(double) * (size_t)(n * n));
    for (int k = 0; k < n; k++) /* left -= cross^T regression */
        for (int i = 0; i < n; i++) {
            double cross = joint[k * all + n + i];
            for (int j = 0; j < n; j++) left[i * n + j] -= cross * solved[k * wide + j];
        }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) left[i * n + j] += joint[(n + i) * all + n + j];
        left[i * n + i] += with->ring_noise * (to->law.doubtful[i] ? 1.0 : RIDGE) * to->mean_noise[i];
        both[2 * i] = 0.0;
        for (int k = 0; k < n; k++) both[2 * i] -= solved[k * wide + i] * spectrum[k];
        both[2 * i + 1] = spectrum[i];
    }
    if (solve(left, n, both, 2)) return 1;
    /* Of C^-1 (s, 0) and C^-1 (0, s) the combination with responses 1 and 0. */
    double response[4] = {0.0, 0.0, 0.0, 0.0}, share[2] = {1.0, 0.0}, along = 0.0, norm = dot(spectrum, spectrum, n);
    for (int i = 0; i < n; i++) {
        double plain = solved[i * wide + n];
        for (int j = 0; j < n; j++) plain -= solved[i * wide + j] * both[2 * j];
        response[0] += spectrum[i] * plain;
        response[1] += spectrum[i] * both[2 * i];
        response[3] += spectrum[i] * both[2 * i + 1];
    }
    response[2] = response[1];
    if (solve(response, 2, share, 1)) return 1;
    for (int i = 0; i < n; i++) {
        to->neighbour[i] = share[0] * both[2 * i] + share[1] * both[2 * i + 1];
        along += spectrum[i] * to->neighbour[i];
    }
    for (int i = 0; i < n; i++) to->neighbour[i] -= spectrum[i] * along / norm;
    to->neighbour_mean = dot(to->neighbour, with->joint_mean + n, n);
    return 0;
}

/* The covariance of the bands and of what the neighbours tell: one row more than there are bands. */
static void join_neighbour(statistics *with, const background *to, double *covariance) {
    const int n = with->sums.live, all = 2 * n, rows = n + 1;
    double power = 0.0;
    for (int i = 0; i < n; i++) {
        double cross = dot(with->joint + i * all + n, to->neighbour, n);
        memcpy(covariance + i * rows, to->covariance + i * n, sizeof(double) * (size_t)n);
        covariance[i * rows + n] = covariance[n * rows + i] = cross;
        power += to->neighbour[i] * dot(with->joint + (n + i) * all + n, to->neighbour, n);
    }
    covariance[n * rows + n] = power;
}

/* A quantile of the sorted brightness. */
static double quantile(const statistics *with, double share) {
    double place = share * (with->count - 1);
    int32_t below = (int32_t)place, above = below + 1 < with->count ? below + 1 : below;
    double low = with->sorted[below];
    return low + ((double)with->sorted[above] - low) * (place - below);
}

/* Weights at each level, for a covariance of `rows` rows. */
static int solve_levels(statistics *with, const model *of, const double *covariance, int rows, background *to) {
    const int n = with->sums.live;
    double low = log(quantile(with, LOW_END)), high = fmax(log(quantile(with, HIGH_END)), low + 0.01);
    const double least = least_noise_ratio(with, covariance, rows, n, to->mean_noise, &to->law);
    double *each = with->work[0], *solved = with->work[1];
    to->first_log = low;
    to->step_log = (high - low) / (of->levels - 1);
    for (int level = 0; level < of->levels; level++) {
        double brightness = exp(low + level * to->step_log), power = 0.0, *weight = to->weight + level * n;
        exchange_noise(covariance, rows, n, to->mean_noise, &to->law, least, brightness, each);
        for (int i = 0; i < rows; i++) solved[i] = i < n ? to->spectrum[i] : 0.0;
        if (solve(each, rows, solved, 1)) return 1;
        power = dot(solved, to->spectrum, n);
        if (!(power > 0.0)) return 1;
        for (int i = 0; i < n; i++) weight[i] = solved[i] / power;
        to->offset[level] = dot(weight, to->mean, n);
        to->gain[level] = rows > n ? solved[n] / power : 0.0;
        to->sigma[level] = 1.0 / sqrt(power);
    }
    return 0;
}

/* Linear estimate and sigma of every pixel, interpolated between the levels. */
static void evaluate(statistics *with, const model *of, const background *to) {
    const size_t line = (size_t)(with->count + CHUNK - 1) / CHUNK * CHUNK;
    for (int32_t i = 0; i < with->count; i++) {
        int below = (int)with->level[i];
        below = below < of->levels - 2 ? below : of->levels - 2;
        float share = with->level[i] - (float)below, rest = 1.0f - share;
        const float *response = with->responses + (size_t)below * line + i;
        float offset = (float)to->offset[below] * rest + (float)to->offset[below + 1] * share;
        float gain = (float)to->gain[below] * rest + (float)to->gain[below + 1] * share;
        with->estimate[i] = response[0] * rest + response[line] * share - offset + gain * with->heard[i];
        with->sigma[i] = (float)to->sigma[below] * rest + (float)to->sigma[below + 1] * share;
    }
}

/* First pixel, in order of brightness, at or above a place between the levels. */
static int32_t first_from(const statistics *with, double place) {
    int32_t low = 0, high = with->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((double)with->level[middle] < place) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Corrects each level by the median and the spread of what plume-free pixels say there; levels lend to their neighbours. */
static void correct_levels(statistics *with, const model *of, background *to) {
    double median[MOST_LEVELS] = {0}, spread[MOST_LEVELS], count[MOST_LEVELS] = {0};
    for (int32_t i = 0; i < with->count; i++)
        with->some[i] = (with->estimate[i] - with->plume[i]) / with->sigma[i];
    for (int level = 0; level < of->levels; level++) {
        int32_t low = first_from(with, level - 0.5), size = first_from(with, level + 0.5) - low;
        float *here = with->more;
        spread[level] = 1.0;
        if (size < LEAST_LEVEL_PIXELS) continue;
        memcpy(here, with->some + low, sizeof(float) * (size_t)size);
        float middle = ranked(here, size, size / 2);
        for (int32_t i = 0; i < size; i++) here[i] = fabsf(here[i] - middle);
        median[level] = (double)middle;
        spread[level] = 1.4826 * (double)ranked(here, size, size / 2);
        count[level] = size < LEVEL_PIXELS ? size : LEVEL_PIXELS;
    }
    for (int level = 0; level < of->levels; level++) {
        double total = 0.0, middle = 0.0, square = 0.0;
        for (int other = 0; other < of->levels; other++) {
            double lent = exp(-(double)(level - other) * (level - other)) * (count[other] + 1e-9);
            total += lent;
            middle += lent * median[other];
            square += lent * spread[other] * spread[other];
        }
        to->offset[level] += middle / total * to->sigma[level];
        to->sigma[level] *= fmax(sqrt(square / total), LEAST_SPREAD);
    }
}

int fit_filter(statistics *with, const model *of, int first, int last, background *to) {
    const int n = with->sums.live, rows = n + with->neighbours;
    double weight[MOST_BINS], *covariance = to->covariance;
    subtract_plume(with, to->spectrum);
    if (find_ground(with, of, first, last, weight, to)) return 1;
    weigh_moments(&with->sums, weight, with->sums.all, with->joint_mean, with->joint);
    memset(to->neighbour, 0, sizeof(double) * (size_t)n);
    to->neighbour_mean = 0.0;
    if (with->neighbours) {
        if (find_neighbour(with, to)) return 1;
        covariance = with->work[5];
        join_neighbour(with, to, covariance);
    }
    memcpy(to->mean, with->joint_mean, sizeof(double) * (size_t)n);
    if (solve_levels(with, of, covariance, rows, to)) return 1;
    for (int32_t i = 0; i < with->count; i++) {
        float place = (logf(with->sorted[i]) - (float)to->first_log) / (float)to->step_log;
        place = place > 0.0f ? place : 0.0f;
        with->level[i] = place < (float)(of->levels - 1) ? place : (float)(of->levels - 1);
        with->heard[i] = 0.0f;
    }
    if (with->neighbours) {
        respond(with, to->neighbour, 1, n, n, with->heard);
        for (int32_t i = 0; i < with->count; i++) with->heard[i] -= (float)to->neighbour_mean;
    }
    respond(with, to->weight, of->levels, n, 0, with->responses);
    evaluate(with, of, to);
    correct_levels(with, of, to);
    evaluate(with, of, to);
    return 0;
}
