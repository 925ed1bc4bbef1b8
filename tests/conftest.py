"""Set-up shared by all tests."""

import torch

# The graphs are tiny; a second thread only costs.
torch.set_num_threads(1)
