/* Lines from a file, packets into a file: `example MODEL LINES PACKETS COLUMNS [MASK]`. What an F' or cFS app does with its
 * ports: read the model once, open, push line after line, end the scene. LINES is radiance and nothing else: float32,
 * little-endian, line after line, in each line band after band, in each band COLUMNS samples. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flame.h"

typedef struct {
    FILE *packets, *mask;
} files;

static void take_packet(void *user, const uint8_t *packet, size_t bytes) {
    fwrite(packet, 1, bytes, ((files *)user)->packets);
}

static void take_lines(
    void *user, uint32_t first, uint32_t lines, uint32_t columns, const float *probability, const float *score,
    const uint8_t *mask) {
    (void)first, (void)probability, (void)score;
    if (((files *)user)->mask) fwrite(mask, columns, lines, ((files *)user)->mask);
}

static int say(const char *what, flame_status status) {
    fprintf(stderr, "%s: %s\n", what, flame_words(status));
    return (int)status;
}

static FILE *opened(const char *name, const char *how) {
    FILE *file = fopen(name, how);
    if (!file) fprintf(stderr, "%s: cannot be %s: %s\n", name, *how == 'r' ? "read" : "written", strerror(errno));
    return file;
}

int main(int count, char **words) {
    static union { double aligned; unsigned char bytes[8 << 20]; } model;
    if (count < 5) {
        fprintf(stderr, "usage: example MODEL LINES PACKETS COLUMNS [MASK]\n");
        return FLAME_NO_ARGUMENT;
    }
    FILE *image = opened(words[1], "rb"), *lines = opened(words[2], "rb");
    if (!image || !lines) return FLAME_NO_ARGUMENT;
    files out = {opened(words[3], "wb"), count > 5 ? opened(words[5], "wb") : NULL};
    if (!out.packets || (count > 5 && !out.mask)) return FLAME_NO_ARGUMENT;
    flame_options options = {.columns = (uint32_t)atoi(words[4]), .packet = take_packet, .lines = take_lines, .user = &out};
    size_t model_bytes = fread(model.bytes, 1, sizeof(model), image), arena_bytes, read;
    flame_status status = flame_arena_bytes(&model, model_bytes, &options, &arena_bytes);
    if (status != FLAME_OK) return say(words[1], status);
    void *arena = malloc(arena_bytes);
    flame *stream;
    status = flame_open(&model, model_bytes, &options, arena, arena_bytes, &stream);
    if (status != FLAME_OK) return say(words[1], status);
    size_t floats = (size_t)flame_bands(stream) * options.columns;
    float *line = malloc(floats * sizeof(float));
    while (line && (read = fread(line, sizeof(float), floats, lines)) > 0) {
        uint32_t columns = read == floats ? options.columns : (uint32_t)(read / flame_bands(stream));
        status = flame_push_line(stream, line, flame_bands(stream), columns, NULL);
        if (status != FLAME_OK) say("line", status);
    }
    flame_status last = flame_end_scene(stream);
    flame_counts told = flame_counted(stream);
    printf("arena %zu bytes; %u lines, %u unusable; %u tiles, %u not judged; %u plumes\n", arena_bytes, told.lines,
           told.unusable_lines, told.tiles, told.unjudged_tiles, told.plumes);
    fclose(out.packets);
    if (out.mask) fclose(out.mask);
    free(line);
    free(arena);
    return (int)(status > last ? status : last);
}
