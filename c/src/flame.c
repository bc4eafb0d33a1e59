/* The stream: lines in, tiles judged as soon as they are whole, finished rows to plumes, plumes to packets. */
#include "../include/flame.h"

#include <math.h>
#include <string.h>

#include "arena.h"
#include "model.h"
#include "packets.h"
#include "stitcher.h"
#include "tile_planes.h"
#include "tracker.h"
#include "unet.h"

enum { REACH = 2 /* rows that an opening by a cross looks up and down */, DEFAULT_APID = 0x2A0, LAST_APID = 0x7FF - 5 };
enum { DEFAULT_PLUME_LINES = 2048, MOST_PLUME_LINES = 32768, DEFAULT_BLOCK = 64, LINE_COLUMNS = 16384 };
enum { USABLE = 1 };
static const float FILL_BELOW = -900.0f;

struct flame {
    model model;
    const void *image;
    size_t image_bytes;
    flame_options options;
    flame_counts counts;
    float threshold, core_sigmas; /* no core if not above 0 */
    float *radiance; /* (band, row, col), a ring of rows */
    uint8_t *valid, *usable, *tile_usable;
    int64_t lines, tiles;
    statistics statistics;
    background ground;
    tile_planes planes;
    network network;
    stitcher stitcher;
    tracker tracker;
    /* Rows that wait for the opening, and those above that it looks at. */
    float *probability, *score_ppm_m;
    uint8_t *judged, *mask, *eroded; /* judged: USABLE, and CORE where the enhancement is sure enough */
    int64_t first_row;
    int32_t rows, context;
    uint32_t scene, plumes;
    uint16_t count;
    uint8_t plume_bytes[MOST_PLUME], packet_bytes[MOST_PACKET];
};

const char *flame_words(flame_status status) {
    switch (status) {
    case FLAME_OK: return "done";
    case FLAME_UNUSABLE_LINE: return "the line was taken, but no pixel of it can be used";
    case FLAME_UNJUDGED_TILE: return "the line was taken, but a tile could not be judged; its mask is empty";
    case FLAME_NO_ARGUMENT: return "a pointer that is needed is NULL";
    case FLAME_NO_MODEL: return "the model image does not begin like one; write it with `flame export-flight`";
    case FLAME_OTHER_VERSION: return "the model image is of another version; write it again with the flame of this library";
    case FLAME_DAMAGED_MODEL: return "the model image is damaged: its length or its checksum is not what it says";
    case FLAME_IMPOSSIBLE_MODEL: return "the model image describes no network that this library has room for";
    case FLAME_MISPLACED_MODEL: return "the model image must stand at a multiple of 8 bytes";
    case FLAME_BAD_OPTIONS: return "an option is out of its range";
    case FLAME_SMALL_ARENA: return "the arena is smaller than flame_arena_bytes says";
    case FLAME_OTHER_BANDS: return "the line has not as many bands as the model";
    case FLAME_OTHER_COLUMNS: return "the line has not as many columns as was said when the stream was opened";
    }
    return "no known status";
}

static flame_status settle(const flame_options *given, flame_options *to) {
    *to = *given;
    to->threads = to->threads ? to->threads : 1;
    to->most_plume_lines = to->most_plume_lines ? to->most_plume_lines : DEFAULT_PLUME_LINES;
    to->raw_block = to->raw_block ? to->raw_block : DEFAULT_BLOCK;
    to->first_apid = to->first_apid ? to->first_apid : DEFAULT_APID;
    int right = to->columns >= 1 && to->columns <= LINE_COLUMNS && to->threads <= MOST_THREADS &&
                to->most_plume_lines <= MOST_PLUME_LINES && to->raw_block <= 65536 && to->first_apid <= LAST_APID &&
                to->threshold >= 0.0f && to->threshold < 1.0f && to->core_sigmas <= (float)MOST_CORE_SIGMAS;
    return !to->packet ? FLAME_NO_ARGUMENT : right ? FLAME_OK : FLAME_BAD_OPTIONS;
}

static void reserve(arena *from, flame *to) {
    const model *of = &to->model;
    const size_t tile = (size_t)of->tile, cols = to->options.columns, held = (tile + 2 * REACH) * cols;
    to->radiance = TAKE(from, float, (size_t)of->bands * tile * cols);
    to->valid = TAKE(from, uint8_t, tile * cols);
    to->usable = TAKE(from, uint8_t, tile * cols);
    to->tile_usable = TAKE(from, uint8_t, tile * tile);
    to->probability = TAKE(from, float, held);
    to->score_ppm_m = TAKE(from, float, held);
    to->judged = TAKE(from, uint8_t, held);
    to->mask = TAKE(from, uint8_t, held);
    to->eroded = TAKE(from, uint8_t, held);
    reserve_background(from, of, &to->ground);
    reserve_packed(from, of, &to->planes);
    reserve_network(from, of, &to->network);
    reserve_stitcher(from, of, (int32_t)cols, &to->stitcher);
    reserve_tracker(
        from, (int32_t)cols, (int32_t)to->options.most_plume_lines, of->tile + 2 * REACH, &to->tracker);
    /* The statistics are done before the planes are made: they share memory. */
    const size_t shared = from->used;
    reserve_statistics(from, of, &to->statistics);
    const size_t one = from->used;
    from->used = shared;
    reserve_planes(from, of, &to->planes);
    from->used = from->used > one ? from->used : one;
}

/* Reads the model and counts the arena; `to` is used as a draft. */
static flame_status prepare(const void *image, size_t bytes, const flame_options *options, flame *to, size_t *needed) {
    if (!image || !options) return FLAME_NO_ARGUMENT;
    memset(to, 0, sizeof(*to));
    flame_status status = settle(options, &to->options);
    if (status == FLAME_OK) status = read_model(image, bytes, &to->model);
    if (status != FLAME_OK) return status;
    arena counting = {NULL, 0};
    take_bytes(&counting, sizeof(flame));
    reserve(&counting, to);
    *needed = counting.used + CACHE_LINE;
    return FLAME_OK;
}

flame_status flame_arena_bytes(const void *image, size_t image_bytes, const flame_options *options, size_t *bytes) {
    flame draft;
    return bytes ? prepare(image, image_bytes, options, &draft, bytes) : FLAME_NO_ARGUMENT;
}

static void begin_scene(flame *of) {
    of->lines = of->tiles = of->first_row = 0;
    of->rows = of->context = 0;
    of->plumes = 0;
    restart_stitcher(&of->stitcher);
    restart_tracker(&of->tracker);
}

static void do_nothing(const void *job, ptrdiff_t first, ptrdiff_t last) {
    (void)job;
    (void)first;
    (void)last;
}

flame_status flame_open(
    const void *image, size_t image_bytes, const flame_options *options, void *memory, size_t bytes, flame **opened) {
    flame draft;
    size_t needed;
    if (!memory || !opened) return FLAME_NO_ARGUMENT;
    flame_status status = prepare(image, image_bytes, options, &draft, &needed);
    if (status != FLAME_OK) return status;
    if (bytes < needed) return FLAME_SMALL_ARENA;
    memset(memory, 0, needed); /* every page is there from now on */
    arena from = {(unsigned char *)memory + (CACHE_LINE - (uintptr_t)memory % CACHE_LINE) % CACHE_LINE, 0};
    flame *to = TAKE(&from, flame, 1);
    *to = draft;
    reserve(&from, to);
    to->image = image;
    to->image_bytes = image_bytes;
    to->threshold = to->options.threshold > 0.0f ? to->options.threshold : (float)to->model.threshold;
    to->core_sigmas = to->options.core_sigmas != 0.0f ? to->options.core_sigmas
                      : to->options.threshold > 0.0f  ? 0.0f
                                                      : (float)to->model.core_sigmas;
    to->tracker.take_lines = !(to->core_sigmas > 0.0f);
    to->scene = to->options.scene;
    begin_scene(to);
    const int32_t threads = (int32_t)to->options.threads;
    flame_share_rows(threads, 2 * threads, 1, do_nothing, NULL); /* threads start now, not with the first tile */
    *opened = to;
    return FLAME_OK;
}

static void send_plume(void *user, plume *found) {
    flame *of = user;
    found->scene = of->scene;
    found->number = of->plumes++;
    found->raw_block = of->options.raw_block;
    of->counts.plumes++;
    size_t bytes = encode_plume(found, of->plume_bytes);
    if (!bytes) {
        of->counts.dropped++;
        return;
    }
    bytes = encode_space_packet(
        of->options.first_apid, of->count, of->plume_bytes, bytes, of->options.time, of->options.user, of->packet_bytes);
    of->count = (uint16_t)((of->count + 1) & 0x3fff);
    of->counts.packets++;
    of->options.packet(of->options.user, of->packet_bytes, bytes);
}

/* Masks the rows whose opening can be known; the last two wait for the next, and two stay as context. */
static void decide(flame *of, int last) {
    const int32_t cols = (int32_t)of->options.columns, shown = of->context;
    const size_t at = (size_t)shown * (size_t)cols;
    int32_t end = last ? of->rows : of->rows - REACH > shown ? of->rows - REACH : shown;
    open_mask(
        of->probability, of->judged, of->rows, cols, of->threshold, of->model.opening, of->mask, of->eroded);
    if (of->options.lines && end > shown)
        of->options.lines(
            of->options.user, (uint32_t)(of->first_row + shown), (uint32_t)(end - shown), (uint32_t)cols,
            of->probability + at, of->score_ppm_m + at, of->mask + at);
    for (size_t i = at; i < (size_t)end * (size_t)cols; i++)
        if (of->mask[i]) of->mask[i] = (uint8_t)(PLUME | (of->judged[i] & CORE));
    track_rows(
        &of->tracker, of->mask + at, of->probability + at, of->score_ppm_m + at, end - shown, last, send_plume, of);
    of->context = end < REACH ? end : REACH;
    const size_t gone = (size_t)(end - of->context) * (size_t)cols, left = (size_t)(of->rows - end + of->context) * (size_t)cols;
    memmove(of->probability, of->probability + gone, left * sizeof(float));
    memmove(of->score_ppm_m, of->score_ppm_m + gone, left * sizeof(float));
    memmove(of->judged, of->judged + gone, left);
    of->rows -= end - of->context;
    of->first_row += end - of->context;
}

/* Appends the rows that no later tile can change. */
static void settle_rows(flame *of, span rows) {
    const int32_t cols = (int32_t)of->options.columns, count = (int32_t)(rows.settled - of->stitcher.first);
    const uint8_t *usable = of->usable + (of->stitcher.first - rows.start) * cols;
    const float tau = (float)of->model.tau_ppm_m;
    const size_t to = (size_t)of->rows * (size_t)cols;
    for (size_t i = 0; i < (size_t)count * (size_t)cols; i++) {
        float weight = of->stitcher.layer[WEIGHT][i];
        int judged = weight > 0.0f;
        of->probability[to + i] = judged ? of->stitcher.layer[PROBABILITY][i] / weight : 0.0f;
        of->score_ppm_m[to + i] = (judged ? of->stitcher.layer[SCORE][i] / weight : 0.0f) * tau;
        int core = !(of->core_sigmas > 0.0f) || (judged && of->stitcher.layer[SURENESS][i] / weight > of->core_sigmas);
        of->judged[to + i] = (uint8_t)(judged && usable[i] ? USABLE | (core ? CORE : 0) : 0);
    }
    of->rows += count;
    drop_rows(&of->stitcher, count);
}

static int all_finite(const float *layer, int32_t rows, int32_t cols, int32_t apart, const uint8_t *usable) {
    for (int32_t row = 0; row < rows; row++)
        for (int32_t col = 0; col < cols; col++)
            if (usable[row * cols + col] && !isfinite(layer[(size_t)row * (size_t)apart + (size_t)col])) return 0;
    return 1;
}

/* One tile. 0, or 1 if it cannot be judged. */
static int judge_tile(flame *of, span rows, span cols) {
    const model *by = &of->model;
    const int64_t wide = of->options.columns, ring = by->tile;
    const int32_t threads = (int32_t)of->options.threads, high = (int32_t)(rows.stop - rows.start);
    const tile_view tile = {of->radiance + cols.start, ring * wide, wide, ring, rows.start % ring, high,
                            (int32_t)(cols.stop - cols.start), of->tile_usable};
    of->counts.tiles++;
    find_usable(&of->planes, by, &tile, of->valid + cols.start, wide, threads, of->tile_usable);
    for (int32_t row = 0; row < high; row++)
        memcpy(of->usable + row * wide + cols.start, of->tile_usable + row * tile.cols, (size_t)tile.cols);
    int failed = make_planes(&of->planes, &of->statistics, by, &tile, threads, &of->ground);
    if (!failed) {
        const judgement said = run_network(&of->network, by, &of->planes, threads);
        const float *const layers[WEIGHT] = {said.probability, said.enhancement, said.core};
        for (int i = 0; i < WEIGHT; i++) failed |= !all_finite(layers[i], high, tile.cols, of->planes.cols, of->tile_usable);
        if (!failed) add_tile(&of->stitcher, rows, cols, layers, of->planes.cols, of->tile_usable);
    }
    of->counts.unjudged_tiles += (uint32_t)failed;
    return failed;
}

/* The row of tiles that ends with the newest line. 0, or 1 if one of them could not be judged. */
static int judge_row(flame *of, int last) {
    const int64_t across = count_tiles(&of->model, of->options.columns);
    const span rows = find_span(&of->model, of->tiles++, last ? of->lines : -1, of->stitcher.row_weight);
    int failed = 0;
    for (int64_t i = 0; i < across; i++) {
        int64_t length = i == across - 1 ? (int64_t)of->options.columns : -1;
        const span cols = find_span(&of->model, i, length, of->stitcher.col_weight);
        failed |= judge_tile(of, rows, cols);
    }
    settle_rows(of, rows);
    decide(of, last);
    return failed;
}

/* Takes a line in; whether some pixel of it may be used. */
static int store_line(flame *of, const float *radiance, const uint8_t *valid) {
    const size_t cols = of->options.columns, tile = (size_t)of->model.tile, at = (size_t)(of->lines % of->model.tile);
    const int32_t bands = of->model.bands;
    int some = 0;
    for (size_t col = 0; col < cols; col++) {
        int good = radiance && (!valid || valid[col]), lit = 0, whole = 1;
        of->valid[at * cols + col] = (uint8_t)good;
        for (int32_t band = 0; good && band < bands; band++) {
            float value = radiance[(size_t)band * cols + col];
            lit |= value > 0.0f;
            whole &= value >= FILL_BELOW && value < (float)of->model.saturation;
        }
        some |= good && lit && whole;
    }
    for (int32_t band = 0; band < bands; band++) {
        float *to = of->radiance + ((size_t)band * tile + at) * cols;
        if (radiance) memcpy(to, radiance + (size_t)band * cols, cols * sizeof(float));
        else memset(to, 0, cols * sizeof(float));
    }
    of->lines++;
    of->counts.lines++;
    of->counts.unusable_lines += !some;
    return some;
}

static flame_status take_line(flame *of, const float *radiance, const uint8_t *valid) {
    int failed = 0;
    /* A full tile is judged when the next line comes: only then is it known not to be the last. */
    if (of->lines == of->tiles * (of->model.tile - of->model.overlap) + of->model.tile) failed = judge_row(of, 0);
    int some = store_line(of, radiance, valid);
    return failed ? FLAME_UNJUDGED_TILE : some ? FLAME_OK : FLAME_UNUSABLE_LINE;
}

flame_status flame_push_line(flame *of, const float *radiance, uint32_t bands, uint32_t columns, const uint8_t *valid) {
    if (!of || !radiance) return FLAME_NO_ARGUMENT;
    if (bands != (uint32_t)of->model.bands) return FLAME_OTHER_BANDS;
    if (columns != of->options.columns) return FLAME_OTHER_COLUMNS;
    return take_line(of, radiance, valid);
}

flame_status flame_skip_lines(flame *of, uint32_t lines) {
    flame_status status = FLAME_OK;
    if (!of) return FLAME_NO_ARGUMENT;
    for (uint32_t i = 0; i < lines; i++)
        if (take_line(of, NULL, NULL) == FLAME_UNJUDGED_TILE) status = FLAME_UNJUDGED_TILE;
    return status;
}

flame_status flame_end_scene(flame *of) {
    if (!of) return FLAME_NO_ARGUMENT;
    int failed = of->lines ? judge_row(of, 1) : 0;
    of->scene += of->lines > 0;
    begin_scene(of);
    return failed ? FLAME_UNJUDGED_TILE : FLAME_OK;
}

flame_status flame_check_model(const flame *of) {
    return of ? check_model(of->image, of->image_bytes) : FLAME_NO_ARGUMENT;
}

uint32_t flame_bands(const flame *of) { return of ? (uint32_t)of->model.bands : 0; }

flame_counts flame_counted(const flame *of) { return of ? of->counts : (flame_counts){0}; }
