/* Memory handed out from one piece, never given back. Without a base it only counts: what reserves memory is called twice,
 * first to learn how much there must be. */
#ifndef FLAME_ARENA_H
#define FLAME_ARENA_H
#include <stddef.h>

enum { CACHE_LINE = 64 };

typedef struct {
    unsigned char *base;
    size_t used;
} arena;

static inline void *take_bytes(arena *from, size_t bytes) {
    size_t at = (from->used + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    from->used = at + bytes;
    return from->base ? from->base + at : NULL;
}

#define TAKE(from, type, count) ((type *)take_bytes((from), (size_t)(count) * sizeof(type)))
#endif
