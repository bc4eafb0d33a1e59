#include "outline.h"

#include <string.h>

void reserve_outliner(arena *from, outliner *to) {
    to->ring = TAKE(from, corner, MOST_CORNERS);
    to->before = TAKE(from, int32_t, MOST_CORNERS);
    to->after = TAKE(from, int32_t, MOST_CORNERS);
    to->areas = TAKE(from, int64_t, MOST_CORNERS);
    to->heap = TAKE(from, spanned, 3 * MOST_CORNERS);
}

static int is_inside(const part *of, int32_t row, int32_t col) {
    return row >= 0 && row < of->rows && col >= 0 && col < of->cols && of->cells[(size_t)row * (size_t)of->cols + (size_t)col] & of->inside;
}

/* Right, down, left, up; the next is a turn to the right. */
static const corner STEPS[4] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}};

/* Whether an edge leaves a corner in a direction, with the part on its right. */
static int leaves(const part *of, corner at, int way) {
    static const corner own[4] = {{0, 0}, {0, -1}, {-1, -1}, {-1, 0}}, beyond[4] = {{-1, 0}, {0, 0}, {0, -1}, {-1, -1}};
    return is_inside(of, at.row + own[way].row, at.col + own[way].col) &&
           !is_inside(of, at.row + beyond[way].row, at.col + beyond[way].col);
}

int32_t trace_ring(outliner *with, const part *of, corner start, const corner box[4], int64_t *held) {
    corner at = start;
    int before = -1;
    int32_t count = 0;
    int64_t twice = 0;
    do {
        int ways = 0, way = 0;
        for (int i = 3; i >= 0; i--)
            if (leaves(of, at, i)) {
                ways++;
                way = i;
            }
        if (ways > 1 && before >= 0) way = (before + 1) % 4; /* stays with the pixel being walked around */
        if (way != before) {
            if (count < MOST_CORNERS) with->ring[count] = at;
            count++;
        }
        corner next = {at.row + STEPS[way].row, at.col + STEPS[way].col};
        twice += (int64_t)at.col * next.row - (int64_t)next.col * at.row;
        at = next;
        before = way;
    } while (at.row != start.row || at.col != start.col);
    *held = twice / 2;
    if (count <= MOST_CORNERS) return count;
    memcpy(with->ring, box, 4 * sizeof(*box));
    *held = -1;
    return 4;
}

static int earlier(spanned a, spanned b) { return a.area < b.area || (a.area == b.area && a.corner < b.corner); }

static void push(outliner *with, spanned what) {
    int32_t at = with->waiting++;
    for (; at > 0 && earlier(what, with->heap[(at - 1) / 2]); at = (at - 1) / 2) with->heap[at] = with->heap[(at - 1) / 2];
    with->heap[at] = what;
}

static spanned pop(outliner *with) {
    const spanned least = with->heap[0], last = with->heap[--with->waiting];
    int32_t at = 0;
    for (int32_t next; (next = 2 * at + 1) < with->waiting; at = next) {
        if (next + 1 < with->waiting && earlier(with->heap[next + 1], with->heap[next])) next++;
        if (!earlier(with->heap[next], last)) break;
        with->heap[at] = with->heap[next];
    }
    with->heap[at] = last;
    return least;
}

static int64_t area_at(const outliner *with, int32_t i) {
    const corner a = with->ring[with->before[i]], b = with->ring[i], c = with->ring[with->after[i]];
    int64_t area = (int64_t)(b.row - a.row) * (c.col - a.col) - (int64_t)(c.row - a.row) * (b.col - a.col);
    return area < 0 ? -area : area;
}

int32_t simplify_ring(outliner *with, int32_t corners, int32_t most) {
    int32_t left = corners;
    if (corners <= most) return corners;
    with->waiting = 0;
    for (int32_t i = 0; i < corners; i++) {
        with->before[i] = (i + corners - 1) % corners;
        with->after[i] = (i + 1) % corners;
    }
    for (int32_t i = 0; i < corners; i++) push(with, (spanned){with->areas[i] = area_at(with, i), i});
    while (left > most) {
        spanned least = pop(with);
        int32_t i = least.corner;
        if (least.area != with->areas[i]) continue;
        with->areas[i] = -1;
        left--;
        with->after[with->before[i]] = with->after[i];
        with->before[with->after[i]] = with->before[i];
        for (int side = 0; side < 2; side++) {
            int32_t beside = side ? with->after[i] : with->before[i];
            /* Never less than what was left out before, so that a curve is thinned evenly. */
            int64_t area = area_at(with, beside);
            with->areas[beside] = area > least.area ? area : least.area;
            push(with, (spanned){with->areas[beside], beside});
        }
    }
    left = 0;
    for (int32_t i = 0; i < corners; i++)
        if (with->areas[i] >= 0) with->ring[left++] = with->ring[i];
    return left;
}
