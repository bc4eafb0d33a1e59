/* What the kernels have room for. Python reads this file (`flame.kernels.limits`): each limit is stated once. */
#ifndef FLAME_LIMITS_H
#define FLAME_LIMITS_H
#define MOST_THREADS 256 /* threads that share the rows of one call */
#define MOST_TILE 2048   /* columns of an image: some rows of it lie on the stack */
#define TILE_STEP 32     /* columns of a network's tile come in multiples of this, whatever the instruction set */
#define MOST_BANDS 320   /* bands of a spectrum */
#define MOST_TAPS 640    /* inputs of one convolution: channels times the area of its kernel, or bands and fields */
#define MOST_WIDTH 64    /* feature channels of the network, on its coarser grids too */
#define MOST_HIDDEN 64   /* channels inside the segmentation head */
#define MOST_OUTPUTS 16  /* maps that the segmentation head gives */
#define MOST_MODES 12    /* Fourier modes in each direction */
#define MOST_REACH 16    /* pixels that a window of the pixel fields reaches to each side */
#define MOST_COLUMNS 16384 /* columns of a scene that the noise-aware filter looks at */
#define MOST_RESPONSES 64  /* its weights of one kind: levels, directions of the ground, functions, windows */
#define CHUNK 64           /* pixels of its sample that are added up at a time */
#define SUM_STEP 24        /* bands of its sums come in multiples of this, whatever the instruction set */
#define MOST_GAUSSIANS 8    /* Gaussians of the planes, that of the clutter among them */
#define MOST_BLUR 256      /* pixels that a Gaussian of the planes reaches to each side */
#define SIDE 32          /* floats of border left and right of an image */
#endif
