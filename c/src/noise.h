/* How the noise of each band depends on brightness: `flame.filters.noise_aware.noise_law` and `at_noise`. */
#ifndef FLAME_NOISE_H
#define FLAME_NOISE_H
#include "sampling.h"

/* Conditional variance of each band in each bin, (bin, band), into `measured`. 0, or 1 where there is none. */
int measure_noise(statistics *with);

/* The law behind measured variances; bands with hardly any noise borrow that of the middle one. 0 or 1. */
int fit_law(statistics *with, noise_law *to);

/* Corrects measured variances, given a first law, for what other bands cannot explain. 0 or 1. */
int imply_noise(statistics *with, const double *covariance, const double *mean_noise, const noise_law *law);

/* Mean variance of each band over the sample with a weight for the pixels of each bin. */
void mean_noise_of(const moments *of, const noise_law *law, const double *weight, double *to);

/* Not negative x of least |terms x - 1|, `count` (at most 3) terms in each of `rows` rows. 0, or 1 if there is none. */
int fit_not_negative(const double *terms, int rows, int count, double *x);
#endif
