/* Vectors of doubles. */
#ifndef FLAME_DOUBLES_H
#define FLAME_DOUBLES_H
#include "vectors.h"

#define DOUBLES (LANES / 2) /* doubles in as many bytes as a vector of floats */
typedef double dvec __attribute__((vector_size(4 * LANES)));
typedef double loose_doubles __attribute__((vector_size(4 * LANES), aligned(8), may_alias));

INLINE dvec load_doubles(const double *from) { return *(const loose_doubles *)from; }
INLINE void store_doubles(double *to, dvec value) { *(loose_doubles *)to = value; }
#endif
