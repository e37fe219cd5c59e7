"""Settings of the whole test run."""

import torch

# Networks in tests are small: a second thread only waits for the first, and on a busy machine it
# waits so long that a test of one second takes minutes. Tests about threads set their own number.
torch.set_num_threads(1)
