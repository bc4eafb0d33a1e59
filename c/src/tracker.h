/* From finished rows to plumes: the decision rule, what is connected, and when a plume has ended: `flame.detection`. */
#ifndef FLAME_TRACKER_H
#define FLAME_TRACKER_H
#include "outline.h"

/* Takes a plume that has ended. */
typedef void take_plume(void *user, plume *found);

/* Bits of a cell that rows come with: plume; of its core, without which no plume is given out. */
enum { PLUME = 1, CORE = 2 };

/* Length over width of a plume at most, as in flame.detection.shapes. */
#define MOST_ELONGATED 12.0

typedef struct {
    int32_t cols, capacity, most_rows, rows;
    int take_lines; /* whether what is too long and thin for a plume is given out too */
    int64_t first;
    uint8_t *cells; /* bits, see tracker.c */
    uint8_t *cut_with_core; /* columns where the next row goes on from a piece with a core; 0 everywhere else */
    float *probability, *score_ppm_m;
    int32_t *pixels;
    outliner ring;
} tracker;

/* For blocks of up to `block` rows; plumes longer than `most_rows` are given in pieces. */
void reserve_tracker(arena *from, int32_t cols, int32_t most_rows, int32_t block, tracker *to);
void restart_tracker(tracker *with);

/* Pixels above the threshold, opened by a 3 x 3 cross; `eroded` has as much room as the mask. */
void open_mask(
    const float *probability, const uint8_t *usable, int32_t rows, int32_t cols, float threshold, int opening,
    uint8_t *mask, uint8_t *eroded);

/* The next rows; with `end` there are no more. Plumes without a core and lines are left out; a piece of a long one has a core if it or
 * a piece that it goes on from has one. */
void track_rows(
    tracker *with, const uint8_t *cells, const float *probability, const float *score_ppm_m, int32_t rows, int end,
    take_plume *take, void *user);
#endif
