/* The model image: everything that one network and one sensor's bands need, as `flame.pipeline.flight_image` writes it. */
#ifndef FLAME_MODEL_H
#define FLAME_MODEL_H
#include <stddef.h>
#include <stdint.h>

#include "../include/flame.h"

enum { DEPTH = 4, MOST_ANCHORS = 16, MOST_CORE_SIGMAS = 1000 };

/* Of a U-Net level's two convolutions, or of one of its way up. */
typedef struct {
    const float *weight, *bias;
} layer;

typedef struct {
    /* Sizes, in the order of the image. */
    int32_t tile, overlap, bands, functions, fields, windows, width[1 + DEPTH], hidden, last, gaussians, anchors;
    int32_t sample_pixels, bins, levels, passes, neighbours, nodes, opening;
    /* Numbers, likewise. */
    double reference_ppm_m, tau_ppm_m, threshold, core_sigmas /* 0: none */, saturation, clutter_clip, tiny, most_sigma_ppm_m;
    double most_share;
    double least_log_spread, most_log_spread, most_median, least_spread, most_lead, normal_to_logit, least_sigma_share, plume_significance, smoothing_px, max_log_noise, min_albedo;
    double max_albedo, shrinkage; /* below 0: chosen by likelihood where pixels are few */
    /* Arrays: absorption by 1 ppm m, functions of wavelength (function, band), shares of windows (window, band), enhancements
     * and log-transmittance (band, node), reach and taps of the Gaussians, and how many taps. */
    const double *absorption, *function, *share, *enhancement, *log_transmittance;
    const int32_t *reach;
    const float *taps;
    int32_t all_taps;
    /* Weights as the kernels take them. */
    layer lift, down[DEPTH][2], up[DEPTH], heads, segment[2], project;
    const float *beside;
} model;

/* Finds everything in an image and checks that it is whole and that the kernels have room for it. */
flame_status read_model(const void *content, size_t bytes, model *to);

/* Only whether it is whole. */
flame_status check_model(const void *content, size_t bytes);

/* The least number from `rows` on that fives and fours make up, as the kernels pack rows. */
int packed_rows(int rows);
#endif
