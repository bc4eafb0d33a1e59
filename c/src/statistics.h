/* What a tile's ground and noise are like, and the filter that follows: `flame.filters.noise_aware.estimate_background`.
 * The arithmetic is that of the kernels, `learn_filter`. */
#ifndef FLAME_STATISTICS_H
#define FLAME_STATISTICS_H
#include <stdint.h>

#include "arena.h"
#include "kernels.h"
#include "model.h"

enum { CURVE_NODES = 129 };

/* A tile's radiance in the ring of lines, (band, row, col), and which pixels of it may be used. */
typedef struct {
    const float *radiance;
    int64_t band_stride, row_stride, ring, begin;
    int32_t rows, cols;
    const uint8_t *usable;
} tile_view;

/* All that is learned of a tile; arrays over bands are over its `live` ones, listed in `band`. */
typedef struct {
    int live, directions;
    int32_t *band;
    float *light, *factor, limits[3]; /* of all bands */
    double *spectrum, first_log, step_log;
    /* As `learning` says. */
    double *law, *mean, *covariance, *mean_noise, *weight, *level, *neighbour, *direction, clutter[DIRECTIONS], told[TOLD];
    uint8_t *doubtful;
    double along_mean[DIRECTIONS], methane[DIRECTIONS], read_out[DIRECTIONS], shot[DIRECTIONS]; /* of the directions */
    float curve[2 * CURVE_NODES], curve_step; /* enhancement and slope against what the filter reads */
} background;

typedef struct statistics statistics;

/* Memory for the results, and for the work, which may be used for something else between tiles. */
void reserve_background(arena *from, const model *of, background *to);
void reserve_statistics(arena *from, const model *of, statistics *to);

/* Learns a tile. 0, or 1 if there is nothing to learn from. */
int learn_background(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to);

/* The filter in parts, told apart in whitened coordinates: weights of each window at each anchor, (anchor, window, live),
 * good until the work's memory is used for something else. */
const double *window_filters(statistics *with, const model *of, const background *ground);

static inline double product(const double *a, const double *b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
#endif
