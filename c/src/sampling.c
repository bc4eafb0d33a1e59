#include "sampling.h"

#include <math.h>
#include <string.h>

#include "../../src/flame/kernels/ordering.h"

enum { ROWS_AT_ONCE = 8 };
static const double DEAD_BAND = 1e-6;
static const float FLOOR = 0.2f;

/* The most pixels that a sample of some rows can have: every k-th row, k the number of pixels over those wanted. */
static int32_t most_sampled(const model *of) {
    int64_t most = 0, side = of->tile;
    for (int64_t step = 1; step <= side; step++) {
        int64_t held = (side + step - 1) / step * side, pixels = (int64_t)of->sample_pixels * (step + 1) - 1;
        int64_t here = held < pixels ? held : pixels;
        most = here > most ? here : most;
    }
    return (int32_t)(most < side * side ? most : side * side);
}

void reserve_sample(arena *from, const model *of, statistics *to) {
    const size_t side = (size_t)of->tile, bands = (size_t)of->bands, all = 2 * bands;
    const size_t chunks = ((size_t)most_sampled(of) + CHUNK - 1) / CHUNK, pixels = chunks * CHUNK;
    const size_t bins = (size_t)of->bins, padded = (all + SUM_STEP - 1) / SUM_STEP * SUM_STEP;
    to->capacity = (int32_t)pixels;
    to->row_spectra = TAKE(from, float, 2 * bands * ROWS_AT_ONCE * side);
    to->row_images = TAKE(from, float, 4 * ROWS_AT_ONCE * side);
    to->brightness = TAKE(from, float, pixels);
    to->noise = TAKE(from, float, pixels);
    to->own = TAKE(from, float, bands * pixels);
    to->ring = TAKE(from, float, bands * pixels);
    to->line = TAKE(from, float, side);
    to->has_ring = TAKE(from, uint8_t, pixels);
    to->sorted_ring = TAKE(from, uint8_t, pixels);
    to->row = TAKE(from, int32_t, side);
    to->place = TAKE(from, int32_t, pixels);
    to->places = TAKE(from, int32_t, 2 * pixels);
    to->reference = TAKE(from, double, bands);
    to->total = TAKE(from, double, bands);
    to->order = TAKE(from, int64_t, pixels);
    to->sorted = TAKE(from, float, pixels);
    to->level = TAKE(from, float, pixels);
    to->chunks = TAKE(from, float, chunks * all * CHUNK);
    to->first = TAKE(from, double, bins * all);
    to->second = TAKE(from, double, bins * padded * padded);
}

static const float *row_at(const tile_view *tile, int32_t row) {
    return tile->radiance + (row + tile->begin) % tile->ring * tile->row_stride;
}

/* Which rows to look at. */
static int choose_rows(statistics *with, const model *of, const tile_view *tile) {
    int32_t held = 0, valid = 0;
    for (int32_t row = 0; row < tile->rows; row++) {
        int32_t here = 0;
        for (int32_t col = 0; col < tile->cols; col++) here += tile->usable[row * tile->cols + col];
        if (here) with->row[held++] = row;
        valid += here;
    }
    with->step = valid / of->sample_pixels > 1 ? valid / of->sample_pixels : 1;
    with->cols = tile->cols;
    with->rows = held;
    if (held > with->step) {
        with->rows = 0;
        for (int32_t i = (with->step - 1) / 2; i < held; i += with->step) with->row[with->rows++] = with->row[i];
    }
    return valid == 0;
}

/* Mean spectrum of the chosen rows' pixels that are not far brighter than `before` says; 1 if none are lit. */
static int find_mean(statistics *with, const tile_view *tile, int bands, const double *before, double most, int32_t *left) {
    double *sum = with->total, norm = before ? product(before, before, bands) : 1.0;
    int32_t count = 0, bright = 0;
    memset(sum, 0, sizeof(double) * (size_t)bands);
    for (int32_t i = 0; i < with->rows; i++) {
        const float *line = row_at(tile, with->row[i]);
        const uint8_t *usable = tile->usable + with->row[i] * tile->cols;
        float *albedo = with->line;
        memset(albedo, 0, sizeof(float) * (size_t)tile->cols);
        for (int band = 0; before && band < bands; band++) {
            const float *from = line + band * tile->band_stride, share = (float)(before[band] / norm);
            for (int32_t col = 0; col < tile->cols; col++) albedo[col] += usable[col] ? from[col] * share : 0.0f;
        }
        for (int32_t col = 0; col < tile->cols; col++) {
            int taken = usable[col] && !(albedo[col] > (float)most);
            bright += usable[col] && !taken;
            albedo[col] = taken ? 1.0f : 0.0f;
            count += taken;
        }
        for (int band = 0; band < bands; band++) {
            const float *from = line + band * tile->band_stride;
            double here = 0.0;
            for (int32_t col = 0; col < tile->cols; col++) here += albedo[col] > 0.0f ? (double)from[col] : 0.0;
            sum[band] += here;
        }
    }
    *left = count;
    double light = 0.0;
    for (int band = 0; band < bands; band++) light += sum[band] /= count ? count : 1;
    return !count || !isfinite(light) || light <= 0.0 || bright * most > 2.0 * (count + bright);
}

/* The mean spectrum of all pixels that are not saturated or broken. */
static int find_reference(statistics *with, const tile_view *tile, const model *of) {
    const size_t size = sizeof(double) * (size_t)of->bands;
    int32_t count, left;
    if (find_mean(with, tile, of->bands, NULL, of->max_albedo, &count)) return 1;
    for (;;) {
        memcpy(with->reference, with->total, size);
        if (find_mean(with, tile, of->bands, with->reference, of->max_albedo, &left)) return 1;
        if (left >= count) return 0;
        count = left;
    }
}

/* Bands that vary. */
static int find_live(statistics *with, const tile_view *tile, const model *of, background *to) {
    double most = 0.0;
    int32_t count = 0;
    to->live = 0;
    for (int band = 0; band < of->bands; band++) most = fmax(most, with->reference[band]);
    for (int band = 0; band < of->bands; band++) {
        double sum = 0.0, square = 0.0, reference = with->reference[band];
        count = 0;
        for (int32_t i = 0; i < with->rows; i++) {
            const float *from = row_at(tile, with->row[i]) + band * tile->band_stride;
            const uint8_t *usable = tile->usable + with->row[i] * tile->cols;
            for (int32_t col = 0; col < tile->cols; col++) {
                double value = usable[col] ? (double)from[col] - reference : 0.0;
                sum += value;
                square += value * value;
                count += usable[col];
            }
        }
        double spread = sqrt(fmax(square / count - sum / count * (sum / count), 0.0));
        if (spread > DEAD_BAND * fmax(reference, DEAD_BAND * most) && reference > 0.0) to->band[to->live++] = band;
    }
    return count < 2 || !to->live;
}

static void set_scale(const statistics *with, const model *of, background *to) {
    double total = 0.0, most = 0.0;
    for (int i = 0; i < to->live; i++) {
        total += with->reference[to->band[i]];
        most = fmax(most, with->reference[to->band[i]]);
    }
    memset(to->light, 0, sizeof(float) * (size_t)of->bands);
    memset(to->factor, 0, sizeof(float) * (size_t)of->bands);
    for (int i = 0; i < to->live; i++) {
        int32_t band = to->band[i];
        to->light[band] = (float)(1.0 / total);
        to->factor[band] = (float)(1.0 / fmax(with->reference[band], 1e-3 * most));
        to->spectrum[i] = of->absorption[band];
    }
    to->limits[0] = (float)of->min_albedo;
    to->limits[1] = (float)of->max_albedo;
    to->limits[2] = FLOOR;
}

/* Keeps the usable pixels of some rows. */
static int keep_pixels(statistics *with, int live, int32_t first, int32_t rows) {
    const int32_t layer = rows * with->cols;
    const float *images = with->row_images;
    for (int32_t at = 0; at < layer; at++) {
        if (!(images[2 * layer + at] > 0.0f)) continue;
        if (with->count == with->capacity) return 1;
        int32_t to = with->count++;
        with->brightness[to] = images[at];
        with->noise[to] = images[layer + at];
        with->has_ring[to] = images[3 * layer + at] > 0.0f;
        with->place[to] = first * with->cols + at;
        for (int band = 0; band < live; band++) {
            with->own[(size_t)band * (size_t)with->capacity + (size_t)to] = with->row_spectra[band * layer + at];
            with->ring[(size_t)band * (size_t)with->capacity + (size_t)to] = with->row_spectra[(live + band) * layer + at];
        }
    }
    return 0;
}

int draw_sample(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to) {
    if (choose_rows(with, of, tile) || find_reference(with, tile, of) || find_live(with, tile, of, to)) return 1;
    set_scale(with, of, to);
    with->count = 0;
    for (int32_t first = 0; first < with->rows; first += ROWS_AT_ONCE) {
        int32_t rows = with->rows - first < ROWS_AT_ONCE ? with->rows - first : ROWS_AT_ONCE;
        sample_spectra_baseline(
            threads, tile->rows, tile->cols, tile->radiance, tile->band_stride, tile->row_stride, tile->ring, tile->begin,
            tile->usable, with->row + first, rows, to->band, to->live, to->light, to->factor, to->limits,
            with->row_spectra, with->row_images);
        if (keep_pixels(with, to->live, first, rows)) return 1;
    }
    return with->count == 0;
}

/* How many bins, and whether the neighbours are asked: both take enough pixels a band. */
static int decide_bins(statistics *with, const model *of, int live) {
    const int32_t each = PIXELS_PER_BAND * live;
    int32_t ringed = 0, bins = with->count / each;
    float *noise = with->level; /* which is found later */
    for (int32_t i = 0; i < with->count; i++)
        if (with->has_ring[i]) noise[ringed++] = with->noise[i];
    with->neighbours = of->neighbours && ringed >= 2 * each;
    with->ring_noise = with->neighbours ? (double)median_of(noise, ringed) : 1.0;
    return bins > of->bins ? of->bins : bins > 1 ? bins : 1;
}

void bin_sample(statistics *with, const model *of, int live, int32_t threads) {
    const int32_t chunks = (with->count + CHUNK - 1) / CHUNK;
    int bins = decide_bins(with, of, live);
    bins = bins < chunks ? bins : chunks;
    with->bins = bins;
    with->side = ((1 + with->neighbours) * live + SUM_STEP - 1) / SUM_STEP * SUM_STEP;
    sort_places(with->brightness, with->places, with->places + with->count, with->count);
    for (int32_t i = 0; i < with->count; i++) {
        with->order[i] = with->places[i];
        with->sorted[i] = with->brightness[with->places[i]];
        with->sorted_ring[i] = with->has_ring[with->places[i]];
    }
    for (int i = 0; i <= bins; i++) with->edges[i] = i == bins ? chunks : (int64_t)rint(i * ((double)chunks / bins));
    bin_spectra_baseline(
        threads, bins, with->count, with->capacity, live, 1 + with->neighbours, with->own, with->ring, with->order,
        with->sorted_ring, with->edges, with->chunks, with->first, with->second);
    for (int32_t i = 0; i < with->count; i++) with->order[i] = with->place[with->places[i]];
    for (int bin = 0; bin < bins; bin++) {
        int64_t first = with->edges[bin] * CHUNK, last = with->edges[bin + 1] * CHUNK;
        double inverse = 0.0, square = 0.0;
        last = last < with->count ? last : with->count;
        for (int64_t i = first; i < last; i++) {
            double each = 1.0 / (double)with->sorted[i];
            inverse += each;
            square += each * each;
        }
        with->number[bin] = (double)(last - first);
        with->inverse[bin] = inverse / with->number[bin];
        with->inverse_square[bin] = square / with->number[bin];
    }
}
