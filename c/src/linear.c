#include "linear.h"

#include <math.h>
#include <string.h>

enum { MOST_SWEEPS = 60 };

double dot(const double *a, const double *b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

void multiply(const double *matrix, int rows, int cols, const double *vector, double *to) {
    for (int row = 0; row < rows; row++) to[row] = dot(matrix + (size_t)row * (size_t)cols, vector, cols);
}

static void subtract(double *from, const double *what, double times, int n) {
    for (int i = 0; i < n; i++) from[i] -= times * what[i];
}

static void exchange(double *a, double *b, int n) {
    for (int i = 0; i < n; i++) {
        double held = a[i];
        a[i] = b[i];
        b[i] = held;
    }
}

int solve(double *a, int n, double *b, int m) {
    for (int col = 0; col < n; col++) {
        int pivot = col;
        for (int row = col + 1; row < n; row++)
            if (fabs(a[row * n + col]) > fabs(a[pivot * n + col])) pivot = row;
        if (a[pivot * n + col] == 0.0) return 1;
        if (pivot != col) {
            exchange(a + pivot * n, a + col * n, n);
            exchange(b + pivot * m, b + col * m, m);
        }
        for (int row = col + 1; row < n; row++) {
            double times = a[row * n + col] / a[col * n + col];
            if (times == 0.0) continue;
            subtract(a + row * n + col, a + col * n + col, times, n - col);
            subtract(b + row * m, b + col * m, times, m);
        }
    }
    for (int row = n - 1; row >= 0; row--) {
        for (int col = row + 1; col < n; col++) subtract(b + row * m, b + col * m, a[row * n + col], m);
        for (int i = 0; i < m; i++) b[row * m + i] /= a[row * n + row];
    }
    return 0;
}

int invert(double *a, int n, double *inverse) {
    memset(inverse, 0, sizeof(double) * (size_t)n * (size_t)n);
    for (int i = 0; i < n; i++) inverse[i * n + i] = 1.0;
    return solve(a, n, inverse, n);
}

/* Turns rows and columns p and q so that a[p][q] vanishes. */
static void rotate(double *a, double *vectors, int n, int p, int q) {
    double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
    double t = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
    double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    for (int i = 0; i < n; i++) {
        double one = a[i * n + p], other = a[i * n + q];
        a[i * n + p] = c * one - s * other;
        a[i * n + q] = s * one + c * other;
    }
    for (int i = 0; i < n; i++) {
        double one = a[p * n + i], other = a[q * n + i];
        a[p * n + i] = c * one - s * other;
        a[q * n + i] = s * one + c * other;
    }
    for (int i = 0; i < n; i++) {
        double one = vectors[p * n + i], other = vectors[q * n + i];
        vectors[p * n + i] = c * one - s * other;
        vectors[q * n + i] = s * one + c * other;
    }
    a[p * n + q] = a[q * n + p] = 0.0;
}

void find_eigenvectors(double *a, int n, double *values, double *vectors) {
    memset(vectors, 0, sizeof(double) * (size_t)n * (size_t)n);
    for (int i = 0; i < n; i++) vectors[i * n + i] = 1.0;
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        int turned = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double left = fabs(a[p * n + q]);
                if (!(left > 1e-17 * sqrt(fabs(a[p * n + p] * a[q * n + q])))) continue;
                rotate(a, vectors, n, p, q);
                turned = 1;
            }
        if (!turned) break;
    }
    for (int i = 0; i < n; i++) values[i] = a[i * n + i];
    for (int i = 0; i < n; i++) {
        int least = i;
        for (int j = i + 1; j < n; j++)
            if (values[j] < values[least]) least = j;
        if (least == i) continue;
        exchange(values + i, values + least, 1);
        exchange(vectors + i * n, vectors + least * n, n);
    }
}

void orthonormalise(double *rows, int count, int n) {
    for (int row = 0; row < count; row++) {
        double *here = rows + row * n;
        for (int twice = 0; twice < 2; twice++) {
            for (int before = 0; before < row; before++)
                subtract(here, rows + before * n, dot(here, rows + before * n, n), n);
            double length = sqrt(dot(here, here, n));
            if (!(length > 0.0)) break;
            for (int i = 0; i < n; i++) here[i] /= length;
        }
    }
}

int factorise(double *a, int n) {
    for (int row = 0; row < n; row++)
        for (int col = 0; col <= row; col++) {
            double rest = a[row * n + col] - dot(a + row * n, a + col * n, col);
            if (row != col) {
                a[row * n + col] = rest / a[col * n + col];
                continue;
            }
            if (!(rest > 0.0)) return 1;
            a[row * n + row] = sqrt(rest);
        }
    return 0;
}
