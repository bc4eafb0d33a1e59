/* What the noise-aware filter's kernels share. */
#ifndef FLAME_NOISE_AWARE_H
#define FLAME_NOISE_AWARE_H
#include "vectors.h"

/* Radiance as (band, row, col), strides in floats: a ring of `ring` rows whose first stands at `begin`. */
typedef struct {
    const float *radiance;
    ptrdiff_t band_stride, row_stride, ring, begin;
} cube;

INLINE const float *row_of(const cube *from, ptrdiff_t row) {
    return from->radiance + (row + from->begin) % from->ring * from->row_stride;
}

#define MOST_LIGHT 2.0f

/* How much a pixel counts among its neighbours: by its light. */
INLINE float influence(float brightness, const float *limits) {
    float held = brightness < MOST_LIGHT ? brightness : MOST_LIGHT;
    return (brightness >= limits[0]) & (brightness <= limits[1]) ? held : 0.0f;
}
#endif
