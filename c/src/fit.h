/* From sums to the filter at each brightness: `flame.filters.noise_aware.fit`. */
#ifndef FLAME_FIT_H
#define FLAME_FIT_H
#include "sampling.h"

/* One pass with the plumes found before taken out; the first of them measures the noise, the last corrects its law. Fills
 * `to` and the estimates of the sample. 0, or 1 if there is no filter for this tile. */
int fit_filter(statistics *with, const model *of, int first, int last, background *to);

/* What is surely methane in the sample, into `plume`. */
void find_plume(statistics *with, const model *of);

/* How unlike the tile's ground pixels are, and how the estimate's spread grows with it. 0 or 1. */
int find_anomalies(statistics *with, background *to);

/* Shrinkage to the diagonal under which each spectrum of the sample is likeliest given all the others. */
double leave_one_out_shrinkage(statistics *with);
#endif
