#include "unet.h"

#include <string.h>

enum { SLACK = 64, LINE = 16, FIRST_MEAN = 4 /* among the fields; every other one from there is an averaged estimate */ };

/* Floats of a row with its borders: an odd number of cache lines. */
static size_t stride_of(int32_t cols) {
    size_t lines = ((size_t)cols + 2 * SIDE + LINE - 1) / LINE;
    return (lines + (lines % 2 == 0)) * LINE;
}

static size_t floats_of(int32_t channels, int32_t rows, int32_t cols) {
    return ((size_t)rows + 2) * (size_t)channels * stride_of(cols);
}

/* An image in the next piece of memory: rows of all channels stand together. */
static image lay_out(float **memory, int32_t channels, int32_t rows, int32_t cols) {
    const size_t stride = stride_of(cols);
    image made = {*memory + (size_t)channels * stride + SIDE, (ptrdiff_t)stride, channels * (ptrdiff_t)stride, channels, 1};
    *memory += floats_of(channels, rows, cols);
    return made;
}

static size_t all_floats(const model *of) {
    const int32_t side = of->tile;
    size_t floats = floats_of(of->width[0], side, side) * 2 + floats_of(of->fields + 3, side, side);
    for (int level = 1; level <= DEPTH; level++) floats += 2 * floats_of(of->width[level], side >> level, side >> level);
    return floats;
}

void reserve_network(arena *from, const model *of, network *to) {
    const size_t pixels = (size_t)of->tile * (size_t)of->tile;
    to->rows = to->cols = 0;
    to->floats = all_floats(of) + SLACK;
    to->memory = TAKE(from, float, to->floats);
    to->score = TAKE(from, float, pixels + SLACK);
    to->said = TAKE(from, float, (size_t)(3 + of->gaussians) * pixels + SLACK);
    to->ones = TAKE(from, float, MOST_RESPONSES);
    to->nothing = TAKE(from, float, MOST_WIDTH);
}

/* Images for tiles of this size, with borders of zeros. */
static void lay_out_all(network *with, const model *of, int32_t rows, int32_t cols) {
    float *memory = with->memory;
    if (with->rows == rows && with->cols == cols) return;
    memset(memory, 0, sizeof(float) * with->floats);
    with->lifted = lay_out(&memory, of->width[0], rows, cols);
    with->features = lay_out(&memory, of->width[0], rows, cols);
    with->fields = lay_out(&memory, of->fields, rows, cols);
    with->scores = lay_out(&memory, 2, rows, cols);
    with->unused = lay_out(&memory, 1, rows, cols);
    for (int level = 0; level < DEPTH; level++) {
        int32_t down = rows >> (level + 1), across = cols >> (level + 1);
        with->first[level] = lay_out(&memory, of->width[level + 1], down, across);
        with->second[level] = lay_out(&memory, of->width[level + 1], down, across);
    }
    for (int i = 0; i < MOST_RESPONSES; i++) with->ones[i] = 1.0f;
    memset(with->nothing, 0, sizeof(float) * MOST_WIDTH);
    with->rows = rows;
    with->cols = cols;
}

static image read_by(image of, int32_t kernel) {
    of.kernel = kernel;
    return of;
}

/* Down and up again; on the way up each level takes the place of its own first image. */
static void run_trunk(network *with, const model *of, int32_t threads) {
    for (int level = 0; level < DEPTH; level++) {
        int32_t rows = with->rows >> (level + 1), cols = with->cols >> (level + 1);
        const image *in = level ? &with->second[level - 1] : &with->lifted, between = read_by(with->first[level], 3);
        const layer *half = &of->down[level][0], *same = &of->down[level][1];
        convolve_down_baseline(threads, rows, cols, in, 3, half->weight, half->bias, LEAKY, &with->first[level]);
        convolve_baseline(
            threads, rows, cols, &between, 1, same->weight, same->bias, LEAKY, NULL, NULL, 0, 0, &with->second[level], NULL);
    }
    for (int i = 0; i < DEPTH; i++) {
        int level = DEPTH - 1 - i;
        const image in[2] = {i ? with->first[level] : with->second[level], with->second[level]};
        const image *out = level ? &with->first[level - 1] : &with->features;
        convolve_up_baseline(
            threads, with->rows >> (level + 1), with->cols >> (level + 1), in, i ? 2 : 1, 4, of->up[i].weight,
            of->up[i].bias, level ? LEAKY : LINEAR, out);
    }
    convolve_baseline(
        threads, with->rows, with->cols, &with->lifted, 1, of->beside, with->nothing, LINEAR, NULL, NULL, 0, 1,
        &with->features, NULL);
}

static void copy_fields(network *with, const model *of, const tile_planes *planes) {
    const ptrdiff_t plane = (ptrdiff_t)planes->rows * planes->cols;
    for (int32_t channel = 0; channel < of->fields; channel++)
        for (int32_t row = 0; row < planes->rows; row++)
            memcpy(
                with->fields.data + channel * with->fields.plane + row * with->fields.stride,
                planes->planes + (of->functions + channel) * plane + row * planes->cols,
                sizeof(float) * (size_t)planes->cols);
}

judgement run_network(network *with, const model *of, const tile_planes *planes, int32_t threads) {
    const int32_t rows = planes->rows, cols = planes->cols, seen = of->functions + of->fields + of->windows;
    const int64_t plane = (int64_t)rows * cols;
    const float held[7] = {(float)of->least_log_spread, (float)of->most_log_spread, (float)of->most_median,
                           (float)of->least_spread,     (float)of->most_lead,       (float)of->normal_to_logit,
                           (float)of->least_sigma_share};
    lay_out_all(with, of, rows, cols);
    lift_baseline(
        threads, rows, cols, planes->planes, seen, rows, planes->planes, 0, of->lift.weight, of->lift.bias, &with->lifted);
    run_trunk(with, of, threads);
    score_baseline(
        threads, rows, cols, &with->features, planes->windows, of->windows, rows, of->heads.weight, of->heads.bias, with->ones,
        0.0f, with->score, &with->unused);
    rescore_baseline(
        threads, rows, cols, with->score, planes->windows, of->windows, planes->significance, planes->sigma, &with->scores);
    copy_fields(with, of, planes);
    const image joined[3] = {read_by(with->features, 3), read_by(with->scores, 3), read_by(with->fields, 1)};
    segment_baseline(
        threads, rows, cols, joined, 3, of->segment[0].weight, of->segment[0].bias, of->hidden, of->segment[1].weight,
        of->segment[1].bias, of->last, of->project.weight, of->project.bias, 3 + of->gaussians, 0, with->said);
    /* Each pixel is told of by its own outputs alone: they make room for it. */
    tell_planes_baseline(
        threads, rows, cols, with->said, planes->planes + (of->functions + FIRST_MEAN) * plane, 2 * plane, of->gaussians,
        with->score, planes->significance, planes->sigma, 0.0f, held, with->said);
    return (judgement){with->said, with->said + plane, with->said + 4 * plane};
}
