/* The planes of a tile from its radiance: `flame.prepare.planes.compiled`. */
#ifndef FLAME_TILE_PLANES_H
#define FLAME_TILE_PLANES_H
#include "sampling.h"

/* What a network takes, in rows of `cols` and planes of `rows` times `cols` floats, both whole steps of the kernels: beyond
 * the tile's own edge stands its mirror image. */
typedef struct {
    int32_t rows, cols;
    float *planes, *windows, *significance, *sigma;
    float *work, *found, *weight, *offset, *rows_to_pack;
} tile_planes;

/* Memory that stays, and memory that the statistics may use before. */
void reserve_packed(arena *from, const model *of, tile_planes *to);
void reserve_planes(arena *from, const model *of, tile_planes *to);

/* Marks the pixels of a tile that may be used, given those marked valid: (row, col). */
void find_usable(
    const tile_planes *with, const model *of, const tile_view *tile, const uint8_t *valid, int64_t valid_stride,
    int32_t threads, uint8_t *usable);

/* Fills all planes. 0, or 1 if there is no background to tell a plume from. */
int make_planes(
    tile_planes *to, statistics *with, const model *of, const tile_view *tile, int32_t threads, background *ground);
#endif
