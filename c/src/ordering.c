#include "ordering.h"

#include <string.h>

static void merge(const float *keys, const int32_t *from, int32_t *to, int32_t low, int32_t middle, int32_t high) {
    int32_t left = low, right = middle;
    for (int32_t at = low; at < high; at++) {
        int take_right = left == middle || (right < high && keys[from[right]] < keys[from[left]]);
        to[at] = from[take_right ? right++ : left++];
    }
}

void sort_places(const float *keys, int32_t *order, int32_t *spare, int32_t count) {
    int32_t *from = order, *to = spare;
    for (int32_t i = 0; i < count; i++) order[i] = i;
    for (int32_t size = 1; size < count; size *= 2) {
        for (int32_t low = 0; low < count; low += 2 * size) {
            int32_t middle = count - low < size ? count : low + size;
            int32_t high = count - middle < size ? count : middle + size;
            merge(keys, from, to, low, middle, high);
        }
        int32_t *other = from;
        from = to;
        to = other;
    }
    if (from != order) memcpy(order, from, (size_t)count * sizeof(*order));
}

float ranked(float *values, int32_t count, int32_t rank) {
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

float median_of(float *values, int32_t count) {
    float upper = ranked(values, count, count / 2);
    return count % 2 ? upper : 0.5f * (upper + ranked(values, count, count / 2 - 1));
}

double median_of_doubles(double *values, int count) {
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double held = values[j];
            values[j] = values[j - 1];
            values[j - 1] = held;
        }
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
