"""Building blocks shared by the controllers."""

from gmc_bench.nn.decoder import LimbDecoder
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.embedding import TokenEmbedding
from gmc_bench.nn.norm import NormLinear, RMSNorm
from gmc_bench.nn.packing import Packing, make_packing
from gmc_bench.nn.recurrence import BidirectionalRNN
from gmc_bench.nn.tokens import TokenBatch, TokenTable

__all__ = [
    "BidirectionalRNN",
    "LimbDecoder",
    "MaskedGaussian",
    "NormLinear",
    "Packing",
    "RMSNorm",
    "TokenBatch",
    "TokenEmbedding",
    "TokenTable",
    "make_packing",
]
