#include "tile_planes.h"

#include <math.h>
#include <string.h>

enum { SLACK = 64 };
static const float FILL_BELOW = -900.0f;

static int fours(int rows) { return (rows + 3) / 4 * 4; }

static int32_t strides(int32_t side) { return (side + TILE_STEP - 1) / TILE_STEP * TILE_STEP; }

/* Floats of a row of scratch images: an odd number of steps, so that rows do not fight for the same cache lines. */
static int32_t line_of(int32_t cols) {
    int32_t steps = (cols + TILE_STEP - 1) / TILE_STEP;
    return (steps + 1 - steps % 2) * TILE_STEP;
}

/* Rows of weights that the kernels read. */
static size_t all_rows(const model *of) {
    return (size_t)(fours(of->levels) + packed_rows(1 + DIRECTIONS) + packed_rows(of->functions) +
                    of->anchors * packed_rows(of->windows));
}

void reserve_packed(arena *from, const model *of, tile_planes *to) {
    to->weight = TAKE(from, float, all_rows(of) * (size_t)of->bands);
    to->offset = TAKE(from, float, all_rows(of));
    to->rows_to_pack = TAKE(from, float, (size_t)MOST_RESPONSES * (size_t)of->bands);
}

void reserve_planes(arena *from, const model *of, tile_planes *to) {
    const size_t side = (size_t)of->tile, pixels = side * side, line = (size_t)line_of(of->tile);
    const size_t planes = (size_t)(of->functions + of->fields + of->windows);
    to->work = TAKE(from, float, side * (8 * side > 4 * line ? 8 * side : 4 * line) + SLACK);
    to->found = TAKE(from, float, 4 * pixels + SLACK);
    to->planes = TAKE(from, float, planes * pixels + SLACK);
    to->windows = TAKE(from, float, (size_t)of->windows * pixels + SLACK);
    to->significance = TAKE(from, float, pixels + SLACK);
    to->sigma = TAKE(from, float, pixels + SLACK);
}

void find_usable(
    const tile_planes *with, const model *of, const tile_view *tile, const uint8_t *valid, int64_t valid_stride,
    int32_t threads, uint8_t *usable) {
    float *low = with->work, *high = with->work + tile->rows * tile->cols;
    pixel_range_baseline(
        threads, tile->rows, tile->cols, of->bands, tile->radiance, tile->band_stride, tile->row_stride, tile->ring,
        tile->begin, low, high, NULL, 1);
    for (int32_t row = 0; row < tile->rows; row++)
        for (int32_t col = 0; col < tile->cols; col++) {
            int32_t at = row * tile->cols + col;
            int lit = isfinite(low[at]) && isfinite(high[at]) && high[at] > 0.0f && low[at] >= FILL_BELOW;
            usable[at] = valid[(row + tile->begin) % tile->ring * valid_stride + col] && lit && high[at] < (float)of->saturation;
        }
}

/* Weights of so many rows in the order the kernels read them: blocks of five and four rows, band, row of the block. */
static float *pack(const float *rows, int count, int bands, float *to) {
    int fives = (count - 4 * ((5 - count % 5) % 5)) / 5;
    for (int at = 0, size; at < count; at += size) {
        size = fives-- > 0 ? 5 : 4;
        for (int band = 0; band < bands; band++)
            for (int row = 0; row < size; row++) *to++ = rows[(at + row) * bands + band];
    }
    return to;
}

typedef struct {
    const background *ground;
    int bands;
    float *rows, *weight, *offset;
} packer;

/* One row of weights in the live bands, and what to subtract from its response. */
static void set_row(packer *with, int row, const double *weight, double offset) {
    for (int i = 0; i < with->ground->live; i++)
        with->rows[row * with->bands + with->ground->band[i]] = (float)weight[i];
    with->offset[row] = -(float)offset;
}

static void begin_rows(packer *with, int padded) {
    memset(with->rows, 0, sizeof(float) * (size_t)(padded * with->bands));
    memset(with->offset, 0, sizeof(float) * (size_t)padded);
}

static void end_rows(packer *with, int padded) {
    with->weight = pack(with->rows, padded, with->bands, with->weight);
    with->offset += padded;
}

static void pack_filter(packer *with, const model *of) {
    const background *ground = with->ground;
    for (int first = 0; first < of->levels; first += 4) {
        begin_rows(with, 4);
        for (int i = 0; i < 4 && first + i < of->levels; i++)
            set_row(with, i, ground->weight + (first + i) * ground->live, ground->level[OFFSET * of->levels + first + i]);
        end_rows(with, 4);
    }
    const int padded = packed_rows(1 + ground->directions);
    begin_rows(with, padded);
    set_row(with, 0, ground->neighbour, ground->told[NEIGHBOUR_MEAN]);
    for (int i = 0; i < ground->directions; i++)
        set_row(with, 1 + i, ground->direction + i * ground->live, ground->along_mean[i]);
    end_rows(with, padded);
}

/* Functions of wavelength, and their variance by shot and read-out noise. */
static void pack_functions(packer *with, const model *of, float *noise) {
    const background *ground = with->ground;
    const int padded = packed_rows(of->functions);
    double row[MOST_BANDS];
    begin_rows(with, padded);
    for (int f = 0; f < of->functions; f++) {
        double shot = 0.0, read_out = 0.0;
        for (int i = 0; i < ground->live; i++) {
            row[i] = of->function[f * of->bands + ground->band[i]];
            shot += row[i] * row[i] * ground->law[ground->live + i];
            read_out += row[i] * row[i] * ground->law[i];
        }
        set_row(with, f, row, product(row, ground->mean, ground->live));
        noise[f] = (float)shot;
        noise[of->functions + f] = (float)read_out;
    }
    end_rows(with, padded);
}

static void pack_windows(packer *with, const model *of, statistics *room) {
    const background *ground = with->ground;
    const int padded = packed_rows(of->windows);
    const double *row = window_filters(room, of, ground);
    for (int anchor = 0; anchor < of->anchors; anchor++) {
        begin_rows(with, padded);
        for (int window = 0; window < of->windows; window++, row += ground->live)
            set_row(with, window, row, product(row, ground->mean, ground->live));
        end_rows(with, padded);
    }
}

static void project(
    tile_planes *to, const model *of, const tile_view *tile, const background *ground, const float *noise, int32_t threads) {
    float tables[2 * MOST_LEVELS] = {0}, along[4 * DIRECTIONS];
    const int levels = fours(of->levels), count = ground->directions;
    for (int i = 0; i < of->levels; i++) {
        tables[i] = (float)ground->level[GAIN * of->levels + i];
        tables[levels + i] = (float)ground->level[SIGMA_OF * of->levels + i];
    }
    for (int i = 0; i < count; i++) {
        along[i] = (float)ground->clutter[i];
        along[count + i] = (float)ground->read_out[i];
        along[2 * count + i] = (float)ground->shot[i];
        along[3 * count + i] = (float)ground->methane[i];
    }
    project_spectra_baseline(
        threads, tile->rows, tile->cols, of->bands, tile->radiance, tile->band_stride, tile->row_stride, tile->ring,
        tile->begin, tile->usable, ground->light, ground->factor, ground->limits, of->levels, count, to->weight, to->offset,
        tables, (float)ground->first_log, (float)(1.0 / ground->step_log), along, (float)(1.0 / (count * ground->told[TYPICAL])),
        to->work, of->functions, of->anchors, of->windows, noise, to->planes, to->windows, to->cols,
        (int64_t)to->rows * to->cols);
}

/* Where a place beyond the edge is in the mirror. */
static int32_t mirrored(int32_t place, int32_t side) {
    int32_t within = place % (2 * side);
    return within < side ? within : 2 * side - 1 - within;
}

/* Continues a plane by its mirror image beyond the tile's edge. */
static void extend(float *plane, const tile_view *tile, int32_t rows, int32_t cols) {
    for (int32_t row = 0; row < tile->rows; row++)
        for (int32_t col = tile->cols; col < cols; col++)
            plane[row * cols + col] = plane[row * cols + mirrored(col, tile->cols)];
    for (int32_t row = tile->rows; row < rows; row++)
        memcpy(plane + row * cols, plane + mirrored(row, tile->rows) * cols, sizeof(float) * (size_t)cols);
}

static int make_fields(tile_planes *to, const model *of, const tile_view *tile, int32_t threads) {
    const float constants[5] = {(float)of->reference_ppm_m, (float)of->tiny, (float)of->most_sigma_ppm_m,
                                (float)of->most_share, (float)of->clutter_clip};
    const int64_t plane = (int64_t)to->rows * to->cols;
    float factors[MOST_GAUSSIANS], *fields = to->planes + of->functions * plane;
    if (filter_planes_baseline(
            threads, tile->rows, tile->cols, to->found, constants, of->gaussians, of->reach, of->taps, of->all_taps, fields,
            fields + of->fields * plane, to->windows, of->windows, to->cols, plane, to->significance, to->sigma, to->work,
            line_of(tile->cols), factors))
        return 1;
    for (int i = 0; i < of->functions + of->fields + of->windows; i++)
        extend(to->planes + i * plane, tile, to->rows, to->cols);
    for (int i = 0; i < of->windows; i++) extend(to->windows + i * plane, tile, to->rows, to->cols);
    extend(to->significance, tile, to->rows, to->cols);
    extend(to->sigma, tile, to->rows, to->cols);
    return 0;
}

int make_planes(
    tile_planes *to, statistics *with, const model *of, const tile_view *tile, int32_t threads, background *ground) {
    float noise[2 * MOST_RESPONSES], widening[2];
    if (learn_background(with, of, tile, threads, ground)) return 1;
    packer rows = {ground, of->bands, to->rows_to_pack, to->weight, to->offset};
    pack_filter(&rows, of);
    pack_functions(&rows, of, noise);
    pack_windows(&rows, of, with);
    to->rows = strides(tile->rows);
    to->cols = strides(tile->cols);
    project(to, of, tile, ground, noise, threads);
    for (int32_t i = 0; i < tile->rows * tile->cols; i++)
        if (!isfinite(to->work[i])) return 1;
    widening[0] = (float)ground->told[WIDENING];
    widening[1] = (float)ground->told[WIDENING + 1];
    finish_spectra_baseline(
        threads, tile->rows, tile->cols, to->work, ground->limits, widening, ground->curve, CURVE_NODES, ground->curve_step,
        to->found);
    return make_fields(to, of, tile, threads);
}
