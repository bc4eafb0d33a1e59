/* FLAME on a flight computer: lines of radiance in, CCSDS space packets with plumes out. No Python, no files, no exit.
 *
 * One `flame` takes the lines of one instrument and is used by one thread at a time. All its memory is one arena that the
 * caller gives at the start; nothing is allocated afterwards. The model image (`flame export-flight`) is read where it lies,
 * so it must stay; it may be in read-only memory. What is found is told by calling back. */
#ifndef FLAME_H
#define FLAME_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FLAME_OK = 0,
    FLAME_UNUSABLE_LINE, /* taken, but no pixel of it can be used: NaN, no signal, saturated or marked invalid */
    FLAME_UNJUDGED_TILE, /* taken, but a tile could not be judged; its mask is empty */
    FLAME_NO_ARGUMENT,   /* from here on nothing was done */
    FLAME_NO_MODEL,
    FLAME_OTHER_VERSION,
    FLAME_DAMAGED_MODEL,
    FLAME_IMPOSSIBLE_MODEL,
    FLAME_MISPLACED_MODEL,
    FLAME_BAD_OPTIONS,
    FLAME_SMALL_ARENA,
    FLAME_OTHER_BANDS,
    FLAME_OTHER_COLUMNS
} flame_status;

/* What a status means, in English; never NULL. */
const char *flame_words(flame_status status);

/* A finished packet; the bytes are gone when the function returns. */
typedef void flame_take_packet(void *user, const uint8_t *packet, size_t bytes);

/* Finished lines from `first_line` of the scene on: probability (0 where unusable), score in ppm m and mask (0 or 1), rows
 * of `columns` pixels; gone when the function returns. The mask is given before a plume's end is seen: it also has plumes
 * that turn out to have no core or to be lines, of which no packet comes. */
typedef void flame_take_lines(
    void *user, uint32_t first_line, uint32_t lines, uint32_t columns, const float *probability, const float *score_ppm_m,
    const uint8_t *mask);

/* The time for packets: days since 1958-01-01 and milliseconds of the day, in UTC. */
typedef void flame_tell_time(void *user, uint16_t *days, uint32_t *milliseconds);

typedef struct {
    uint32_t columns;              /* of a line */
    uint32_t threads;              /* that share the work; 0 means 1 */
    uint32_t scene;                /* number of the first scene */
    uint32_t most_plume_lines;     /* a longer plume is sent in pieces; 0 means 2048 */
    uint32_t raw_block;            /* side of the blocks that packets name the peak's place by; 0 means 64 */
    uint16_t first_apid;           /* plumes have this APID; 0 means 0x2A0 */
    float threshold;               /* probability above which a pixel is plume; 0 means the model's */
    float core_sigmas;             /* standard deviations by which network and filter must somewhere be sure of gas, else no
                                    * packet is sent, nor for what is more than 12 times as long as wide; 0 means the
                                    * model's, or none with a threshold of your own; below 0: none of both */
    flame_take_packet *packet;
    flame_take_lines *lines;       /* NULL: not told */
    flame_tell_time *time;         /* NULL: packets without time */
    void *user;                    /* given to the three functions */
} flame_options;

typedef struct {
    uint32_t lines, unusable_lines, tiles, unjudged_tiles, plumes, packets;
    uint32_t dropped;              /* plumes that no packet can hold */
} flame_counts;

typedef struct flame flame;

/* How large the arena must be for this model and these options. */
flame_status flame_arena_bytes(const void *model, size_t model_bytes, const flame_options *options, size_t *bytes);

/* Checks the model and makes everything ready in the arena, which needs no alignment of its own. The model must stand at a
 * multiple of 8 bytes. */
flame_status flame_open(
    const void *model, size_t model_bytes, const flame_options *options, void *arena, size_t arena_bytes, flame **opened);

/* Takes one line: `bands` times `columns` numbers, band after band, in uW cm-2 nm-1 sr-1. `valid` has a byte for each column,
 * 0 where a pixel is known to be bad, or is NULL. A line of another size is refused and leaves no trace. */
flame_status flame_push_line(flame *of, const float *radiance, uint32_t bands, uint32_t columns, const uint8_t *valid);

/* Lines that were lost before the next one: they count as invalid. */
flame_status flame_skip_lines(flame *of, uint32_t lines);

/* Judges what is held and ends the scene; the next line begins another, with the next number. */
flame_status flame_end_scene(flame *of);

/* Compares the model with its checksum again, against bits that flip in memory. */
flame_status flame_check_model(const flame *of);

/* Bands of a line, and what happened so far. */
uint32_t flame_bands(const flame *of);
flame_counts flame_counted(const flame *of);

#ifdef __cplusplus
}
#endif
#endif
