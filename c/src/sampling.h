/* Pixels of a tile for its statistics, and the sums over them; working memory of the statistics. */
#ifndef FLAME_SAMPLING_H
#define FLAME_SAMPLING_H
#include "kernels.h"
#include "statistics.h"

/* Sums over the sample in bins of brightness, of a pixel's spectrum and behind it that of its neighbours: `all` bands. */
typedef struct {
    int bins, live, all, side;
    double count[MOST_BINS], inverse[MOST_BINS], inverse_square[MOST_BINS];
    double *whole, *first, *second; /* first is `whole` less the plume */
    int has_plume;
    double *spectrum, *cross, square[MOST_BINS]; /* what a known plume adds */
} moments;

struct statistics {
    /* The sample: `count` pixels of `rows` rows of the tile, `step` apart. */
    int32_t capacity, count, rows, step, cols;
    int neighbours;
    double ring_noise;
    float *row_spectra, *row_images, *own, *ring, *brightness, *noise;
    uint8_t *has_ring, *sorted_ring;
    int32_t *row, *place, *places, *spare;
    int64_t *order, edges[MOST_BINS + 1];
    float *sorted, *chunks;
    moments sums;
    /* What a pass says of each pixel, in order of brightness. */
    float *responses, *heard, *level, *estimate, *sigma, *plume, *some, *more;
    float *images[4], *line;
    double *reference, *total, *work[7], *joint, *joint_mean, *measured, *few;
};

/* Draws the sample: reference spectrum, live bands, log-radiance. 0, or 1 if there is nothing to learn from. */
int draw_sample(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to);

/* Sorts it by brightness and adds it up. */
void bin_sample(statistics *with, const model *of, int live, int32_t threads);

/* Takes `plume` ppm m out of the sums. */
void subtract_plume(statistics *with, const double *spectrum);

/* Mean (of all) and covariance (of the first `n`) with a weight for the pixels of each bin. */
void weigh_moments(const moments *of, const double *weight, int n, double *mean, double *covariance);

/* `rows` of weights times the spectra of every pixel: (row, pixel). */
void respond(const statistics *with, const double *weight, int rows, int live, int first, float *to);
#endif
