#include "packets.h"

#include <math.h>
#include <string.h>

#include "checks.h"

enum { VERSION = 1, CUT = 1, SIMPLIFIED = 2, WIDE = 4, CONFIDENCE_STEPS = 65535, CDS_SHORT = 0x40 };

static uint8_t *put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--) *to++ = (uint8_t)(value >> (8 * i));
    return to;
}

static uint8_t *put_float(uint8_t *to, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    return put(to, bits, 4);
}

static int fits(const plume *of) {
    const double numbers[] = {of->centroid_row, of->centroid_col, of->peak_ppm_m, of->mean_ppm_m, of->integrated_ppm_m};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!isfinite((float)numbers[i])) return 0;
    return of->first_row <= UINT32_MAX && of->rows <= UINT16_MAX && of->cols <= UINT16_MAX && of->first_col <= UINT16_MAX &&
           of->corners >= 3 && of->corners <= MOST_SENT_CORNERS && of->area >= 1 && of->area <= UINT32_MAX;
}

size_t encode_plume(const plume *of, uint8_t *to) {
    if (!fits(of)) return 0;
    const int wide = of->rows > 255 || of->cols > 255, size = wide ? 2 : 1;
    const size_t length = PLUME_HEAD + 2 * (size_t)size * (size_t)of->corners + 4;
    double sure = of->confidence > 0.0 ? of->confidence < 1.0 ? of->confidence : 1.0 : 0.0;
    uint8_t *at = put(to, 'F' << 8 | 'P', 2);
    at = put(at, VERSION, 1);
    at = put(at, (uint64_t)(CUT * !!of->cut | SIMPLIFIED * !!of->simplified | WIDE * wide), 1);
    at = put(at, length, 2);
    at = put(at, of->scene, 4);
    at = put(at, of->number % 65536, 2);
    at = put(at, (uint64_t)(of->peak_row / of->raw_block % 65536), 2);
    at = put(at, (uint64_t)of->peak_col / of->raw_block, 2);
    at = put(at, (uint64_t)of->first_row, 4);
    at = put(at, (uint64_t)of->first_col, 2);
    at = put(at, (uint64_t)of->rows, 2);
    at = put(at, (uint64_t)of->cols, 2);
    at = put(at, (uint64_t)of->area, 4);
    at = put_float(at, of->centroid_row);
    at = put_float(at, of->centroid_col);
    at = put(at, (uint64_t)(of->peak_row - of->first_row), 2);
    at = put(at, (uint64_t)(of->peak_col - of->first_col), 2);
    at = put_float(at, of->peak_ppm_m);
    at = put_float(at, of->mean_ppm_m);
    at = put_float(at, of->integrated_ppm_m);
    at = put(at, (uint64_t)rint(sure * CONFIDENCE_STEPS), 2);
    at = put(at, (uint64_t)of->corners, 2);
    for (int i = 0; i < of->corners; i++) {
        at = put(at, (uint64_t)of->outline[i].row, size);
        at = put(at, (uint64_t)of->outline[i].col, size);
    }
    put(at, crc32_of(to, length - 4), 4);
    return length;
}

size_t encode_space_packet(
    uint16_t apid, uint16_t count, const uint8_t *data, size_t bytes, flame_tell_time *time, void *user, uint8_t *to) {
    const size_t body = bytes + (time ? 7 : 0);
    uint8_t *at = put(to, (time ? 0x800u : 0u) | apid, 2);
    at = put(at, 0xc000u | (count & 0x3fffu), 2);
    at = put(at, body + 2 - 1, 2);
    if (time) {
        uint16_t days = 0;
        uint32_t milliseconds = 0;
        time(user, &days, &milliseconds);
        at = put(at, CDS_SHORT, 1);
        at = put(at, days, 2);
        at = put(at, milliseconds, 4);
    }
    memcpy(at, data, bytes);
    put(at + bytes, crc16_of(to, 6 + body), 2);
    return 6 + body + 2;
}
