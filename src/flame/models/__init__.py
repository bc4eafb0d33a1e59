"""Torch models: spectral layers, backbones, heads, FLAME, export."""
