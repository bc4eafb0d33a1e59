/* Linear algebra of matrices of some hundred rows, row after row, in double. */
#ifndef FLAME_LINEAR_H
#define FLAME_LINEAR_H

/* `b`, n x m, becomes the solution of a x = b; `a` is lost. 0, or 1 if it has no inverse. */
int solve(double *a, int n, double *b, int m);

/* The inverse of `a`, which is lost. 0, or 1 if there is none. */
int invert(double *a, int n, double *inverse);

/* Eigenvalues of a symmetric matrix, rising, and their vectors as rows, by Jacobi's rotations; `a` is lost. */
void find_eigenvectors(double *a, int n, double *values, double *vectors);

/* Makes `count` rows of n numbers an orthonormal basis of what they span, in their order. */
void orthonormalise(double *rows, int count, int n);

/* The lower factor of a positive matrix, in its place. 0, or 1 if it is not positive. */
int factorise(double *a, int n);

double dot(const double *a, const double *b, int n);

/* to = matrix (rows x cols) times vector. */
void multiply(const double *matrix, int rows, int cols, const double *vector, double *to);
#endif
