/* The network from planes to what it says of each pixel: `flame.models.plus` with the U-Net as its trunk. */
#ifndef FLAME_UNET_H
#define FLAME_UNET_H
#include "tile_planes.h"

typedef struct {
    int32_t rows, cols; /* that the images are laid out for; 0 at first */
    float *memory;
    size_t floats;
    image lifted, features, fields, scores, unused, first[DEPTH], second[DEPTH];
    float *score, *said, *ones, *nothing;
} network;

void reserve_network(arena *from, const model *of, network *to);

/* What the network says of each pixel, in rows of `planes->cols` floats: probability, enhancement in units of the model's
 * reference, and how surely network and filter see gas, in standard deviations. */
typedef struct {
    const float *probability, *enhancement, *core;
} judgement;

/* The next call overwrites what the one before said. */
judgement run_network(network *with, const model *of, const tile_planes *planes, int32_t threads);
#endif
