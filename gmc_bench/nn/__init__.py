"""Building blocks shared by the controllers."""

from gmc_bench.nn.attention import AttentionLayer, SelfAttention, attention_mask
from gmc_bench.nn.decoder import HeightMapEncoder, LimbDecoder
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.embedding import TokenEmbedding
from gmc_bench.nn.fixed_attention import FixedAttentionLayer
from gmc_bench.nn.graph import LimbGraph
from gmc_bench.nn.grouped_linear import grouped_linear, plan_groups, take_rows
from gmc_bench.nn.history import History
from gmc_bench.nn.norm import NormLinear, RMSNorm
from gmc_bench.nn.packing import Packing, make_packing
from gmc_bench.nn.per_body import PerBody, fixed_weights
from gmc_bench.nn.recurrence import BidirectionalGRU, BidirectionalLSTM, BidirectionalRNN
from gmc_bench.nn.ssd import BidirectionalMamba2
from gmc_bench.nn.tap import Tap, limb_rows, watch_representations
from gmc_bench.nn.tokens import TokenBatch, TokenTable

__all__ = [
    "AttentionLayer",
    "BidirectionalGRU",
    "BidirectionalLSTM",
    "BidirectionalMamba2",
    "BidirectionalRNN",
    "FixedAttentionLayer",
    "HeightMapEncoder",
    "History",
    "LimbDecoder",
    "LimbGraph",
    "MaskedGaussian",
    "NormLinear",
    "Packing",
    "PerBody",
    "RMSNorm",
    "SelfAttention",
    "Tap",
    "TokenBatch",
    "TokenEmbedding",
    "TokenTable",
    "attention_mask",
    "fixed_weights",
    "grouped_linear",
    "limb_rows",
    "make_packing",
    "plan_groups",
    "take_rows",
    "watch_representations",
]
