/* Plumes as packets: docs/downlink.md inside the space packets of docs/flight.md. */
#ifndef FLAME_PACKETS_H
#define FLAME_PACKETS_H
#include <stddef.h>
#include <stdint.h>

#include "../include/flame.h"

enum { MOST_SENT_CORNERS = 64, PLUME_HEAD = 58, MOST_PLUME = PLUME_HEAD + 4 * MOST_SENT_CORNERS + 4, MOST_PACKET = MOST_PLUME + 15 };

typedef struct {
    int32_t row, col;
} corner;

/* A plume; rows count from the begin of the scene, corners from the box's first pixel. */
typedef struct {
    uint32_t scene, number, raw_block;
    int64_t first_row, peak_row;
    int32_t first_col, rows, cols, peak_col, corners;
    int64_t area;
    double centroid_row, centroid_col, peak_ppm_m, mean_ppm_m, integrated_ppm_m, confidence; /* centroid within the box */
    int cut, simplified;
    const corner *outline;
} plume;

/* The packet of a plume; 0 if none can hold it. `to` has room for MOST_PLUME bytes. */
size_t encode_plume(const plume *of, uint8_t *to);

/* Data in a space packet of telemetry, whole, with the time if `time` is not NULL. */
size_t encode_space_packet(
    uint16_t apid, uint16_t count, const uint8_t *data, size_t bytes, flame_tell_time *time, void *user, uint8_t *to);
#endif
