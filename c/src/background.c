/* A tile's background in passes, each without the plumes found before: `flame.filters.noise_aware.background`. */
#include <math.h>
#include <string.h>

#include "../../src/flame/kernels/ordering.h"
#include "sampling.h"

static const double LOW_END = 0.002, HIGH_END = 0.998;

void reserve_background(arena *from, const model *of, background *to) {
    const size_t bands = (size_t)of->bands;
    to->band = TAKE(from, int32_t, bands);
    to->light = TAKE(from, float, bands);
    to->factor = TAKE(from, float, bands);
    to->spectrum = TAKE(from, double, bands);
    to->law = TAKE(from, double, 2 * bands);
    to->doubtful = TAKE(from, uint8_t, bands);
    to->mean = TAKE(from, double, bands);
    to->mean_noise = TAKE(from, double, bands);
    to->neighbour = TAKE(from, double, bands);
    to->covariance = TAKE(from, double, bands * bands);
    to->weight = TAKE(from, double, (size_t)of->levels * bands);
    to->level = TAKE(from, double, TABLES * (size_t)of->levels);
    to->direction = TAKE(from, double, DIRECTIONS * bands);
}

void reserve_statistics(arena *from, const model *of, statistics *to) {
    reserve_sample(from, of, to);
    const learning most = {.bands = of->bands, .parts = 2, .bins = of->bins, .levels = of->levels, .rows = of->tile,
                           .cols = of->tile, .count = to->capacity};
    learn_room_baseline(&most, to->reserved);
    to->room = TAKE(from, double, to->reserved[0]);
    to->pixels = TAKE(from, float, to->reserved[1]);
    to->lent = TAKE(from, double, (size_t)of->levels * (size_t)of->levels);
    to->reading = TAKE(from, double, (size_t)of->nodes);
    to->kept = TAKE(from, int32_t, (size_t)of->nodes);
    reserve_shrinkage(from, of, to);
    reserve_windows(from, of, to);
}

/* A Gaussian cut off at three standard deviations, of sum 1; how far it reaches. */
static int make_taps(double sigma, float *taps) {
    int reach = sigma > 0.2 ? (int)ceil(3.0 * sigma) : 0;
    double sum = 0.0;
    for (int i = -reach; i <= reach; i++) sum += exp(-0.5 * (i / sigma) * (i / sigma));
    for (int i = -reach; i <= reach; i++) taps[reach + i] = (float)(exp(-0.5 * (i / sigma) * (i / sigma)) / sum);
    return reach;
}

/* True enhancement against what a linear filter reads: absorption lines saturate, weights do not know it. */
static int find_saturation(statistics *with, const model *of, background *to) {
    const double *weight = to->weight + 2 * of->levels / 3 * to->live;
    double *reading = with->reading, curve[CURVE_NODES], top = 0.0;
    int32_t used = 0, *kept = with->kept;
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

static double median_of_bands(const double *values, int n) {
    double sorted[MOST_BANDS];
    memcpy(sorted, values, sizeof(double) * (size_t)n);
    return median_of_doubles(sorted, n);
}

/* The brightness below which half of the bands are noisier than they may be. */
static void set_darkest(const model *of, background *to) {
    double read_out = median_of_bands(to->law, to->live), shot = median_of_bands(to->law + to->live, to->live);
    double limit = of->max_log_noise * of->max_log_noise;
    /* read_out / r^2 + shot / r = limit */
    double darkest = (shot + sqrt(shot * shot + 4.0 * limit * read_out)) / (2.0 * limit);
    to->limits[0] = (float)fmax(of->min_albedo, darkest);
}

/* A quantile of the sorted brightness. */
static double quantile(const statistics *with, double share) {
    double place = share * (with->count - 1);
    int32_t below = (int32_t)place, above = below + 1 < with->count ? below + 1 : below;
    double low = with->sorted[below];
    return low + ((double)with->sorted[above] - low) * (place - below);
}

/* Where the levels stand, what they lend each other, and each pixel's place between them. */
static void set_levels(statistics *with, const model *of, background *to) {
    const double low = log(quantile(with, LOW_END)), high = fmax(log(quantile(with, HIGH_END)), low + 0.01);
    const int levels = of->levels;
    to->first_log = low;
    to->step_log = (high - low) / (levels - 1);
    for (int level = 0; level < levels; level++) {
        with->level_brightness[level] = exp(low + level * to->step_log);
        for (int other = 0; other < levels; other++)
            with->lent[level * levels + other] = exp(-(double)(level - other) * (level - other));
    }
    for (int32_t i = 0; i < with->count; i++) {
        float place = (logf(with->sorted[i]) - (float)to->first_log) / (float)to->step_log;
        place = place > 0.0f ? place : 0.0f;
        with->level[i] = place < (float)(levels - 1) ? place : (float)(levels - 1);
    }
}

/* All that the kernels are given, and where they put what they find. */
static void describe(statistics *with, const model *of, int32_t threads, background *to) {
    double shrinkage = 0.0;
    if (with->count < PIXELS_PER_BAND * to->live)
        shrinkage = of->shrinkage < 0.0 ? leave_one_out_shrinkage(with, to->live) : of->shrinkage;
    with->learned = (learning){
        .threads = threads, .bands = to->live, .parts = 1 + with->neighbours, .bins = with->bins, .levels = of->levels,
        .passes = of->passes, .rows = with->rows, .cols = with->cols,
        .reach_down = make_taps(of->smoothing_px / with->step, with->down),
        .reach_across = make_taps(of->smoothing_px, with->across), .count = with->count, .side = with->side,
        .ring_noise = with->ring_noise, .plume_significance = of->plume_significance, .shrinkage = shrinkage,
        .chunks = with->chunks, .brightness = with->sorted, .place = with->level, .order = with->order,
        .edges = with->edges, .number = with->number, .inverse = with->inverse, .inverse_square = with->inverse_square,
        .first = with->first, .second = with->second, .spectrum = to->spectrum,
        .level_brightness = with->level_brightness, .lent = with->lent, .down = with->down, .across = with->across,
        .law = to->law, .mean = to->mean, .covariance = to->covariance, .mean_noise = to->mean_noise,
        .weight = to->weight, .level = to->level, .neighbour = to->neighbour, .direction = to->direction,
        .clutter = to->clutter, .told = to->told, .doubtful = to->doubtful, .room = with->room,
        .pixels = with->pixels, .places = with->places};
}

/* What the mean spectrum, methane and noise have along the directions. */
static void describe_directions(background *to) {
    const int n = to->live;
    to->directions = n < DIRECTIONS ? n : DIRECTIONS;
    for (int i = 0; i < to->directions; i++) {
        const double *direction = to->direction + i * n;
        to->along_mean[i] = product(direction, to->mean, n);
        to->methane[i] = product(direction, to->spectrum, n);
        to->read_out[i] = to->shot[i] = 0.0;
        for (int band = 0; band < n; band++) {
            to->read_out[i] += direction[band] * direction[band] * to->law[band];
            to->shot[i] += direction[band] * direction[band] * to->law[n + band];
        }
    }
}

int learn_background(statistics *with, const model *of, const tile_view *tile, int32_t threads, background *to) {
    int64_t needs[2];
    if (draw_sample(with, of, tile, threads, to)) return 1;
    bin_sample(with, of, to->live, threads);
    set_levels(with, of, to);
    describe(with, of, threads, to);
    learn_room_baseline(&with->learned, needs);
    if (needs[0] > with->reserved[0] || needs[1] > with->reserved[1]) return 1; /* never: the most was reserved */
    if (learn_filter_baseline(&with->learned)) return 1;
    describe_directions(to);
    set_darkest(of, to);
    return find_saturation(with, of, to);
}
