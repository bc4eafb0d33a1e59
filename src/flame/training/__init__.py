"""Torch training: tiles, augmentation, losses, curriculum, loop, checkpoints."""
