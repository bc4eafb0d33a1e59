/* Linear algebra of positive matrices of some hundred rows, in double, on vectors of columns.
 *
 * Rows of a matrix are `line` doubles apart, a multiple of LINE_STEP; what lies beyond its columns must be numbers and is
 * lost. Of a factor only what stands on and right of the diagonal counts: left of it anything may stand. */
#ifndef FLAME_LINEAR_H
#define FLAME_LINEAR_H
#include "doubles.h"

#define LINE_STEP 8 /* doubles of the widest vectors */
INLINE ptrdiff_t line_of(ptrdiff_t columns) { return (columns + LINE_STEP - 1) / LINE_STEP * LINE_STEP; }
INLINE ptrdiff_t whole(ptrdiff_t at) { return at / DOUBLES * DOUBLES; }

/* to -= times * what, from the vector that `first` is in up to `last`, a multiple of LINE_STEP. */
INLINE void subtract(double *to, const double *what, double times, ptrdiff_t first, ptrdiff_t last) {
    for (ptrdiff_t i = whole(first); i < last; i += DOUBLES)
        store_doubles(to + i, load_doubles(to + i) - times * load_doubles(what + i));
}

/* The same with four rows, `line` apart, at a time. */
INLINE void subtract_four(
    double *to, const double *what, ptrdiff_t line, const double times[4], ptrdiff_t first, ptrdiff_t last) {
    for (ptrdiff_t i = whole(first); i < last; i += DOUBLES) {
        dvec sum = load_doubles(to + i);
        UNROLL for (int r = 0; r < 4; r++) sum -= times[r] * load_doubles(what + r * line + i);
        store_doubles(to + i, sum);
    }
}

INLINE void scale(double *row, double by, ptrdiff_t first, ptrdiff_t last) {
    for (ptrdiff_t i = whole(first); i < last; i += DOUBLES) store_doubles(row + i, by * load_doubles(row + i));
}

/* Sum of products from the vector that `first` is in up to `last`, a multiple of LINE_STEP. */
INLINE double dot(const double *a, const double *b, ptrdiff_t first, ptrdiff_t last) {
    dvec sums = {0};
    double sum = 0.0;
    for (ptrdiff_t i = whole(first); i < last; i += DOUBLES) sums += load_doubles(a + i) * load_doubles(b + i);
    for (int i = 0; i < DOUBLES; i++) sum += sums[i];
    return sum;
}

/* The factor U of a positive matrix, U^T U, in its place. 0, or 1 if it is not positive. */
static inline int factorise(double *a, ptrdiff_t n, ptrdiff_t line) {
    for (ptrdiff_t k = 0; k < n; k += 4) {
        const ptrdiff_t end = k + 4 < n ? k + 4 : n;
        for (ptrdiff_t row = k; row < end; row++) {
            double *here = a + row * line;
            for (ptrdiff_t before = k; before < row; before++)
                subtract(here, a + before * line, a[before * line + row], row, line);
            if (!(here[row] > 0.0)) return 1;
            scale(here, 1.0 / __builtin_sqrt(here[row]), row, line);
        }
        for (ptrdiff_t row = end; row < n; row++) {
            const double times[4] = {a[k * line + row], a[(k + 1) * line + row], a[(k + 2) * line + row], a[(k + 3) * line + row]};
            subtract_four(a + row * line, a + k * line, line, times, row, line);
        }
    }
    return 0;
}

/* x of U^T U x = b, by the factor; `b`, a line long, is lost, and `x` may not be it. */
static inline void solve_factored(const double *factor, ptrdiff_t n, ptrdiff_t line, double *b, double *x) {
    double between[n];
    for (ptrdiff_t k = 0; k < n; k++) {
        between[k] = b[k] / factor[k * line + k];
        subtract(b, factor + k * line, between[k], k + 1, line);
    }
    memset(x, 0, (size_t)line * sizeof(double));
    for (ptrdiff_t k = n - 1; k >= 0; k--)
        x[k] = (between[k] - dot(factor + k * line, x, k + 1, line)) / factor[k * line + k];
}

/* Y of U^T Y = B, B being `n` rows `wide` doubles apart, in its place. */
static inline void solve_half(const double *factor, ptrdiff_t n, ptrdiff_t line, double *b, ptrdiff_t wide) {
    for (ptrdiff_t k = 0; k < n; k += 4) {
        const ptrdiff_t end = k + 4 < n ? k + 4 : n;
        for (ptrdiff_t row = k; row < end; row++) {
            for (ptrdiff_t before = k; before < row; before++)
                subtract(b + row * wide, b + before * wide, factor[before * line + row], 0, wide);
            scale(b + row * wide, 1.0 / factor[row * line + row], 0, wide);
        }
        for (ptrdiff_t row = end; row < n; row++) {
            const double times[4] = {factor[k * line + row], factor[(k + 1) * line + row], factor[(k + 2) * line + row],
                                     factor[(k + 3) * line + row]};
            subtract_four(b + row * wide, b + k * wide, wide, times, 0, wide);
        }
    }
}

/* Takes Y^T Y from `from`, right of its diagonal; Y has `n` rows, both matrices rows of `line` doubles. */
static inline void subtract_square(const double *y, ptrdiff_t n, ptrdiff_t line, double *from) {
    for (ptrdiff_t row = 0; row < n; row++) {
        ptrdiff_t k = 0;
        for (; k + 4 <= n; k += 4) {
            const double times[4] = {y[k * line + row], y[(k + 1) * line + row], y[(k + 2) * line + row], y[(k + 3) * line + row]};
            subtract_four(from + row * line, y + k * line, line, times, row, line);
        }
        for (; k < n; k++) subtract(from + row * line, y + k * line, y[k * line + row], row, line);
    }
}

/* The diagonal of the inverse, a line long, by the factor; `room` is as large as that. */
static inline void invert_diagonal(const double *factor, ptrdiff_t n, ptrdiff_t line, double *room, double *diagonal) {
    memset(diagonal, 0, (size_t)line * sizeof(double));
    for (ptrdiff_t k = 0; k < n; k++) { /* a row of U^-T, which ends at its diagonal */
        double *here = room + k * line;
        ptrdiff_t j = 0;
        memset(here, 0, (size_t)line * sizeof(double));
        here[k] = 1.0;
        for (; j + 4 <= k; j += 4) {
            const double times[4] = {factor[j * line + k], factor[(j + 1) * line + k], factor[(j + 2) * line + k],
                                     factor[(j + 3) * line + k]};
            subtract_four(here, room + j * line, line, times, 0, line_of(j + 4));
        }
        for (; j < k; j++) subtract(here, room + j * line, factor[j * line + k], 0, line_of(j + 1));
        scale(here, 1.0 / factor[k * line + k], 0, line_of(k + 1));
        for (ptrdiff_t i = 0; i < line_of(k + 1); i += DOUBLES) {
            dvec value = load_doubles(here + i);
            store_doubles(diagonal + i, load_doubles(diagonal + i) + value * value);
        }
    }
}

INLINE void exchange_rows(double *one, double *other, ptrdiff_t line) {
    for (ptrdiff_t i = 0; i < line; i += DOUBLES) {
        dvec held = load_doubles(one + i);
        store_doubles(one + i, load_doubles(other + i));
        store_doubles(other + i, held);
    }
}

/* The same of a matrix that is not positive, which is lost, by elimination. 0, or 1 if it has no inverse. */
static inline int eliminate_diagonal(double *a, ptrdiff_t n, ptrdiff_t line, double *room, double *diagonal) {
    memset(room, 0, (size_t)(n * line) * sizeof(double));
    for (ptrdiff_t i = 0; i < n; i++) room[i * line + i] = 1.0;
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t pivot = k;
        for (ptrdiff_t row = k + 1; row < n; row++)
            if (__builtin_fabs(a[row * line + k]) > __builtin_fabs(a[pivot * line + k])) pivot = row;
        if (a[pivot * line + k] == 0.0) return 1;
        exchange_rows(a + k * line, a + pivot * line, line);
        exchange_rows(room + k * line, room + pivot * line, line);
        for (ptrdiff_t row = 0; row < n; row++) {
            const double times = row == k ? 0.0 : a[row * line + k] / a[k * line + k];
            if (times == 0.0) continue;
            subtract(a + row * line, a + k * line, times, k, line);
            subtract(room + row * line, room + k * line, times, 0, line);
        }
    }
    for (ptrdiff_t i = 0; i < n; i++) diagonal[i] = room[i * line + i] / a[i * line + i];
    return 0;
}

/* The least eigenvalue of a positive matrix, which is lost, by inverse iteration; 0 if it is not positive. */
static inline double least_eigenvalue(double *matrix, ptrdiff_t n, ptrdiff_t line, double *room) {
    enum { ROUNDS = 12 };
    double one[line], other[line], length = 1.0;
    ptrdiff_t largest = 0;
    if (factorise(matrix, n, line)) return 0.0;
    invert_diagonal(matrix, n, line, room, one);
    for (ptrdiff_t i = 1; i < n; i++)
        if (one[i] > one[largest]) largest = i;
    memset(one, 0, sizeof(one));
    one[largest] = 1.0;
    for (int round = 0; round <= ROUNDS; round++) {
        solve_factored(matrix, n, line, one, other);
        length = __builtin_sqrt(dot(other, other, 0, line));
        for (ptrdiff_t i = 0; i < line; i++) one[i] = other[i] / length;
    }
    return 1.0 / length;
}

/* Makes `count` rows, a line long each, an orthonormal basis of what they span. */
static inline void orthonormalise(double *rows, ptrdiff_t count, ptrdiff_t line) {
    for (ptrdiff_t row = 0; row < count; row++) {
        double *here = rows + row * line;
        for (int twice = 0; twice < 2; twice++) {
            for (ptrdiff_t before = 0; before < row; before++)
                subtract(here, rows + before * line, dot(here, rows + before * line, 0, line), 0, line);
            double length = __builtin_sqrt(dot(here, here, 0, line));
            if (!(length > 0.0)) break;
            scale(here, 1.0 / length, 0, line);
        }
    }
}

/* Turns rows and columns p and q of a symmetric matrix so that a[p][q] vanishes; likewise the rows of `vectors`. */
INLINE void rotate(double *a, double *vectors, int n, int p, int q) {
    double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
    double t = (theta < 0.0 ? -1.0 : 1.0) / (__builtin_fabs(theta) + __builtin_sqrt(theta * theta + 1.0));
    double c = 1.0 / __builtin_sqrt(t * t + 1.0), s = t * c;
    for (int way = 0; way < 3; way++) {
        double *one = way == 0 ? a + p : way == 1 ? a + p * n : vectors + p * n;
        double *other = way == 0 ? a + q : way == 1 ? a + q * n : vectors + q * n;
        const int step = way == 0 ? n : 1;
        for (int i = 0; i < n; i++) {
            double first = one[i * step], second = other[i * step];
            one[i * step] = c * first - s * second;
            other[i * step] = s * first + c * second;
        }
    }
    a[p * n + q] = a[q * n + p] = 0.0;
}

/* Eigenvalues of a small symmetric matrix on its diagonal, their vectors as rows, by Jacobi's rotations. */
static inline void find_eigenvectors(double *a, int n, double *vectors) {
    enum { MOST_SWEEPS = 60 };
    memset(vectors, 0, sizeof(double) * (size_t)(n * n));
    for (int i = 0; i < n; i++) vectors[i * n + i] = 1.0;
    for (int sweep = 0, turned = 1; turned && sweep < MOST_SWEEPS; sweep++) {
        turned = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                if (__builtin_fabs(a[p * n + q]) > 1e-17 * __builtin_sqrt(__builtin_fabs(a[p * n + p] * a[q * n + q]))) {
                    rotate(a, vectors, n, p, q);
                    turned = 1;
                }
    }
}
#endif
