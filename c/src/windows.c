/* The matched filter in parts: `flame.prepare.planes.preparer.window_filters`. */
#include <math.h>
#include <string.h>

#include "../../src/flame/kernels/linear.h"
#include "sampling.h"

void reserve_windows(arena *from, const model *of, statistics *to) {
    const size_t bands = (size_t)of->bands, anchors = (size_t)of->anchors;
    to->at_anchors = TAKE(from, double, anchors * bands * bands);
    to->vectors = TAKE(from, double, bands * bands);
    to->root = TAKE(from, double, bands * bands);
    to->windows = TAKE(from, double, anchors * (size_t)of->windows * bands);
}

/* The inverse root of a covariance, which is lost, its eigenvalues held above a share of the largest. */
static void invert_root(double *covariance, int n, double *vectors, double *root) {
    double largest = 0.0;
    find_eigenvectors(covariance, n, vectors);
    memset(root, 0, sizeof(double) * (size_t)(n * n));
    for (int k = 0; k < n; k++) largest = fmax(largest, covariance[k * n + k]);
    for (int k = 0; k < n; k++) {
        double share = 1.0 / sqrt(fmax(covariance[k * n + k], 1e-9 * largest));
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) root[i * n + j] += share * vectors[k * n + i] * vectors[k * n + j];
    }
}

const double *window_filters(statistics *with, const model *of, const background *ground) {
    const int n = ground->live;
    const double span = ground->step_log * (of->levels - 1);
    double brightness[MOST_ANCHORS], target[MOST_BANDS], *row = with->windows;
    for (int i = 0; i < of->anchors; i++) brightness[i] = exp(ground->first_log + span * i / (of->anchors - 1));
    learn_at_noise_baseline(&with->learned, of->anchors, brightness, with->at_anchors);
    memset(with->windows, 0, sizeof(double) * (size_t)(of->anchors * of->windows * n));
    for (int anchor = 0; anchor < of->anchors; anchor++) {
        invert_root(with->at_anchors + anchor * n * n, n, with->vectors, with->root);
        for (int i = 0; i < n; i++) target[i] = product(with->root + i * n, ground->spectrum, n);
        const double power = product(target, target, n);
        for (int window = 0; window < of->windows; window++, row += n)
            for (int k = 0; k < n; k++) {
                double share = of->share[window * of->bands + ground->band[k]] * target[k] / power;
                if (share == 0.0) continue;
                for (int i = 0; i < n; i++) row[i] += share * with->root[k * n + i];
            }
    }
    return with->windows;
}
