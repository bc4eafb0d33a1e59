"""One thread: small tensors gain nothing from two, and tests share the machine."""

import torch

torch.set_num_threads(1)
