/* Sorting and medians. */
#ifndef FLAME_ORDERING_H
#define FLAME_ORDERING_H
#include <stddef.h>
#include <stdint.h>

/* Places of `count` keys in rising order, equal ones as they stood; `spare` has as much room as `order`. */
void sort_places(const float *keys, int32_t *order, int32_t *spare, int32_t count);

/* The value that would stand at `rank`, counted from 0, if `values` were sorted; it moves them. */
float ranked(float *values, int32_t count, int32_t rank);

/* The median, of an even number the mean of the two in the middle; it moves the values. */
float median_of(float *values, int32_t count);
double median_of_doubles(double *values, int count);
#endif
