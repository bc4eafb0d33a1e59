#include "tracker.h"

#include <math.h>
#include <string.h>

/* More bits of a cell: seen in this search; seen among its part; of the part that is outlined. */
enum { SEEN = 4, SORTED = 8, OUTLINED = 16 };

static size_t size_of(const tracker *of, int32_t rows) { return (size_t)rows * (size_t)of->cols; }

void reserve_tracker(arena *from, int32_t cols, int32_t most_rows, int32_t block, tracker *to) {
    to->cols = cols;
    to->most_rows = most_rows;
    to->capacity = most_rows + block;
    const size_t pixels = size_of(to, to->capacity);
    to->cells = TAKE(from, uint8_t, pixels);
    to->cut_with_core = TAKE(from, uint8_t, cols);
    to->probability = TAKE(from, float, pixels);
    to->score_ppm_m = TAKE(from, float, pixels);
    to->pixels = TAKE(from, int32_t, 2 * pixels);
    reserve_outliner(from, &to->ring);
}

void restart_tracker(tracker *with) {
    with->rows = 0;
    with->first = 0;
    memset(with->cut_with_core, 0, (size_t)with->cols);
}

static int above(const uint8_t *mask, int32_t rows, int32_t cols, int32_t row, int32_t col) {
    return row >= 0 && row < rows && col >= 0 && col < cols && mask[(size_t)row * (size_t)cols + (size_t)col];
}

void open_mask(
    const float *probability, const uint8_t *usable, int32_t rows, int32_t cols, float threshold, int opening,
    uint8_t *mask, uint8_t *eroded) {
    const size_t pixels = (size_t)rows * (size_t)cols;
    for (size_t i = 0; i < pixels; i++) mask[i] = probability[i] > threshold && usable[i];
    for (int pass = 0; opening && pass < 2; pass++) {
        const uint8_t *from = pass ? eroded : mask;
        uint8_t *to = pass ? mask : eroded;
        for (int32_t row = 0; row < rows; row++)
            for (int32_t col = 0; col < cols; col++) {
                int sum = above(from, rows, cols, row, col) + above(from, rows, cols, row - 1, col) +
                          above(from, rows, cols, row + 1, col) + above(from, rows, cols, row, col - 1) +
                          above(from, rows, cols, row, col + 1);
                to[(size_t)row * (size_t)cols + (size_t)col] = pass ? sum > 0 : sum == 5;
            }
    }
}

/* The connected cells with `bit` around one, each marked, into `list`; over corners too if `eight`. Their number. */
static int32_t gather(tracker *with, int32_t start, uint8_t bit, uint8_t mark, int eight, int32_t *list) {
    int32_t count = 1;
    list[0] = start;
    with->cells[start] |= mark;
    for (int32_t done = 0; done < count; done++) {
        int32_t row = list[done] / with->cols, col = list[done] % with->cols;
        for (int32_t down = -1; down <= 1; down++)
            for (int32_t across = -1; across <= 1; across++) {
                if (!eight && down && across) continue;
                if (row + down < 0 || row + down >= with->rows || col + across < 0 || col + across >= with->cols) continue;
                int32_t next = (row + down) * with->cols + col + across;
                if (!(with->cells[next] & bit) || with->cells[next] & mark) continue;
                with->cells[next] |= mark;
                list[count++] = next;
            }
    }
    return count;
}

/* The largest of the parts, connected along sides, that `count` pixels fall into; the first of equal ones. Marks it, and
 * says where it begins. */
static int32_t largest_part(tracker *with, const int32_t *pixels, int32_t count, int32_t *parts, int32_t *start) {
    int32_t *list = with->pixels + count, largest = 0;
    *parts = 0;
    for (int32_t i = 0; i < count; i++) {
        if (with->cells[pixels[i]] & SORTED) continue;
        int32_t size = gather(with, pixels[i], PLUME, SORTED, 0, list), first = list[0];
        for (int32_t k = 1; k < size; k++) first = list[k] < first ? list[k] : first;
        ++*parts;
        if (size < largest || (size == largest && first > *start)) continue;
        largest = size;
        *start = first;
    }
    gather(with, *start, PLUME, OUTLINED, 0, list);
    return largest;
}

/* Numbers of a plume's pixels. */
static void measure(const tracker *with, const int32_t *pixels, int32_t count, plume *to) {
    int32_t low_row = INT32_MAX, low_col = INT32_MAX, high_row = 0, high_col = 0, peak = pixels[0];
    double rows = 0.0, cols = 0.0, sum = 0.0, sure = 0.0;
    for (int32_t i = 0; i < count; i++) {
        int32_t at = pixels[i], row = at / with->cols, col = at % with->cols;
        low_row = row < low_row ? row : low_row;
        low_col = col < low_col ? col : low_col;
        high_row = row > high_row ? row : high_row;
        high_col = col > high_col ? col : high_col;
        rows += row;
        cols += col;
        sum += (double)with->score_ppm_m[at];
        sure += (double)with->probability[at];
        float here = with->score_ppm_m[at], most = with->score_ppm_m[peak];
        if (here > most || (here == most && at < peak)) peak = at;
    }
    to->first_row = with->first + low_row;
    to->first_col = low_col;
    to->rows = high_row + 1 - low_row;
    to->cols = high_col + 1 - low_col;
    to->area = count;
    to->centroid_row = rows / count + 0.5 - low_row;
    to->centroid_col = cols / count + 0.5 - low_col;
    to->peak_row = with->first + peak / with->cols;
    to->peak_col = peak % with->cols;
    to->peak_ppm_m = (double)with->score_ppm_m[peak];
    to->mean_ppm_m = sum / count;
    to->integrated_ppm_m = sum;
    to->confidence = sure / count;
}

/* The outline, within the plume's box. */
static void draw(tracker *with, const int32_t *pixels, int32_t count, plume *to) {
    int32_t parts, start = 0, size = largest_part(with, pixels, count, &parts, &start);
    const int32_t top = (int32_t)(to->first_row - with->first), left = to->first_col;
    const part of = {with->cells, with->rows, with->cols, OUTLINED};
    const corner box[4] = {{top, left}, {top, left + to->cols}, {top + to->rows, left + to->cols}, {top + to->rows, left}};
    int64_t held;
    int32_t corners = trace_ring(&with->ring, &of, (corner){start / with->cols, start % with->cols}, box, &held);
    to->corners = simplify_ring(&with->ring, corners, MOST_SENT_CORNERS);
    to->simplified = to->corners < corners || held != size || parts > 1;
    for (int32_t i = 0; i < to->corners; i++) {
        with->ring.ring[i].row -= top;
        with->ring.ring[i].col -= left;
    }
    to->outline = with->ring.ring;
}

/* The first row of plumes that reach the last one, which may go on; `rows` if there is none. */
static int32_t first_open(tracker *with) {
    int32_t first = with->rows;
    for (int32_t col = 0; with->rows && col < with->cols; col++) {
        int32_t at = (with->rows - 1) * with->cols + col;
        if ((with->cells[at] & (PLUME | SEEN)) != PLUME) continue;
        int32_t count = gather(with, at, PLUME, SEEN, 1, with->pixels);
        for (int32_t i = 0; i < count; i++) {
            int32_t row = with->pixels[i] / with->cols;
            first = row < first ? row : first;
        }
    }
    return first;
}

/* Keeps the rows from `first` on, and of the plumes only those that are still open. */
static void keep_rows(tracker *with, int32_t first) {
    const int32_t rows = with->rows - first;
    const size_t from = size_of(with, first), size = size_of(with, rows);
    memmove(with->cells, with->cells + from, size);
    memmove(with->probability, with->probability + from, size * sizeof(float));
    memmove(with->score_ppm_m, with->score_ppm_m + from, size * sizeof(float));
    for (size_t i = 0; i < size; i++) with->cells[i] &= PLUME | CORE;
    with->rows = rows;
    with->first += first;
}

/* The first row after a cut: what touches a piece with a core has one too. */
static void inherit_core(tracker *with) {
    for (int32_t col = 0; col < with->cols; col++)
        for (int32_t beside = col - 1; beside <= col + 1; beside++)
            if (beside >= 0 && beside < with->cols && with->cut_with_core[beside] && with->cells[col] & PLUME)
                with->cells[col] |= CORE;
    memset(with->cut_with_core, 0, (size_t)with->cols);
}

/* Whether a plume has a core; if it is cut here, that is handed on to what goes on from it. */
static int find_core(tracker *with, const int32_t *pixels, int32_t count, int cut) {
    int found = 0;
    for (int32_t i = 0; i < count && !found; i++) found = with->cells[pixels[i]] & CORE;
    for (int32_t i = 0; i < count && found && cut; i++)
        if (pixels[i] / with->cols == with->rows - 1) with->cut_with_core[pixels[i] % with->cols] = 1;
    return found;
}

/* Whether pixels lie more than MOST_ELONGATED times as far along as across: a road or a detector column, no plume. */
static int is_line(const tracker *with, const int32_t *pixels, int32_t count) {
    double rows = 0.0, cols = 0.0, tall = 0.0, wide = 0.0, both = 0.0;
    for (int32_t i = 0; i < count; i++) {
        rows += pixels[i] / with->cols;
        cols += pixels[i] % with->cols;
    }
    for (int32_t i = 0; i < count; i++) {
        double down = pixels[i] / with->cols - rows / count, across = pixels[i] % with->cols - cols / count;
        tall += down * down;
        wide += across * across;
        both += down * across;
    }
    tall = tall / count + 1.0 / 12.0; /* a pixel is a square */
    wide = wide / count + 1.0 / 12.0;
    const double middle = 0.5 * (tall + wide), half = 0.5 * (tall - wide);
    const double apart = sqrt(half * half + both / count * (both / count));
    return middle + apart > (1.0 + 1e-9) * MOST_ELONGATED * MOST_ELONGATED * (middle - apart); /* just that shape is none */
}

void track_rows(
    tracker *with, const uint8_t *cells, const float *probability, const float *score_ppm_m, int32_t rows, int end,
    take_plume *take, void *user) {
    const size_t at = size_of(with, with->rows), size = size_of(with, rows);
    memcpy(with->cells + at, cells, size);
    if (with->rows == 0 && rows > 0) inherit_core(with);
    memcpy(with->probability + at, probability, size * sizeof(float));
    memcpy(with->score_ppm_m + at, score_ppm_m, size * sizeof(float));
    with->rows += rows;
    int32_t keep = end ? with->rows : first_open(with);
    const int too_long = with->rows - keep > with->most_rows;
    const size_t all = size_of(with, with->rows);
    for (size_t i = 0; i < all; i++) {
        /* Those seen before are open; if they are too long they are given too, as cut. */
        uint8_t open = with->cells[i] & SEEN;
        if (!(with->cells[i] & PLUME) || with->cells[i] & SORTED || (open && !too_long)) continue;
        plume found = {.cut = open != 0};
        int32_t count = gather(with, (int32_t)i, PLUME, SORTED, 1, with->pixels);
        for (int32_t k = 0; k < count; k++) with->cells[with->pixels[k]] &= (uint8_t)~SORTED;
        if (find_core(with, with->pixels, count, found.cut) && (with->take_lines || !is_line(with, with->pixels, count))) {
            measure(with, with->pixels, count, &found);
            draw(with, with->pixels, count, &found);
            take(user, &found);
        }
        for (int32_t k = 0; k < count; k++) with->cells[with->pixels[k]] = 0;
    }
    keep_rows(with, too_long ? with->rows : keep);
}
