/* The kernels of `src/flame/kernels` as they are linked here, compiled once with SUFFIX=_baseline; what they take stands
 * there. */
#ifndef FLAME_KERNELS_H
#define FLAME_KERNELS_H
#include <stddef.h>
#include <stdint.h>

#include "../../src/flame/kernels/activations.h"
#include "../../src/flame/kernels/learning.h"
#include "../../src/flame/kernels/limits.h"
#include "../../src/flame/kernels/pool.h"

typedef struct {
    float *data;
    ptrdiff_t plane, stride;
    int32_t channels, kernel;
} image;

void pixel_range_baseline(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, int64_t ring, int64_t begin, float *low, float *high, float *sums, int64_t every);
void sample_spectra_baseline(
    int32_t threads, int64_t rows, int64_t width, const float *radiance, int64_t band_stride, int64_t row_stride,
    int64_t ring, int64_t begin, const uint8_t *valid, const int32_t *middle, int64_t count, const int32_t *bands,
    int32_t used, const float *light, const float *factor, const float *limits, float *out, float *images);
void bin_spectra_baseline(
    int32_t threads, int64_t bins, int64_t count, int64_t layer, int32_t bands, int32_t parts, const float *own,
    const float *ring, const int64_t *order, const uint8_t *has_ring, const int64_t *edges, float *chunks,
    double *first, double *second);
void learn_room_baseline(const learning *is, int64_t *needs);
int32_t learn_filter_baseline(const learning *is);
void learn_at_noise_baseline(const learning *is, int32_t count, const double *brightness, double *out);
void project_spectra_baseline(
    int32_t threads, int64_t rows, int64_t width, int32_t bands, const float *radiance, int64_t band_stride,
    int64_t row_stride, int64_t ring, int64_t begin, const uint8_t *valid, const float *light, const float *factor,
    const float *limits, int32_t levels, int32_t directions, const float *weight, const float *offset,
    const float *tables, float low, float each, const float *ground, float share, float *out, int32_t functions,
    int32_t anchors, int32_t windows, const float *noise, float *functions_out, float *windows_out, int64_t stride,
    int64_t plane);
void finish_spectra_baseline(
    int32_t threads, int64_t rows, int64_t width, const float *projected, const float *limits, const float *widening,
    const float *curve, int32_t nodes, float step, float *out);
int32_t filter_planes_baseline(
    int32_t threads, int64_t rows, int64_t width, const float *found, const float *settings, int32_t widths,
    const int32_t *reach, const float *taps, int32_t count, float *fields, float *seen, float *parts, int32_t windows,
    int64_t stride, int64_t plane, float *significance, float *sigma, float *scratch, int64_t line, float *factors);
void lift_baseline(
    int32_t threads, int64_t rows, int64_t width, const float *spectra, int32_t bands, int64_t block_rows,
    const float *extra, int32_t extras, const float *weight, const float *bias, const image *out);
void convolve_baseline(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, const float *weight, const float *bias,
    int32_t kind, const float *factors, const float *waves, int32_t modes, int32_t onto, const image *out,
    float *sums);
void convolve_down_baseline(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t kernel, const float *weight, const float *bias,
    int32_t kind, const image *out);
void convolve_up_baseline(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, int32_t kernel, const float *weight,
    const float *bias, int32_t kind, const image *out);
void score_baseline(
    int32_t threads, int64_t rows, int64_t width, const image *z, const float *spectra, int32_t bands, int64_t block_rows,
    const float *weight, const float *bias, const float *direction, float most, float *score, const image *clipped);
void rescore_baseline(
    int32_t threads, int64_t rows, int64_t width, float *score, const float *windows, int32_t count,
    const float *significance, const float *sigma, const image *out);
void segment_baseline(
    int32_t threads, int64_t rows, int64_t width, const image *in, int32_t images, const float *weight1,
    const float *bias1, int32_t hidden, const float *weight2, const float *bias2, int32_t channels, const float *project,
    const float *offset, int32_t outputs, int32_t probability, float *logits);
void tell_planes_baseline(
    int32_t threads, int64_t rows, int64_t width, const float *said, const float *means, int64_t step, int32_t count,
    const float *score, const float *significance, const float *sigma, float level, const float *held, float *out);
#endif
