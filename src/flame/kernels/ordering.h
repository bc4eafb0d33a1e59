/* Sorting and medians. */
#ifndef FLAME_ORDERING_H
#define FLAME_ORDERING_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Places of `count` keys, none of them below zero, in rising order, equal ones as they stood; `spare` has as much room as `order`. */
static inline void sort_places(const float *keys, int32_t *order, int32_t *spare, int32_t count) {
    enum { DIGIT = 11, VALUES = 1 << DIGIT, DIGITS = 3 };
    uint32_t begin[DIGITS][VALUES];
    const uint32_t *bits = (const uint32_t *)(const void *)keys; /* of numbers above zero they have the same order */
    memset(begin, 0, sizeof(begin));
    for (int32_t i = 0; i < count; i++) {
        uint32_t key;
        memcpy(&key, bits + i, sizeof(key));
        for (int digit = 0; digit < DIGITS; digit++) begin[digit][key >> (digit * DIGIT) & (VALUES - 1)]++;
    }
    for (int digit = 0; digit < DIGITS; digit++)
        for (uint32_t value = 0, sum = 0; value < VALUES; value++) {
            uint32_t here = begin[digit][value];
            begin[digit][value] = sum;
            sum += here;
        }
    for (int digit = 0; digit < DIGITS; digit++) {
        const int32_t *from = digit == 1 ? spare : order;
        int32_t *to = digit == 1 ? order : spare;
        for (int32_t i = 0; i < count; i++) {
            int32_t at = digit ? from[i] : i;
            uint32_t key;
            memcpy(&key, bits + at, sizeof(key));
            to[begin[digit][key >> (digit * DIGIT) & (VALUES - 1)]++] = at;
        }
    }
    memcpy(order, spare, (size_t)count * sizeof(*order));
}

/* The value that would stand at `rank`, counted from 0, if `values` were sorted; it moves them. */
static inline float ranked(float *values, int32_t count, int32_t rank) {
    int32_t low = 0, high = count - 1;
    while (low < high) {
        float pivot = values[low + (high - low) / 2];
        int32_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i <= j) {
                float held = values[i];
                values[i++] = values[j];
                values[j--] = held;
            }
        }
        if (rank <= j) high = j;
        else if (rank >= i) low = i;
        else break;
    }
    return values[rank];
}

/* The median, of an even number the mean of the two in the middle; it moves the values. */
static inline float median_of(float *values, int32_t count) {
    float upper = ranked(values, count, count / 2), lower = upper;
    if (count % 2) return upper;
    lower = values[0];
    for (int32_t i = 1; i < count / 2; i++) lower = values[i] > lower ? values[i] : lower;
    return 0.5f * (upper + lower);
}

static inline double median_of_doubles(double *values, int count) {
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double held = values[j];
            values[j] = values[j - 1];
            values[j - 1] = held;
        }
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
#endif
