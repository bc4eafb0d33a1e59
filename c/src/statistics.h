/* What a tile's ground and noise are like, and the filter that follows: `flame.filters.noise_aware.estimate_background`. */
#ifndef FLAME_STATISTICS_H
#define FLAME_STATISTICS_H
#include <stdint.h>

#include "arena.h"
#include "model.h"

enum { DIRECTIONS = 8, CURVE_NODES = 129 };

/* A tile's radiance in the ring of lines, (band, row, col), and which pixels of it may be used. */
typedef struct {
    const float *radiance;
    int64_t band_stride, row_stride, ring, begin;
    int32_t rows, cols;
    const uint8_t *usable;
} tile_view;

/* Variance of log-radiance by noise at brightness r, `read_out / r^2 + shot / r`, of each live band; doubtful bands have
 * borrowed it. */
typedef struct {
    double *read_out, *shot;
    uint8_t *doubtful;
} noise_law;

/* All that is learned of a tile; arrays over bands are over its `live` ones, listed in `band`. */
typedef struct {
    int live, directions;
    int32_t *band;
    float *light, *factor, limits[3]; /* of all bands */
    double *spectrum, *mean, *covariance, *mean_noise;
    noise_law law;
    double first_log, step_log, *weight /* (level, band) */, offset[MOST_LEVELS], gain[MOST_LEVELS], sigma[MOST_LEVELS];
    double *neighbour, neighbour_mean;
    double *direction, along_mean[DIRECTIONS], methane[DIRECTIONS], clutter[DIRECTIONS], read_out[DIRECTIONS];
    double shot[DIRECTIONS], typical, widening[2];
    float curve[2 * CURVE_NODES], curve_step; /* enhancement and slope against what the filter reads */
} background;

typedef struct statistics statistics;

/* Memory for the results, and for the work, which may be used for something else between tiles. */
void reserve_background(arena *from, const model *of, background *to);
void reserve_statistics(arena *from, const model *of, statistics *to);

/* Learns a tile. 0, or 1 if there is nothing to learn from. */
int learn_background(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to);

/* The covariance `of` rows and columns, the first `bands` of them bands, with its mean noise exchanged for another.
 * `least`: from `least_noise_ratio`. */
double least_noise_ratio(
    statistics *with, const double *covariance, int rows, int bands, const double *mean_noise, const noise_law *law);
void exchange_noise(
    const double *covariance, int rows, int bands, const double *mean_noise, const noise_law *law, double least,
    double brightness, double *to);
#endif
