/* A tile's background in passes, each without the plumes found before: `flame.filters.noise_aware.background`. */
#include <math.h>
#include <string.h>

#include "fit.h"
#include "linear.h"
#include "ordering.h"

enum { MOST_TAPS_SIDE = 256 };
static const float PLUME_PRIOR_PPM_M = 2000.0f;

void reserve_background(arena *from, const model *of, background *to) {
    const size_t bands = (size_t)of->bands;
    to->band = TAKE(from, int32_t, bands);
    to->light = TAKE(from, float, bands);
    to->factor = TAKE(from, float, bands);
    to->spectrum = TAKE(from, double, bands);
    to->mean = TAKE(from, double, bands);
    to->mean_noise = TAKE(from, double, bands);
    to->law.read_out = TAKE(from, double, bands);
    to->law.shot = TAKE(from, double, bands);
    to->law.doubtful = TAKE(from, uint8_t, bands);
    to->neighbour = TAKE(from, double, bands);
    to->covariance = TAKE(from, double, bands * bands);
    to->weight = TAKE(from, double, (size_t)of->levels * bands);
    to->direction = TAKE(from, double, DIRECTIONS * bands);
}

/* A Gaussian cut off at three standard deviations, of sum 1; how far it reaches. */
static int make_taps(double sigma, float *taps) {
    int reach = sigma > 0.2 ? (int)ceil(3.0 * sigma) : 0;
    double sum = 0.0;
    for (int i = -reach; i <= reach; i++) sum += exp(-0.5 * (i / sigma) * (i / sigma));
    for (int i = -reach; i <= reach; i++) taps[reach + i] = (float)(exp(-0.5 * (i / sigma) * (i / sigma)) / sum);
    return reach;
}

/* Averages an image with the taps, or their squares, along columns (`apart` 1) or rows; nothing lies beyond the edges. */
static void blur(
    const float *from, float *to, int32_t lines, int32_t length, int32_t next_line, int32_t apart, const float *taps, int reach,
    int squared) {
    for (int32_t line = 0; line < lines; line++)
        for (int32_t at = 0; at < length; at++) {
            double sum = 0.0;
            int32_t low = at < reach ? -at : -reach, high = length - 1 - at < reach ? length - 1 - at : reach;
            for (int32_t i = low; i <= high; i++) {
                float tap = squared ? taps[reach + i] * taps[reach + i] : taps[reach + i];
                sum += (double)tap * (double)from[line * next_line + (at + i) * apart];
            }
            to[line * next_line + at * apart] = (float)sum;
        }
}

void find_plume(statistics *with, const model *of) {
    const int32_t rows = with->rows, cols = with->cols, size = rows * cols;
    float down[2 * MOST_TAPS_SIDE + 1], across[2 * MOST_TAPS_SIDE + 1], *between = with->images[3];
    const int reach_down = make_taps(of->smoothing_px / with->step, down);
    const int reach_across = make_taps(of->smoothing_px, across);
    float *total = with->images[0], *weighted = with->images[1], *squared = with->images[2];
    memset(total, 0, sizeof(float) * (size_t)size);
    memset(weighted, 0, sizeof(float) * (size_t)size);
    for (int32_t i = 0; i < with->count; i++) {
        int32_t place = with->place[with->order[i]];
        total[place] = 1.0f / (with->sigma[i] * with->sigma[i]);
        weighted[place] = total[place] * with->estimate[i];
    }
    blur(total, between, cols, rows, 1, cols, down, reach_down, 1);
    blur(between, squared, rows, cols, cols, 1, across, reach_across, 1);
    blur(total, between, cols, rows, 1, cols, down, reach_down, 0);
    blur(between, total, rows, cols, cols, 1, across, reach_across, 0);
    blur(weighted, between, cols, rows, 1, cols, down, reach_down, 0);
    blur(between, weighted, rows, cols, cols, 1, across, reach_across, 0);
    for (int32_t i = 0; i < with->count; i++) {
        int32_t place = with->place[with->order[i]];
        with->some[i] = with->more[i] = weighted[place] / sqrtf(squared[place]); /* mean over its standard deviation */
    }
    /* Noise is independent from pixel to pixel, ground is not: sigma grows to the spread that is really there. */
    float middle = median_of(with->more, with->count), honest;
    for (int32_t i = 0; i < with->count; i++) with->more[i] = fabsf(with->some[i] - middle);
    honest = (float)fmax(1.0, 1.4826 * (double)median_of(with->more, with->count));
    for (int32_t i = 0; i < with->count; i++) {
        int32_t place = with->place[with->order[i]];
        float mean = weighted[place] / total[place], spread = sqrtf(squared[place]) / total[place] * honest;
        float share = spread / PLUME_PRIOR_PPM_M, sure = mean / spread - (float)(of->plume_significance - 0.5);
        sure = sure > 0.0f ? sure < 1.0f ? sure : 1.0f : 0.0f;
        with->plume[i] = mean / (1.0f + share * share) * sure;
    }
}

/* True enhancement against what a linear filter reads: absorption lines saturate, weights do not know it. */
static int find_saturation(statistics *with, const model *of, background *to) {
    const double *weight = to->weight + 2 * of->levels / 3 * to->live;
    double *reading = with->work[0], *curve = with->work[1], top = 0.0;
    int used = 0, *kept = (int *)(void *)with->work[2];
    for (int node = 0; node < of->nodes; node++) {
        reading[node] = 0.0;
        for (int i = 0; i < to->live; i++) reading[node] += weight[i] * of->log_transmittance[to->band[i] * of->nodes + node];
        if (node && !(reading[node] > top)) continue;
        top = reading[node];
        kept[used++] = node;
    }
    if (used < 2 || !isfinite(top)) return 1;
    const double step = top / (CURVE_NODES - 1);
    for (int i = 0, at = 0; i < CURVE_NODES; i++) {
        double here = i == CURVE_NODES - 1 ? top : i * step;
        while (at < used - 2 && reading[kept[at + 1]] <= here) at++;
        double low = reading[kept[at]], high = reading[kept[at + 1]];
        double share = (here - low) / (high - low), below = of->enhancement[kept[at]];
        share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
        curve[i] = below + (of->enhancement[kept[at + 1]] - below) * share;
        to->curve[i] = (float)curve[i];
    }
    for (int i = 0; i < CURVE_NODES; i++) {
        int before = i ? i - 1 : 0, after = i < CURVE_NODES - 1 ? i + 1 : i;
        to->curve[CURVE_NODES + i] = (float)((curve[after] - curve[before]) / ((after - before) * step));
    }
    to->curve_step = (float)step;
    return 0;
}

static double median_of_bands(const double *values, int n, double *room) {
    memcpy(room, values, sizeof(double) * (size_t)n);
    return median_of_doubles(room, n);
}

/* The brightness below which half of the bands are noisier than they may be. */
static void set_darkest(statistics *with, const model *of, background *to) {
    double read_out = median_of_bands(to->law.read_out, to->live, with->work[0]);
    double shot = median_of_bands(to->law.shot, to->live, with->work[0]), limit = of->max_log_noise * of->max_log_noise;
    /* read_out / r^2 + shot / r = limit */
    double darkest = (shot + sqrt(shot * shot + 4.0 * limit * read_out)) / (2.0 * limit);
    to->limits[0] = (float)fmax(of->min_albedo, darkest);
}

int learn_background(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to) {
    if (draw_sample(with, of, tile, threads, to)) return 1;
    bin_sample(with, of, to->live, threads);
    memset(with->plume, 0, sizeof(float) * (size_t)with->count);
    for (int pass = 0; pass < of->passes; pass++) {
        int last = pass == of->passes - 1;
        if (fit_filter(with, of, pass == 0, last, to)) return 1;
        if (!last) find_plume(with, of);
    }
    if (find_anomalies(with, to) || find_saturation(with, of, to)) return 1;
    set_darkest(with, of, to);
    return 0;
}
