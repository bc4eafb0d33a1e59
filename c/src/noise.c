#include "noise.h"

#include <math.h>
#include <string.h>

#include "linear.h"

static const double LEAST_SHARE = 0.2, MOST_TAKEN = 0.7, NEXT_TO_NOTHING = 1e-6;
enum { ROUNDS = 12, TERMS = 3 };

int measure_noise(statistics *with) {
    const moments *of = &with->sums;
    const int n = of->live;
    double *covariance = with->work[0], *inverse = with->work[1], *mean = with->work[2], *scale = with->work[3];
    for (int bin = 0; bin < of->bins; bin++) {
        double only[MOST_BINS] = {0};
        only[bin] = 1.0;
        weigh_moments(of, only, n, mean, covariance);
        for (int i = 0; i < n; i++) scale[i] = sqrt(covariance[i * n + i]);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                covariance[i * n + j] = i == j ? 1.0 + 1e-9 : covariance[i * n + j] / (scale[i] * scale[j]);
        if (invert(covariance, n, inverse)) return 1;
        /* The residuals of a regression on all other bands, with the degrees of freedom it leaves. */
        double left = of->count[bin] / (of->count[bin] - n);
        for (int i = 0; i < n; i++)
            with->measured[bin * n + i] = fmax(scale[i] * scale[i] / inverse[i * n + i] * left, 0.0);
    }
    return 0;
}

int fit_not_negative(const double *terms, int rows, int count, double *x) {
    double square[TERMS][TERMS] = {{0}}, right[TERMS] = {0}, most = 0.0;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++) {
            right[i] += terms[row * count + i];
            for (int j = 0; j < count; j++) square[i][j] += terms[row * count + i] * terms[row * count + j];
        }
    memset(x, 0, sizeof(double) * (size_t)count);
    for (int chosen = 1; chosen < 1 << count; chosen++) {
        double matrix[TERMS * TERMS], found[TERMS], explained = 0.0;
        int used[TERMS], size = 0, negative = 0;
        for (int i = 0; i < count; i++)
            if (chosen >> i & 1) used[size++] = i;
        for (int i = 0; i < size; i++) {
            found[i] = right[used[i]];
            for (int j = 0; j < size; j++) matrix[i * size + j] = square[used[i]][used[j]];
        }
        if (solve(matrix, size, found, 1)) continue; /* terms that cannot be told apart, as in a saturated image */
        for (int i = 0; i < size; i++) {
            explained += found[i] * right[used[i]];
            negative |= !(found[i] >= 0.0);
        }
        if (negative || !(explained > most)) continue;
        most = explained;
        memset(x, 0, sizeof(double) * (size_t)count);
        for (int i = 0; i < size; i++) x[used[i]] = found[i];
    }
    return 0;
}

/* The band in the middle by its noise at brightness 1. */
static int middle_band(const noise_law *law, int bands) {
    for (int one = 0; one < bands; one++) {
        int below = 0;
        for (int other = 0; other < bands; other++) {
            double here = law->read_out[one] + law->shot[one], there = law->read_out[other] + law->shot[other];
            below += there < here || (there == here && other < one);
        }
        if (below == bands / 2) return one;
    }
    return 0;
}

static void borrow_noise(noise_law *law, int bands) {
    const int middle = middle_band(law, bands);
    const double read_out = law->read_out[middle], shot = law->shot[middle];
    for (int band = 0; band < bands; band++) {
        law->doubtful[band] = law->read_out[band] + law->shot[band] < LEAST_SHARE * (read_out + shot);
        if (!law->doubtful[band]) continue;
        law->read_out[band] = read_out;
        law->shot[band] = shot;
    }
}

int fit_law(statistics *with, noise_law *to) {
    const moments *of = &with->sums;
    const int n = of->live;
    double terms[MOST_BINS][TERMS], scale[TERMS] = {0}, relative[MOST_BINS * TERMS], found[TERMS];
    for (int bin = 0; bin < of->bins; bin++) {
        double inverse = of->inverse[bin];
        terms[bin][0] = inverse * inverse;
        terms[bin][1] = inverse;
        terms[bin][2] = 1.0;
        for (int i = 0; i < TERMS; i++) scale[i] = fmax(scale[i], terms[bin][i]);
    }
    for (int band = 0; band < n; band++) {
        int seen = 1;
        for (int bin = 0; bin < of->bins; bin++) {
            double variance = with->measured[bin * n + band];
            seen &= variance > 0.0;
            for (int i = 0; i < TERMS; i++)
                relative[bin * TERMS + i] = terms[bin][i] / scale[i] / (variance > 0.0 ? variance : 1.0);
        }
        if (seen && fit_not_negative(relative, of->bins, TERMS, found)) return 1;
        to->read_out[band] = seen ? found[0] / scale[0] : 0.0;
        to->shot[band] = seen ? found[1] / scale[1] : 0.0;
    }
    borrow_noise(to, n);
    return 0;
}

int imply_noise(statistics *with, const double *covariance, const double *mean_noise, const noise_law *law) {
    const moments *of = &with->sums;
    const int n = of->live;
    double *each = with->work[5], *inverse = with->work[6];
    const double least = least_noise_ratio(with, covariance, n, n, mean_noise, law);
    for (int bin = 0; bin < of->bins; bin++) {
        double brightness = 1.0 / of->inverse[bin], *measured = with->measured + bin * n;
        exchange_noise(covariance, n, n, mean_noise, law, least, brightness, each);
        if (invert(each, n, inverse)) return 1;
        for (int band = 0; band < n; band++) {
            double r = 1.0 / brightness, noise = law->read_out[band] * (r * r) + law->shot[band] * r;
            double left = measured[band] - 1.0 / inverse[band * n + band] + noise;
            measured[band] = fmax(left, 0.05 * measured[band]);
        }
    }
    return 0;
}

void mean_noise_of(const moments *of, const noise_law *law, const double *weight, double *to) {
    double total = 0.0, inverse = 0.0, square = 0.0;
    for (int bin = 0; bin < of->bins; bin++) total += weight[bin] * of->count[bin];
    for (int bin = 0; bin < of->bins; bin++) {
        double share = weight[bin] * of->count[bin] / total;
        inverse += share * of->inverse[bin];
        square += share * of->inverse_square[bin];
    }
    for (int band = 0; band < of->live; band++) to[band] = law->read_out[band] * square + law->shot[band] * inverse;
}

static int any(const double *values, int n) {
    for (int i = 0; i < n; i++)
        if (values[i] != 0.0) return 1;
    return 0;
}

/* The median of the bands' noise that is above zero. */
static double middle_noise(const double *noise, int n, double *room) {
    int count = 0;
    for (int i = 0; i < n; i++)
        if (noise[i] > 0.0) {
            int at = count++;
            for (; at > 0 && room[at - 1] > noise[i]; at--) room[at] = room[at - 1];
            room[at] = noise[i];
        }
    return count ? 0.5 * (room[(count - 1) / 2] + room[count / 2]) : 0.0;
}

/* The least eigenvalue of a positive matrix, by inverse iteration. */
static double least_eigenvalue(double *matrix, int n, double *inverse, double *vector, double *next) {
    int largest = 0;
    if (invert(matrix, n, inverse)) return 0.0;
    for (int i = 1; i < n; i++)
        if (inverse[i * n + i] > inverse[largest * n + largest]) largest = i;
    for (int i = 0; i < n; i++) vector[i] = inverse[i * n + largest];
    for (int round = 0; round < ROUNDS; round++) {
        double length = sqrt(dot(vector, vector, n));
        for (int i = 0; i < n; i++) next[i] = vector[i] / length;
        multiply(inverse, n, n, next, vector);
    }
    return 1.0 / sqrt(dot(vector, vector, n));
}

double least_noise_ratio(
    statistics *with, const double *covariance, int rows, int bands, const double *mean_noise, const noise_law *law) {
    double *seen = with->work[0], *unit = with->work[1], *inverse = with->work[2], *vector = with->work[3];
    if (!any(mean_noise, bands)) return 0.0;
    const double next_to_nothing = NEXT_TO_NOTHING * middle_noise(mean_noise, bands, vector);
    for (int i = 0; i < bands; i++) unit[i] = sqrt(fmax(mean_noise[i], next_to_nothing));
    for (int i = 0; i < bands; i++)
        for (int j = 0; j < bands; j++) {
            double here = covariance[i * rows + j];
            if (i == j && law->doubtful[i]) here += mean_noise[i];
            if (rows > bands) /* one more was observed: what it explains is known */
                here -= covariance[bands * rows + i] * covariance[bands * rows + j] / covariance[bands * rows + bands];
            seen[i * bands + j] = here / (unit[i] * unit[j]);
        }
    return least_eigenvalue(seen, bands, inverse, vector, with->work[4]);
}

void exchange_noise(
    const double *covariance, int rows, int bands, const double *mean_noise, const noise_law *law, double least,
    double brightness, double *to) {
    const double inverse = 1.0 / brightness, most = -MOST_TAKEN * (least < 1.0 ? least : 1.0);
    memcpy(to, covariance, sizeof(double) * (size_t)(rows * rows));
    if (!any(mean_noise, bands)) return;
    for (int band = 0; band < bands; band++) {
        double noise = law->read_out[band] * (inverse * inverse) + law->shot[band] * inverse;
        double added = law->doubtful[band] ? mean_noise[band] : 0.0;
        to[band * rows + band] += added + fmax(noise - mean_noise[band], most * mean_noise[band]);
    }
}
