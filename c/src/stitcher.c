#include "stitcher.h"

#include <math.h>
#include <string.h>

enum { WEIGHT_STEPS = 256 };

/* Weight of the later of two tiles, by the distance into their overlap: 0, a ramp over its middle half, 1. */
static float rise(const model *of, int64_t into) {
    if (!of->overlap) return into >= 0 ? 1.0f : 0.0f;
    double share = ((double)(into - of->overlap / 4) + 0.5) / (of->overlap / 2);
    share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    return (float)(floor(share * WEIGHT_STEPS) / WEIGHT_STEPS);
}

span find_span(const model *of, int64_t index, int64_t length, float *weight) {
    const int64_t step = of->tile - of->overlap, nominal = index * step;
    span found = {nominal, nominal + of->tile, nominal + step + of->overlap / 4};
    if (length >= 0) {
        int64_t back = length - of->tile < nominal ? length - of->tile : nominal;
        found = (span){back > 0 ? back : 0, length, length};
    }
    for (int64_t at = found.start; at < found.stop; at++) {
        float share = index > 0 ? rise(of, at - nominal) : 1.0f;
        weight[at - found.start] = length < 0 ? share * (1.0f - rise(of, at - (nominal + step))) : share;
    }
    return found;
}

int64_t count_tiles(const model *of, int64_t length) {
    const int64_t step = of->tile - of->overlap;
    return length <= of->tile ? 1 : 1 + (length - of->tile + step - 1) / step;
}

void reserve_stitcher(arena *from, const model *of, int32_t cols, stitcher *to) {
    to->tile = of->tile;
    to->cols = cols;
    for (int i = 0; i < LAYERS; i++) to->layer[i] = TAKE(from, float, (size_t)of->tile * (size_t)cols);
    to->row_weight = TAKE(from, float, of->tile);
    to->col_weight = TAKE(from, float, of->tile);
}

void restart_stitcher(stitcher *with) {
    with->first = 0;
    for (int i = 0; i < LAYERS; i++) memset(with->layer[i], 0, sizeof(float) * (size_t)with->tile * (size_t)with->cols);
}

void add_tile(
    stitcher *with, span rows, span cols, const float *const said[WEIGHT], int32_t apart, const uint8_t *usable) {
    const int64_t wide = cols.stop - cols.start;
    for (int64_t row = rows.start; row < rows.stop; row++) {
        int64_t own = row - rows.start, at = row - with->first;
        if (at < 0) continue; /* a last tile that was moved back reaches into rows given out before, with no weight */
        float *to[LAYERS];
        for (int i = 0; i < LAYERS; i++) to[i] = with->layer[i] + at * with->cols + cols.start;
        for (int64_t col = 0; col < wide; col++) {
            float weight = with->row_weight[own] * with->col_weight[col];
            int seen = usable[own * wide + col];
            for (int i = 0; i < WEIGHT; i++) to[i][col] += weight * (seen ? said[i][own * apart + col] : 0.0f);
            to[WEIGHT][col] += weight;
        }
    }
}

void drop_rows(stitcher *with, int32_t rows) {
    const size_t cols = (size_t)with->cols, gone = (size_t)rows * cols, left = (size_t)(with->tile - rows) * cols;
    for (int i = 0; i < LAYERS; i++) {
        memmove(with->layer[i], with->layer[i] + gone, left * sizeof(float));
        memset(with->layer[i] + left, 0, gone * sizeof(float));
    }
    with->first += rows;
}
