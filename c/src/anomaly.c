/* Pixels that the tile's covariance does not describe: `flame.filters.noise_aware.anomaly`; few pixels, many bands:
 * `flame.filters.whitening.leave_one_out_shrinkage`. */
#include <math.h>
#include <string.h>

#include "fit.h"
#include "linear.h"
#include "noise.h"
#include "ordering.h"

enum { PARTS = 24, ROUNDS = 12, CANDIDATES = 25 };
static const double MOST_Z = 10.0;

/* The directions of most clutter over noise, by subspace iteration; their eigenvalues into `values`. */
static void find_directions(statistics *with, const background *of, const double *scale, double *values, double *direction) {
    const int n = of->live, wanted = n < DIRECTIONS ? n : DIRECTIONS;
    const int every = n / (2 * wanted) > 1 ? n / (2 * wanted) : 1, starts = (n + every - 1) / every;
    double *matrix = with->work[0], *basis = with->work[1], *next = with->work[2], *small = with->work[3];
    double *turned = with->work[4], *small_values = with->work[5];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) matrix[i * n + j] = of->covariance[i * n + j] / (scale[i] * scale[j]);
    for (int i = 0; i < starts; i++) memcpy(basis + i * n, matrix + i * every * n, sizeof(double) * (size_t)n);
    orthonormalise(basis, starts, n);
    for (int round = 0; round <= ROUNDS; round++) {
        for (int i = 0; i < starts; i++) multiply(matrix, n, n, basis + i * n, next + i * n);
        if (round == ROUNDS) break;
        memcpy(basis, next, sizeof(double) * (size_t)(starts * n));
        orthonormalise(basis, starts, n);
    }
    for (int i = 0; i < starts; i++)
        for (int j = 0; j < starts; j++) small[i * starts + j] = dot(basis + i * n, next + j * n, n);
    find_eigenvectors(small, starts, small_values, turned);
    for (int i = 0; i < wanted; i++) {
        const double *mix = turned + (starts - 1 - i) * starts;
        values[i] = small_values[starts - 1 - i];
        memset(direction + i * n, 0, sizeof(double) * (size_t)n);
        for (int j = 0; j < starts; j++)
            for (int band = 0; band < n; band++) direction[i * n + band] += mix[j] * basis[j * n + band];
        for (int band = 0; band < n; band++) direction[i * n + band] /= scale[band];
    }
}

static void describe_directions(const background *of, const double *values, int noisy, background *to) {
    const int n = of->live;
    for (int i = 0; i < to->directions; i++) {
        const double *direction = to->direction + i * n;
        to->along_mean[i] = dot(direction, of->mean, n);
        to->methane[i] = dot(direction, of->spectrum, n);
        to->clutter[i] = noisy ? fmax(values[i] - 1.0, 1e-3 * values[i]) : values[i];
        to->read_out[i] = to->shot[i] = 0.0;
        for (int band = 0; band < n; band++) {
            to->read_out[i] += direction[band] * direction[band] * of->law.read_out[band];
            to->shot[i] += direction[band] * direction[band] * of->law.shot[band];
        }
    }
}

/* How far each pixel is from the ground, over what is expected, into `some`. */
static void find_distances(statistics *with, const background *of) {
    const size_t line = (size_t)(with->count + CHUNK - 1) / CHUNK * CHUNK;
    respond(with, of->direction, of->directions, of->live, 0, with->responses);
    for (int32_t pixel = 0; pixel < with->count; pixel++) {
        double inverse = 1.0 / (double)with->sorted[pixel], sum = 0.0;
        for (int i = 0; i < of->directions; i++) {
            double along = (double)with->responses[(size_t)i * line + (size_t)pixel] - of->along_mean[i] -
                           of->methane[i] * (double)with->estimate[pixel];
            sum += along * along / (of->clutter[i] + of->read_out[i] * inverse * inverse + of->shot[i] * inverse);
        }
        with->some[pixel] = (float)(sum / of->directions);
    }
}

/* Variance of the estimate over what was expected, against the excess of the distance; in parts of equally many pixels. */
static int fit_widening(statistics *with, background *to) {
    double terms[PARTS * 2], found[2];
    const int32_t size = with->count / PARTS, more = with->count % PARTS;
    for (int32_t i = 0; i < with->count; i++) {
        float excess = (float)((double)with->some[i] / to->typical - 1.0);
        with->some[i] = excess > 0.0f ? excess : 0.0f;
    }
    sort_places(with->some, with->places, with->spare, with->count);
    for (int part = 0, at = 0; part < PARTS; part++) {
        int32_t end = (part + 1) * size + (part + 1 < more ? part + 1 : more), count = end - at;
        double excess = 0.0, squares = 0.0;
        for (; at < end; at++) {
            int32_t pixel = with->places[at];
            double z = (double)((with->estimate[pixel] - with->plume[pixel]) / with->sigma[pixel]);
            excess += (double)with->some[pixel];
            squares += fmin(z * z, MOST_Z * MOST_Z);
        }
        terms[2 * part] = count / squares;
        terms[2 * part + 1] = excess / squares;
    }
    /* Relative errors alike, so that the few outlying pixels count as much as the many others. */
    if (fit_not_negative(terms, PARTS, 2, found)) return 1;
    to->widening[0] = fmax(found[0], 0.5);
    to->widening[1] = found[1];
    return 0;
}

int find_anomalies(statistics *with, background *to) {
    const int n = to->live;
    double values[DIRECTIONS] = {0}, *scale = with->work[6];
    int noisy = 0;
    for (int i = 0; i < n; i++) {
        scale[i] = sqrt(fmax(to->mean_noise[i], 1e-6 * to->covariance[i * n + i]));
        noisy |= to->mean_noise[i] != 0.0;
    }
    to->directions = n < DIRECTIONS ? n : DIRECTIONS;
    find_directions(with, to, scale, values, to->direction);
    describe_directions(to, values, noisy, to);
    to->typical = 1.0;
    to->widening[0] = 1.0;
    to->widening[1] = 0.0;
    if (with->count < PARTS * 4) return 0;
    find_distances(with, to);
    memcpy(with->more, with->some, sizeof(float) * (size_t)with->count);
    to->typical = (double)median_of(with->more, with->count);
    return fit_widening(with, to);
}

/* Minus the log-likelihood of each spectrum given the others, at one shrinkage; infinite if it is impossible. */
static double unlikeliness(statistics *with, const double *sample, int n, double shrinkage) {
    const int32_t count = with->count;
    double *factor = with->work[1], cost = 0.0, share = (1.0 - shrinkage) / (count - 1);
    const double *centred = with->few;
    for (int i = 0; i < n * n; i++) factor[i] = i % (n + 1) ? (1.0 - shrinkage) * sample[i] : sample[i];
    if (factorise(factor, n)) return INFINITY;
    for (int32_t pixel = 0; pixel < count; pixel++) {
        double sum = 0.0, *solved = with->work[4];
        for (int i = 0; i < n; i++) {
            solved[i] = (centred[pixel * n + i] - dot(factor + i * n, solved, i)) / factor[i * n + i];
            sum += solved[i] * solved[i];
        }
        double others = 1.0 - share * sum;
        if (!(others > 0.0)) return INFINITY;
        cost += (log(others) + sum / others) / count;
    }
    for (int i = 0; i < n; i++) cost += 2.0 * log(factor[i * n + i]);
    return cost;
}

double leave_one_out_shrinkage(statistics *with) {
    const int n = with->sums.live, all = with->sums.all;
    const int32_t count = with->count;
    double *sample = with->work[0], *centred = with->few, best = 1.0, least = INFINITY;
    for (int band = 0; band < n; band++) {
        double mean = 0.0, variance = 0.0;
        for (int32_t i = 0; i < count; i++) {
            centred[i * n + band] = (double)with->chunks[(i / CHUNK * all + band) * CHUNK + i % CHUNK];
            mean += centred[i * n + band] / count;
        }
        for (int32_t i = 0; i < count; i++) {
            centred[i * n + band] -= mean;
            variance += centred[i * n + band] * centred[i * n + band] / count;
        }
        if (!(variance > 0.0)) return 1.0;
        for (int32_t i = 0; i < count; i++) centred[i * n + band] /= sqrt(variance);
    }
    memset(sample, 0, sizeof(double) * (size_t)(n * n));
    for (int32_t pixel = 0; pixel < count; pixel++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) sample[i * n + j] += centred[pixel * n + i] * centred[pixel * n + j] / (count - 1);
    for (int i = 0; i < CANDIDATES; i++) {
        double shrinkage = pow(10.0, -8.0 + 8.0 * i / (CANDIDATES - 1)), cost = unlikeliness(with, sample, n, shrinkage);
        if (cost < least) {
            best = shrinkage;
            least = cost;
        }
    }
    return best;
}
