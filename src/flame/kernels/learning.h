/* What the kernels that learn a tile's ground are given and what they find; the C library in `c/` gives it too. */
#ifndef FLAME_LEARNING_H
#define FLAME_LEARNING_H
#include <stdint.h>

enum { MOST_BINS = 64, MOST_LEVELS = 64, DIRECTIONS = 8 };
enum { LEAST_BINS = 4 }; /* fewer show no noise law, which has three terms: noise counts as ground then */
enum { OFFSET, GAIN, SIGMA_OF, TABLES }; /* rows of `level` */
enum { NEIGHBOUR_MEAN, TYPICAL, WIDENING, TOLD = 4 }; /* places in `told`; the widening has two */

/* As `flame.filters.noise_aware.compiled` gives it. Pixels are those of `BinnedSample`, in order of brightness. */
typedef struct {
    int32_t threads, bands, parts, bins, levels, passes, rows, cols, reach_down, reach_across;
    int64_t count, side;
    double ring_noise, plume_significance, shrinkage; /* shrinkage: of the covariance to its diagonal, where pixels are few */
    const float *chunks, *brightness, *place; /* place: between the levels */
    const int64_t *order, *edges;
    const double *number, *inverse, *inverse_square, *first, *second; /* of bins: (bin), (bin, band), (bin, side, side) */
    const double *spectrum, *level_brightness, *lent;                 /* lent: what levels lend each other, (level, level) */
    const float *down, *across;                                       /* taps of the smoothing */
    /* What is found. law: read-out, then shot noise. level: offset, gain of the neighbours and sigma, (3, level). told: the
     * neighbours' mean, typical distance, widening. */
    double *law, *mean, *covariance, *mean_noise, *weight, *level, *neighbour, *direction, *clutter, *told;
    uint8_t *doubtful;
    double *room; /* as `learn_room` says */
    float *pixels;
    int32_t *places;
} learning;
#endif
