/* How the noise of each band depends on brightness: `flame.filters.noise_aware.noise_law`, and `at_noise` of the fit. */
#ifndef FLAME_LEARN_NOISE_H
#define FLAME_LEARN_NOISE_H
#include "learn.h"

enum { TERMS = 3 };
#define MOST_TAKEN 0.7 /* share of the least variance in units of noise that may be taken away */

typedef struct {
    work *with;
    const double *covariance; /* the noise is exchanged in, unless it is NULL: then that of each bin is inverted */
    double least;
    int failed;
} inverting;

INLINE double noise_at(const learning *is, ptrdiff_t band, double inverse) {
    return is->law[band] * (inverse * inverse) + is->law[is->bands + band] * inverse;
}

/* A covariance of `rows` rows with its mean noise exchanged for that of another brightness; no more is taken away than
 * leaves every direction a part of its variance, `least` being the least there is, in units of the noise. */
static void exchange_noise(const work *with, const double *covariance, ptrdiff_t rows, double least, double inverse, double *to) {
    const learning *is = with->is;
    const double most = -MOST_TAKEN * (least < 1.0 ? least : 1.0);
    memcpy(to, covariance, sizeof(double) * (size_t)(rows * with->line));
    for (ptrdiff_t band = 0; band < with->bands; band++) {
        const double mean = is->mean_noise[band], change = noise_at(is, band, inverse) - mean;
        to[band * with->line + band] += (is->doubtful[band] ? mean : 0.0) + (change > most * mean ? change : most * mean);
    }
}

/* The covariance that one bin is conditioned by: that of the ground at its noise, or its own, as correlation. Whether all
 * bands vary. */
static int set_bin(const inverting *job, ptrdiff_t bin, double *each, double *scale_of) {
    const work *with = job->with;
    const ptrdiff_t n = with->bands, line = with->line;
    double only[MOST_BINS] = {0}, mean[line];
    int vary = 1;
    if (job->covariance) {
        exchange_noise(with, job->covariance, n, job->least, with->is->inverse[bin], each);
        return 1;
    }
    only[bin] = 1.0;
    weigh_moments(with, only, n, line, mean, each);
    for (ptrdiff_t i = 0; i < n; i++) {
        scale_of[i] = __builtin_sqrt(each[i * line + i]);
        vary &= scale_of[i] > 0.0;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            each[i * line + j] = i == j ? 1.0 + 1e-9 : each[i * line + j] / (scale_of[i] * scale_of[j]);
    return vary;
}

/* Conditional variances of the bands in each bin, of what was measured or of what a first law makes of the covariance. */
static void condition_bins(const void *given, ptrdiff_t first, ptrdiff_t last) {
    inverting *job = (inverting *)given;
    work *with = job->with;
    const ptrdiff_t n = with->bands, line = with->line;
    for (ptrdiff_t bin = first; bin < last; bin++) {
        double *each = with->each + 2 * bin * with->square, *diagonal = with->diagonal + bin * line, scale_of[line];
        if (!set_bin(job, bin, each, scale_of)) { /* where an image is saturated: nothing can be told of any band */
            memset(diagonal, 0, sizeof(double) * (size_t)line);
            continue;
        }
        if (!factorise(each, n, line)) invert_diagonal(each, n, line, each + with->square, diagonal);
        else { /* nearly saturated: only rounding varies */
            set_bin(job, bin, each, scale_of);
            if (eliminate_diagonal(each, n, line, each + with->square, diagonal)) {
                __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
                return;
            }
        }
        for (ptrdiff_t i = 0; i < n; i++)
            diagonal[i] = job->covariance ? 1.0 / diagonal[i] : scale_of[i] * scale_of[i] / diagonal[i];
    }
}

static int condition(work *with, const double *covariance, double least) {
    inverting job = {with, covariance, least, 0};
    flame_share_rows(with->is->threads, with->is->bins, 1, condition_bins, &job);
    return job.failed;
}

/* What the other bands do not explain, in each bin: (bin, band), into `measured`. 0, or 1 where that cannot be told. */
static int measure_noise(work *with) {
    const learning *is = with->is;
    if (condition(with, NULL, 0.0)) return 1;
    for (int bin = 0; bin < is->bins; bin++)
        for (ptrdiff_t band = 0; band < with->bands; band++) { /* with the degrees of freedom that a regression leaves */
            double found = with->diagonal[bin * with->line + band] * (is->number[bin] / (is->number[bin] - (double)with->bands));
            with->measured[bin * with->bands + band] = found > 0.0 ? found : 0.0;
        }
    return 0;
}

/* x of a positive system of at most TERMS rows, by elimination, in place of `b`; the determinant's size, 0 if there is no x. */
INLINE double solve_small(double a[TERMS][TERMS], double *b, int n) {
    double determinant = 1.0;
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int row = k + 1; row < n; row++)
            if (__builtin_fabs(a[row][k]) > __builtin_fabs(a[pivot][k])) pivot = row;
        if (a[pivot][k] == 0.0) return 0.0;
        determinant *= __builtin_fabs(a[pivot][k]);
        for (int col = 0; pivot != k && col <= n; col++) {
            double *one = col < n ? &a[k][col] : b + k, *other = col < n ? &a[pivot][col] : b + pivot, held = *one;
            *one = *other;
            *other = held;
        }
        for (int row = k + 1; row < n; row++) {
            double times = a[row][k] / a[k][k];
            for (int col = k; col < n; col++) a[row][col] -= times * a[k][col];
            b[row] -= times * b[k];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        for (int col = k + 1; col < n; col++) b[k] -= a[k][col] * b[col];
        b[k] /= a[k][k];
    }
    return determinant;
}

/* Not negative x of least |terms x - 1|: of all choices of terms whose plain solution is not negative the best.
 *
 * apart: the least determinant, of a matrix whose diagonal is 1, of terms that can be told apart; in a saturated image
 * they cannot, and choices of several are left out. */
static void fit_not_negative(const double *terms, int rows, int count, double apart, double *x) {
    double square[TERMS][TERMS] = {{0}}, right[TERMS] = {0}, most = 0.0;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++) {
            right[i] += terms[row * count + i];
            for (int j = 0; j < count; j++) square[i][j] += terms[row * count + i] * terms[row * count + j];
        }
    for (int i = 0; i < count; i++) x[i] = 0.0;
    for (int chosen = 1; chosen < 1 << count; chosen++) {
        double matrix[TERMS][TERMS], found[TERMS], explained = 0.0, scale_of = 1.0;
        int used[TERMS], size = 0, negative = 0;
        for (int i = 0; i < count; i++)
            if (chosen >> i & 1) used[size++] = i;
        for (int i = 0; i < size; i++) {
            found[i] = right[used[i]];
            scale_of *= square[used[i]][used[i]];
            for (int j = 0; j < size; j++) matrix[i][j] = square[used[i]][used[j]];
        }
        if (!(solve_small(matrix, found, size) > apart * scale_of)) continue;
        for (int i = 0; i < size; i++) {
            explained += found[i] * right[used[i]];
            negative |= !(found[i] >= 0.0);
        }
        if (negative || !(explained > most)) continue;
        most = explained;
        for (int i = 0; i < count; i++) x[i] = 0.0;
        for (int i = 0; i < size; i++) x[used[i]] = found[i];
    }
}

/* Bands with hardly any noise borrow that of the middle one. */
static void borrow_noise(const learning *is) {
    const int bands = is->bands;
    double *read_out = is->law, *shot = is->law + bands;
    int middle = 0;
    for (int one = 0; one < bands; one++) {
        const double here = read_out[one] + shot[one];
        int below = 0;
        for (int other = 0; other < bands; other++) {
            const double there = read_out[other] + shot[other];
            below += there < here || (there == here && other < one);
        }
        middle = below == bands / 2 ? one : middle;
    }
    const double lent[2] = {read_out[middle], shot[middle]};
    for (int band = 0; band < bands; band++) {
        is->doubtful[band] = read_out[band] + shot[band] < 0.2 * (lent[0] + lent[1]);
        read_out[band] = is->doubtful[band] ? lent[0] : read_out[band];
        shot[band] = is->doubtful[band] ? lent[1] : shot[band];
    }
}

/* The law behind measured variances: read-out and shot noise, and ground that is none. */
static void fit_law(const work *with) {
    const learning *is = with->is;
    double terms[MOST_BINS][TERMS], most[TERMS] = {0}, relative[MOST_BINS * TERMS], found[TERMS];
    for (int bin = 0; bin < is->bins; bin++) {
        terms[bin][0] = is->inverse[bin] * is->inverse[bin];
        terms[bin][1] = is->inverse[bin];
        terms[bin][2] = 1.0;
        for (int i = 0; i < TERMS; i++) most[i] = terms[bin][i] > most[i] ? terms[bin][i] : most[i];
    }
    for (ptrdiff_t band = 0; band < with->bands; band++) {
        int seen = 1;
        for (int bin = 0; bin < is->bins; bin++) {
            const double variance = with->measured[bin * with->bands + band];
            seen &= variance > 0.0;
            for (int i = 0; i < TERMS; i++) relative[bin * TERMS + i] = terms[bin][i] / most[i] / (variance > 0.0 ? variance : 1.0);
        }
        if (seen) fit_not_negative(relative, is->bins, TERMS, 1e-14, found);
        is->law[band] = seen ? found[0] / most[0] : 0.0;
        is->law[is->bands + band] = seen ? found[1] / most[1] : 0.0;
    }
    borrow_noise(is);
}

/* Mean variance of each band by noise. */
static void find_mean_noise(work *with) {
    const learning *is = with->is;
    double total = 0.0, inverse = 0.0, square = 0.0;
    with->noisy = 0;
    for (int bin = 0; bin < is->bins; bin++) total += with->weight[bin] * is->number[bin];
    for (int bin = 0; bin < is->bins; bin++) {
        const double share = with->weight[bin] * is->number[bin] / total;
        inverse += share * is->inverse[bin];
        square += share * is->inverse_square[bin];
    }
    for (ptrdiff_t band = 0; band < with->bands; band++) {
        is->mean_noise[band] = is->law[band] * square + is->law[is->bands + band] * inverse;
        with->noisy |= is->mean_noise[band] > 0.0;
    }
}

/* A covariance of `rows` rows, what was observed besides the bands explained, in units of noise, a share of them taken away. */
static double *in_units(const work *with, const double *covariance, ptrdiff_t rows, const double *unit, double taken) {
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, line = with->line;
    const double *last = covariance + n * line;
    double *seen = with->each;
    memset(seen, 0, sizeof(double) * (size_t)(n * line));
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) {
            double here = covariance[i * line + j];
            if (i == j && is->doubtful[i]) here += is->mean_noise[i];
            if (rows > n) here -= last[i] * last[j] / last[n];
            seen[i * line + j] = here / (unit[i] * unit[j]) - (i == j ? taken : 0.0);
        }
    return seen;
}

/* The least eigenvalue of such a covariance. 0 if it is not positive; without noise, of which nothing can be taken away, 1. */
static double least_noise_ratio(work *with, const double *covariance, ptrdiff_t rows) {
    const learning *is = with->is;
    const ptrdiff_t n = with->bands, line = with->line;
    double unit[n], sorted[n];
    int count = 0;
    if (!with->noisy) return 1.0;
    for (ptrdiff_t i = 0; i < n; i++)
        if (is->mean_noise[i] > 0.0) sorted[count++] = is->mean_noise[i];
    /* A band in which the fit saw no noise has none to take away: next to nothing stands for it in the ratio. */
    const double least = 1e-6 * median_of_doubles(sorted, count);
    for (ptrdiff_t i = 0; i < n; i++) unit[i] = __builtin_sqrt(is->mean_noise[i] > least ? is->mean_noise[i] : least);
    double ratio = least_eigenvalue(in_units(with, covariance, rows, unit, 0.0), n, line, with->each + with->square);
    /* The iteration may begin with next to nothing of the least direction and stay above it. */
    for (; ratio > 1e-9; ratio = 0.5 * (ratio < 1.0 ? ratio : 1.0))
        if (!factorise(in_units(with, covariance, rows, unit, MOST_TAKEN * (ratio < 1.0 ? ratio : 1.0)), n, line)) break;
    return ratio;
}

/* Corrects measured variances, given a first law, for what other bands cannot explain. 0 or 1. */
static int imply_noise(work *with, const double *covariance) {
    const learning *is = with->is;
    const double least = least_noise_ratio(with, covariance, with->bands);
    if (!(least > 0.0) || condition(with, covariance, least)) return 1;
    for (int bin = 0; bin < is->bins; bin++)
        for (ptrdiff_t band = 0; band < with->bands; band++) {
            double *measured = with->measured + bin * with->bands + band;
            double left = *measured - with->diagonal[bin * with->line + band] + noise_at(is, band, is->inverse[bin]);
            *measured = left > 0.05 * *measured ? left : 0.05 * *measured;
        }
    return 0;
}
#endif
