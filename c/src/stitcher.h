/* Lines cut into overlapping tiles, and tiles back into rows without seams: `flame.detection.tiling`. */
#ifndef FLAME_STITCHER_H
#define FLAME_STITCHER_H
#include "arena.h"
#include "model.h"

/* One tile's stretch along one axis: first pixel, end, and the first that needs a later tile. */
typedef struct {
    int64_t start, stop, settled;
} span;

/* Tile number `index`; `length` of the axis if it is the last, else -1. Shares of its pixels into `weight`. */
span find_span(const model *of, int64_t index, int64_t length, float *weight);

/* Tiles along an axis of so many pixels. */
int64_t count_tiles(const model *of, int64_t length);

enum { PROBABILITY, SCORE, SURENESS, WEIGHT, LAYERS };

typedef struct {
    int32_t tile, cols;
    int64_t first;
    float *layer[LAYERS], *row_weight, *col_weight;
} stitcher;

void reserve_stitcher(arena *from, const model *of, int32_t cols, stitcher *to);
void restart_stitcher(stitcher *with);

/* Adds what is said of one tile: the layers before WEIGHT, in rows `apart` floats apart, where usable. `row_weight` and
 * `col_weight` hold the shares of its rows and columns. */
void add_tile(
    stitcher *with, span rows, span cols, const float *const said[WEIGHT], int32_t apart, const uint8_t *usable);

/* Drops the first rows, which were given out. */
void drop_rows(stitcher *with, int32_t rows);
#endif
