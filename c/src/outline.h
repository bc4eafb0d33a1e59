/* The outline of a plume along pixel edges, with few corners: `flame.detection.outline`, `flame.onboard.outlines`. */
#ifndef FLAME_OUTLINE_H
#define FLAME_OUTLINE_H
#include "arena.h"
#include "packets.h"

enum { MOST_CORNERS = 65536 };

typedef struct {
    int64_t area;
    int32_t corner;
} spanned;

typedef struct {
    corner *ring;
    int32_t *before, *after;
    int64_t *areas;
    spanned *heap;
    int32_t waiting;
} outliner;

void reserve_outliner(arena *from, outliner *to);

/* Pixels of one connected part: those of `cells` (rows `cols` apart) with the bit `inside`. */
typedef struct {
    const uint8_t *cells;
    int32_t rows, cols;
    uint8_t inside;
} part;

/* Corners of the ring around a part, begun at its topmost and then leftmost pixel, and how many pixels it holds; one that
 * has more corners than there is room for is given as `box`. Corners are pixels of the image. */
int32_t trace_ring(outliner *with, const part *of, corner start, const corner box[4], int64_t *held);

/* Leaves out corners, that which spans the least area first, until few enough are left; how many. */
int32_t simplify_ring(outliner *with, int32_t corners, int32_t most);
#endif
