/* Kinds of activation. */
#ifndef FLAME_ACTIVATIONS_H
#define FLAME_ACTIVATIONS_H
enum { LINEAR, LEAKY, RELU, GELU };
#endif
