/* Few pixels, many bands: `flame.filters.whitening.leave_one_out_shrinkage`. */
#include <math.h>
#include <string.h>

#include "../../src/flame/kernels/linear.h"
#include "sampling.h"

enum { CANDIDATES = 25 };

void reserve_shrinkage(arena *from, const model *of, statistics *to) {
    const ptrdiff_t bands = of->bands, line = line_of(bands), wide = line_of(PIXELS_PER_BAND * bands);
    to->centred = TAKE(from, double, bands * wide);
    to->solved = TAKE(from, double, bands * wide);
    to->sample = TAKE(from, double, bands * line);
    to->factor = TAKE(from, double, bands * line);
}

/* The sample's spectra, each band of mean 0 and variance 1, (band, pixel). 1 if one of them does not vary. */
static int centre(const statistics *with, ptrdiff_t n, ptrdiff_t wide, double *centred) {
    const ptrdiff_t count = with->count, all = (1 + with->neighbours) * n;
    memset(centred, 0, sizeof(double) * (size_t)(n * wide));
    for (ptrdiff_t band = 0; band < n; band++) {
        double mean = 0.0, variance = 0.0, *here = centred + band * wide;
        for (ptrdiff_t i = 0; i < count; i++) {
            here[i] = (double)with->chunks[(i / CHUNK * all + band) * CHUNK + i % CHUNK];
            mean += here[i] / (double)count;
        }
        for (ptrdiff_t i = 0; i < count; i++) {
            here[i] -= mean;
            variance += here[i] * here[i] / (double)count;
        }
        if (!(variance > 0.0)) return 1;
        for (ptrdiff_t i = 0; i < count; i++) here[i] /= sqrt(variance);
    }
    return 0;
}

/* Minus the log-likelihood of each spectrum given the others, at one shrinkage; infinite if it is impossible. */
static double unlikeliness(statistics *with, ptrdiff_t n, ptrdiff_t wide, double shrinkage) {
    const ptrdiff_t line = line_of(n), count = with->count;
    const double share = (1.0 - shrinkage) / (double)(count - 1);
    double cost = 0.0;
    memcpy(with->factor, with->sample, sizeof(double) * (size_t)(n * line));
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            if (i != j) with->factor[i * line + j] *= 1.0 - shrinkage;
    if (factorise(with->factor, n, line)) return INFINITY;
    memcpy(with->solved, with->centred, sizeof(double) * (size_t)(n * wide));
    solve_half(with->factor, n, line, with->solved, wide);
    for (ptrdiff_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (ptrdiff_t band = 0; band < n; band++) sum += with->solved[band * wide + i] * with->solved[band * wide + i];
        const double others = 1.0 - share * sum;
        if (!(others > 0.0)) return INFINITY;
        cost += (log(others) + sum / others) / (double)count;
    }
    for (ptrdiff_t i = 0; i < n; i++) cost += 2.0 * log(with->factor[i * line + i]);
    return cost;
}

double leave_one_out_shrinkage(statistics *with, int live) {
    const ptrdiff_t n = live, line = line_of(n), wide = line_of(with->count);
    double best = 1.0, least = INFINITY;
    if (centre(with, n, wide, with->centred)) return 1.0;
    memset(with->sample, 0, sizeof(double) * (size_t)(n * line));
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            with->sample[i * line + j] = dot(with->centred + i * wide, with->centred + j * wide, 0, wide) / (with->count - 1);
    for (int i = 0; i < CANDIDATES; i++) {
        double shrinkage = pow(10.0, -8.0 + 8.0 * i / (CANDIDATES - 1)), cost = unlikeliness(with, n, wide, shrinkage);
        if (cost < least) {
            best = shrinkage;
            least = cost;
        }
    }
    return best;
}
