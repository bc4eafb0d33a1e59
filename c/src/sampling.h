/* Pixels of a tile for its statistics, and the sums over them; working memory of the statistics. */
#ifndef FLAME_SAMPLING_H
#define FLAME_SAMPLING_H
#include "statistics.h"

enum { PIXELS_PER_BAND = 5 }; /* that a covariance takes */

struct statistics {
    /* The sample: `count` pixels of `rows` rows of the tile, `step` apart. */
    int32_t capacity, count, rows, step, cols;
    int neighbours;
    double ring_noise;
    float *row_spectra, *row_images, *own, *ring, *brightness, *noise, *line;
    uint8_t *has_ring, *sorted_ring;
    int32_t *row, *place, *places /* twice as many as pixels */;
    double *reference, *total;
    /* In order of brightness, in bins: sums of a pixel's spectrum and behind it that of its neighbours. */
    int bins;
    int64_t side, *order /* where each pixel stands in the image of the rows */, edges[MOST_BINS + 1];
    float *sorted, *chunks;
    double number[MOST_BINS], inverse[MOST_BINS], inverse_square[MOST_BINS], *first, *second;
    /* What the kernels learn from, and in. */
    learning learned;
    float *level, down[2 * MOST_BLUR + 1], across[2 * MOST_BLUR + 1]; /* level: each pixel's place between them */
    double level_brightness[MOST_LEVELS], *lent, *room;
    float *pixels;
    int64_t reserved[2];
    double *reading; /* of the curve of saturation; kept: which of its nodes are used */
    int32_t *kept;
    double *centred, *solved, *sample, *factor;    /* of the shrinkage */
    double *at_anchors, *vectors, *root, *windows; /* of the windows' filters */
};

/* Memory for the most that there can be. */
void reserve_sample(arena *from, const model *of, statistics *to);
void reserve_shrinkage(arena *from, const model *of, statistics *to);
void reserve_windows(arena *from, const model *of, statistics *to);

/* Draws the sample: reference spectrum, live bands, log-radiance. 0, or 1 if there is nothing to learn from. */
int draw_sample(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to);

/* Sorts it by brightness and adds it up. */
void bin_sample(statistics *with, const model *of, int live, int32_t threads);

/* Shrinkage to the diagonal under which each spectrum of the sample is likeliest given all the others; the pixels are
 * fewer than PIXELS_PER_BAND a band. */
double leave_one_out_shrinkage(statistics *with, int live);
#endif
