"""One thread, and the toy tiles of the model tests."""

import sys
from pathlib import Path

import torch

torch.set_num_threads(1)
sys.path.append(str(Path(__file__).parents[1] / "models"))
