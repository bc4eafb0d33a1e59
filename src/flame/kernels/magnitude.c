/* The largest magnitude among many numbers, in one pass: what the guard of the runtime looks for in its buffers. */
#include "vectors.h"

/* Without its sign bit a float is ordered like the integer of the same bits, and NaN above everything: if there is one,
 * it is what comes out. */
float EXPORT(largest_magnitude)(const float *values, int64_t count) {
    int32_t largest = 0;
    float found;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, values + i, sizeof(bits));
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    memcpy(&found, &largest, sizeof(found));
    return found;
}
