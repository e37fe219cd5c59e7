"""Every conformance check must catch the fault it is there for."""

import dataclasses
import itertools
import math
import sys
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance import method_checks
from gmc_bench.conformance.check_method import check_method
from gmc_bench.conformance.method_checks import CHECKS, COMPARISONS
from gmc_bench.conformance.method_subject import CheckFailedError, make_subject
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS, Capabilities, MethodSpec
from gmc_bench.nn import HeightMapEncoder, LimbDecoder, PerBody, Tap


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 8


class Sound(nn.Module):
    """A linear map per limb, without communication."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.linear = LimbDecoder(spec, spec.num_features, num_outputs)

    def forward(self, tokens):
        return self.linear(tokens.packed_features, tokens)


class ReadsPadding(Sound):
    def forward(self, tokens):
        return super().forward(tokens) + tokens.dynamic.mean(dim=(1, 2), keepdim=True)


class IsNoNumberIfPaddingIsLarge(Sound):
    """Infinity times zero is not a number."""

    def forward(self, tokens):
        return super().forward(tokens) + 0 * tokens.dynamic.exp().sum(dim=(1, 2), keepdim=True)


class MixesBodies(Sound):
    def forward(self, tokens):
        limbs = super().forward(tokens)
        return limbs + limbs[:, :1].mean(dim=0, keepdim=True)


class ReadsOtherBodies(Sound):
    """Standardises a context feature over the bodies of the table."""

    def forward(self, tokens):
        context = tokens.table.scaled_context
        own = context[tokens.morphology_index] - context.mean(dim=(0, 1))
        return super().forward(tokens) + own[..., :1]


class CountsBodies(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * len(tokens.table)


class ReadsOtherBodiesIfFew(Sound):
    def forward(self, tokens):
        first = tokens.table.scaled_context[0].mean() if len(tokens.table) < 2 else 0.0
        return super().forward(tokens) + first


class CountsSlots(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * tokens.spec.max_limbs


class HasDeadParameter(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.unused = nn.Parameter(torch.ones(3))


class HasManyParameters(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.more = nn.Parameter(torch.ones(100))


class HasNoGradient(Sound):
    def forward(self, tokens):
        return super().forward(tokens).detach()


class BorrowsWeights(Sound):
    """The critic reads what the actor has learnt, out of sight of torch."""

    lender: ClassVar[list[nn.Module]] = []

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.others = list(self.lender) if num_outputs == 1 else []
        self.lender[:] = [self.linear]

    def forward(self, tokens):
        found = super().forward(tokens)
        for other in self.others:
            found = found + other(tokens.packed_features, tokens).mean(dim=-1, keepdim=True)
        return found


class LendsWeights(Sound):
    """The actor reads what the critic, which is built after it, has learnt."""

    borrower: ClassVar[list[nn.Module]] = []

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.others = []
        if num_outputs == 1:
            self.borrower[0].others = [self.linear]
        self.borrower[:] = [self]

    def forward(self, tokens):
        found = super().forward(tokens)
        for other in self.others:
            found = found + other(tokens.packed_features, tokens)
        return found


class LearnsNoValues(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear.requires_grad_(num_outputs > 1)


class HoldsStill(nn.Module):
    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.num_outputs = num_outputs

    def forward(self, tokens):
        return tokens.dynamic.new_zeros(*tokens.dynamic.shape[:2], self.num_outputs)


class HasRootOfZero(Sound):
    """The gradient of a square root at zero is infinite, and not a number times zero."""

    def forward(self, tokens):
        bias = self.linear.output.bias
        return super().forward(tokens) + 0 * (bias - bias).sum().sqrt()


class CallsBackward(Sound):
    """Trains on a loss of its own beside the protocol's."""

    def forward(self, tokens):
        found = super().forward(tokens)
        if found.requires_grad:
            found.square().mean().backward(retain_graph=True)
        return found


class TrainsItself(Sound):
    def forward(self, tokens):
        if self.training and torch.is_grad_enabled():
            self.linear.output.bias.data += 1e-3
        return super().forward(tokens)


class TrainsItselfLater(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear.output.bias.register_post_accumulate_grad_hook(self.train_bias)

    @staticmethod
    def train_bias(bias):
        bias.data -= 1e-3 * bias.grad


class ScalesGradient(Sound):
    """A larger rate for one tensor."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear.output.bias.register_hook(lambda gradient: 2 * gradient)


class ScalesGradientInFloat32(ScalesGradient):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear.output.weight.register_hook(lambda gradient: 10 * gradient)

    def forward(self, tokens):
        return super().forward(tokens).float()


class AddsNothing(torch.autograd.Function):
    """In float32 alone, as compiled code may, with a wrong gradient."""

    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 1.1 * gradient if gradient.dtype == torch.float32 else gradient


class HasWrongBackward(Sound):
    def forward(self, tokens):
        return AddsNothing.apply(super().forward(tokens))


class RoundsInside(Sound):
    """Sound: it computes in float32 whatever it is given."""

    def forward(self, tokens):
        found = super().forward(tokens)
        return found.float().sin().to(found.dtype)


class TakesFloat32Only(Sound):
    def forward(self, tokens):
        if self.linear.output.weight.dtype != torch.float32:
            raise TypeError("expected float32")
        return super().forward(tokens).sin()


class FillsPadding(Sound):
    """Puts out no numbers in padding, which count nowhere."""

    def forward(self, tokens):
        return super().forward(tokens).masked_fill(tokens.limb_padding_mask[..., None], math.nan)


class HidesTensor(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.hidden = torch.rand(1)

    def forward(self, tokens):
        return super().forward(tokens) + self.hidden


class CountsUpdates(Sound):
    """Anneals something over the gradient steps that it has seen, in Python."""

    updates = 0

    def forward(self, tokens):
        if self.training and torch.is_grad_enabled():
            self.updates += 1
        return super().forward(tokens) * (1 + self.updates)


class CountsUpdatesInTraining(CountsUpdates):
    """Acts as it should, but a resumed training starts to count again."""

    def forward(self, tokens):
        found = super().forward(tokens)
        return found if self.training else Sound.forward(self, tokens)


class CountsForAll(Sound):
    """Counts in the class: a policy that is loaded in the same process goes on counting."""

    calls: ClassVar[list] = []

    def forward(self, tokens):
        if not self.training and len(tokens) == 2 and tokens.dynamic.any():  # acts
            self.calls.append(1)
        return super().forward(tokens) * (1 + len(self.calls) // 20)


class DrawsFromNumpy(Sound):
    source = np.random.default_rng(0)

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear.output.bias.data += float(self.source.random())


class SeedsWhenBuilt(Sound):
    def __init__(self, config, spec, num_outputs):
        torch.manual_seed(0)
        super().__init__(config, spec, num_outputs)


class SeedsWhenCalled(Sound):
    def forward(self, tokens):
        torch.manual_seed(0)
        return super().forward(tokens)


class KeepsModules(Sound):
    """Two actors of one process have the same weights; actor and critic have their own."""

    kept: ClassVar[dict] = {}

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear = self.kept.setdefault((spec, num_outputs), self.linear)


class DrawsFromNumpyInTraining(Sound):
    source = np.random.default_rng(0)

    def forward(self, tokens):
        return super().forward(tokens) * (self.source.random() if self.training else 1.0)


class CentresInTraining(Sound):
    """What limbs put out in updates depends on the bodies that share the minibatch."""

    def forward(self, tokens):
        limbs = super().forward(tokens)
        return limbs - limbs.mean() if self.training else limbs


class Drops(Sound):
    def forward(self, tokens):
        return nn.functional.dropout(super().forward(tokens), 0.5, self.training)


class DropsOften(Sound):
    """Dropout as a module, a function, a part of attention and of a recurrence over limbs."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.module = nn.Dropout(0.5)
        self.cell = nn.GRU(num_outputs, num_outputs, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, tokens):
        limbs = nn.functional.dropout(self.module(super().forward(tokens)), 0.5, self.training)
        limbs = torch.dropout(limbs, 0.5, self.training)
        limbs = nn.functional.alpha_dropout(limbs, 0.5, self.training)
        limbs = torch.dropout(input=limbs, p=0.5, train=self.training)
        rate = 0.5 if self.training else 0.0
        each = limbs.flatten(0, 1).unsqueeze(1)  # a limb attends to itself alone
        each = nn.functional.scaled_dot_product_attention(each, each, each, dropout_p=rate)
        each = nn.functional.scaled_dot_product_attention(each, each, each, None, rate)
        return self.cell(each.view_as(limbs))[0]


class DropsInAttention(Sound):
    """Dropout in torch's module for attention, with and without its weights, and its function."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.attention = nn.MultiheadAttention(num_outputs, 1, dropout=0.5, batch_first=True)

    def forward(self, tokens):
        limbs, part = super().forward(tokens), self.attention
        each = limbs.flatten(0, 1).unsqueeze(1)  # a limb attends to itself alone
        for weights in (True, False):
            each = part(each, each, each, need_weights=weights)[0]
        each, _ = nn.functional.multi_head_attention_forward(
            *(each, each, each, each.shape[-1], 1, part.in_proj_weight, part.in_proj_bias),
            *(None, None, False),
            dropout_p=0.5,
            out_proj_weight=part.out_proj.weight,
            out_proj_bias=part.out_proj.bias,
            training=self.training,
        )
        return each.view_as(limbs)


class DropsAndCentres(Sound):
    """What limbs put out in updates depends on the minibatch, beside dropout."""

    def forward(self, tokens):
        limbs = super().forward(tokens)
        limbs = limbs - limbs.mean() if self.training else limbs
        return nn.functional.dropout(limbs, 0.5, self.training)


class DropsTheSame(Sound):
    def forward(self, tokens):
        if self.training:
            torch.manual_seed(0)
        return nn.functional.dropout(super().forward(tokens), 0.5, self.training)


class DropsForSomeInputs(Sound):
    def forward(self, tokens):
        drops = self.training and bool(tokens.dynamic.any())
        return nn.functional.dropout(super().forward(tokens), 0.5, drops)


class AddsNoiseInTraining(Sound):
    def forward(self, tokens):
        limbs = super().forward(tokens)
        return limbs + 0.1 * torch.randn_like(limbs) if self.training else limbs


class UsesSlots(Sound):
    def forward(self, tokens):
        slots = torch.arange(tokens.spec.max_limbs).view(1, -1, 1)
        return super().forward(tokens) * (1 + slots)


class CountsParentsBehind(Sound):
    """In a depth-first order there are none, whatever the order of siblings is."""

    def forward(self, tokens):
        behind = tokens.parents > torch.arange(tokens.spec.max_limbs)
        return super().forward(tokens) + behind.sum(dim=1).view(-1, 1, 1)


class ReadsParents(Sound):
    def forward(self, tokens):
        slots = torch.arange(tokens.spec.max_limbs).view(1, -1, 1)
        num_children = (tokens.parents.unsqueeze(1) == slots).sum(dim=2, keepdim=True)
        return super().forward(tokens) + num_children


class CountsLoops(Sound):
    def forward(self, tokens):
        found = super().forward(tokens)
        if tokens.table.loops is None:
            return found
        count = (tokens.table.loops[..., 0] >= 0).sum(dim=1)[tokens.morphology_index]
        return found + count.view(-1, 1, 1)


class CountsLoopsOfAll(Sound):
    def forward(self, tokens):
        found = super().forward(tokens)
        return found if tokens.table.loops is None else found + tokens.table.loops.shape[1]


class ReadsLoopMarks(Sound):
    """-1, where a body has fewer loops, is the last slot for torch: padding."""

    def forward(self, tokens):
        found = super().forward(tokens)
        if tokens.table.loops is None:
            return found
        ends = tokens.table.loops[tokens.morphology_index, :, 0]
        rows = torch.arange(len(tokens)).unsqueeze(1)
        return found + tokens.dynamic[rows, ends].sum(dim=(1, 2)).view(-1, 1, 1)


class ReadsPaddingOfLoops(Sound):
    """What stands in padding counts for bodies with closed loops alone."""

    def forward(self, tokens):
        found = super().forward(tokens)
        if tokens.table.loops is None:
            return found
        closed = (tokens.table.loops >= 0).flatten(1).any(dim=1)[tokens.morphology_index]
        return found + closed.view(-1, 1, 1) * tokens.dynamic.mean(dim=(1, 2), keepdim=True)


class CountsSlotsOfLoops(Sound):
    """Knows the limbs that a loop joins by their places."""

    def forward(self, tokens):
        found = super().forward(tokens)
        if tokens.table.loops is None:
            return found
        ends = tokens.table.loops.clamp(min=0).sum(dim=(1, 2))
        return found + ends[tokens.morphology_index].view(-1, 1, 1)


class HasRootOfLoops(Sound):
    """As `HasRootOfZero`, where loops are closed."""

    def forward(self, tokens):
        found = super().forward(tokens)
        return found if tokens.table.loops is None else found + (found - found).sqrt()


class Overflows(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * torch.where(tokens.dynamic.amax() > 1, torch.inf, 1.0)


class WritesInput(Sound):
    def forward(self, tokens):
        tokens.features.mul_(0.5)
        return super().forward(tokens)


class WritesTable(Sound):
    def forward(self, tokens):
        tokens.table.scaled_context.mul_(0.5)
        return super().forward(tokens)


class AllowsAllActions(Sound):
    """Takes the mask of missing actuators away from the distribution of actions."""

    def forward(self, tokens):
        tokens.action_padding_mask.zero_()
        return super().forward(tokens)


class NeedsTwoBodies(Sound):
    def forward(self, tokens):
        if len(tokens) < 2:
            raise ValueError("batch norm needs two bodies")
        return super().forward(tokens)


class DropsAlways(Sound):
    def forward(self, tokens):
        return nn.functional.dropout(
            super().forward(tokens), 0.1, training=bool(tokens.dynamic.any())
        )


class RemembersInside(Sound):
    """Adds what it saw last: a memory that nobody resets."""

    last = 0.0

    def forward(self, tokens):
        before, self.last = self.last, tokens.dynamic[0].mean()
        return super().forward(tokens) + before


class LooksUpTableRow(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * (1 + tokens.morphology_index.view(-1, 1, 1))


class HasTwoActuatorsPerLimb(Sound):
    def forward(self, tokens):
        first, second = (~tokens.action_padding_mask).unbind(dim=2)
        return super().forward(tokens) * (1 + 0.1 * (first & second).unsqueeze(2))


class TakesTwoActuatorsAtMost(Sound):
    def forward(self, tokens):
        if tokens.action_padding_mask.shape[2] > 2:
            raise ValueError("a limb has two actuators at most")
        return super().forward(tokens)


class HasRootOfSpread(Sound):
    """As `HasRootOfZero`, where a body is a torso alone."""

    def forward(self, tokens):
        found = super().forward(tokens)
        limbs = [f[:n] for f, n in zip(found, tokens.num_limbs, strict=True)]
        spread = torch.stack([limb.var(dim=0, correction=0).sqrt() for limb in limbs])
        return found + spread.unsqueeze(1)


class DividesBySpread(Sound):
    """The standard deviation of one number is not a number."""

    def forward(self, tokens):
        limbs = [f[:n] for f, n in zip(tokens.features, tokens.num_limbs, strict=True)]
        spread = torch.stack([limb.mean(dim=1).std() for limb in limbs])
        return super().forward(tokens) / (1 + spread.view(-1, 1, 1))


class NormalisesBatch(Sound):
    """Independent of other bodies in evaluation mode, but not while it is trained."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.norm = nn.BatchNorm1d(spec.num_features, affine=False)

    def forward(self, tokens):
        return self.linear(self.norm(tokens.packed_features), tokens)


class IgnoresHeightMap(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, dataclasses.replace(spec, num_heights=0), num_outputs)


class EncodesHeightMap(IgnoresHeightMap):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        heights = spec.num_heights
        self.encoder = HeightMapEncoder(heights, (num_outputs,)) if heights else None


class WritesHeightMap(EncodesHeightMap):
    def forward(self, tokens):
        limbs = super().forward(tokens)
        if self.encoder is None:
            return limbs
        return limbs + self.encoder(tokens.height_map.mul_(0.5)).unsqueeze(1)


class SharesHeightMap(EncodesHeightMap):
    """Adds an encoding of the mean height map of the batch."""

    def forward(self, tokens):
        limbs = super().forward(tokens)
        return limbs + self.encoder(tokens.height_map).mean(dim=0) if self.encoder else limbs


class KeepsStaleResults(Sound):
    kept = None

    def forward(self, tokens):
        if self.kept is None and tokens.dynamic.any():
            self.kept = self.linear.output.bias.sum().detach().clone()
        return super().forward(tokens) + (0.0 if self.kept is None else self.kept)


class RanksBodies(PerBody):
    """Wrong: the result of a body depends on which others are computed with it."""

    def compute(self, table, bodies):
        return (torch.arange(len(bodies)).float() + 1,)


class KeepsWrongResults(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.rank = RanksBodies()

    def forward(self, tokens):
        (values,), index = self.rank(tokens)
        return super().forward(tokens) * values[index].view(-1, 1, 1)


class CountsRows(Sound):
    """Padding among its rows counts, although it says that it does not."""

    padded_rows = True

    def forward(self, tokens):
        packing = tokens.packing
        count = packing.unpack(torch.ones(packing.num_rows, 1)).sum(dim=1, keepdim=True)
        return super().forward(tokens) * count


class LearnsFromPadding(Sound):
    padded_rows = True

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, tokens):
        rows = tokens.packing.pack(tokens.dynamic[..., :1]).sum() * self.gain
        return super().forward(tokens) + (rows - rows.detach())


class CancelsDigits(Sound):
    """256.3 has no digit behind the point in bfloat16."""

    def forward(self, tokens):
        return super().forward(tokens) + 256.0 - 256.0


class ShiftsHalf(Sound):
    """Each number is off by little beside the largest one, and by much beside the usual ones."""

    def forward(self, tokens):
        found = super().forward(tokens) ** 3
        return found + 0.035 * found.abs().max() if found.dtype == torch.bfloat16 else found


class HoldsHalfWeight(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.gain = nn.Parameter(torch.ones(1, dtype=torch.float16))

    def forward(self, tokens):
        return super().forward(tokens) * self.gain


class DiffersWhenCompiled(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * (2.0 if torch.compiler.is_compiling() else 1.0)


class LearnsOtherwiseWhenCompiled(Sound):
    def forward(self, tokens):
        bias = self.linear.output.bias.sum() if torch.compiler.is_compiling() else torch.zeros(())
        return super().forward(tokens) + (bias - bias.detach())


class Remembers(Sound):
    """Adds a running sum of what each limb saw and did."""

    state_width = 1
    sequence_length = 4

    def forward(self, tokens, history):
        state, sums = history.state, []
        seen = tokens.dynamic.mean(dim=-1, keepdim=True)
        seen = seen.masked_fill(tokens.limb_padding_mask.unsqueeze(-1), 0.0)
        seen = seen.view(*history.starts.shape, -1, 1) + history.previous_actions.mean(-1, True)
        for now, starts in zip(seen, history.starts, strict=True):
            state = self.update(state.masked_fill(starts.view(-1, 1, 1), 0.0), now)
            sums.append(state)
        return super().forward(tokens) + torch.cat(sums), state

    def update(self, state, now):
        return state + now


class ScalesActions(Remembers):
    def forward(self, tokens, history):
        history.previous_actions.mul_(0.5)
        return super().forward(tokens, history)


class CountsState(Remembers):
    """Remembers another number the more often it was trained, which the outputs do not show yet."""

    updates = 0

    def forward(self, tokens, history):
        outputs, state = super().forward(tokens, history)
        if self.training and torch.is_grad_enabled():
            self.updates += 1
        return outputs, state + self.updates


class ForgetsAtOnce(Remembers):
    def forward(self, tokens, history):
        return Sound.forward(self, tokens), super().forward(tokens, history)[1]


class SharesMemory(Remembers):
    def update(self, state, now):
        return state.mean(dim=0, keepdim=True) + now


class KeepsOddSequences(Remembers):
    sequence_length = 24


class IgnoresStarts(Remembers):
    def forward(self, tokens, history):
        no_starts = torch.zeros_like(history.starts)
        return super().forward(tokens, dataclasses.replace(history, starts=no_starts))


class KeepsTheFirstBody(Remembers):
    """Takes the limbs of the first step for those of all steps."""

    def forward(self, tokens, history):
        steps, envs = history.starts.shape
        first = tokens.morphology_index[:envs].repeat(steps)
        return super().forward(dataclasses.replace(tokens, morphology_index=first), history)


class Shows(Sound):
    """Adds the mean of the body to every limb, with taps before and after."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.before_communication, self.after_communication = Tap(), Tap()

    def mixed(self, rows, tokens):
        packing = tokens.packing
        total = rows.new_zeros(len(tokens), rows.shape[1]).index_add(0, packing.bodies, rows)
        return rows + (total / tokens.num_limbs.unsqueeze(1))[packing.bodies]

    def forward(self, tokens):
        rows = self.mixed(self.before_communication(tokens.packed_features), tokens)
        return self.linear(self.after_communication(rows), tokens)


class ShowsMixedLimbs(Shows):
    def forward(self, tokens):
        rows = self.before_communication(self.mixed(tokens.packed_features, tokens))
        return self.linear(self.after_communication(self.mixed(rows, tokens)), tokens)


class PerBodyWeights(nn.Module):
    """A linear map for each body."""

    def __init__(self, config, spec, num_outputs, num_bodies):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(num_bodies, spec.num_features, num_outputs))
        self.height_map = HeightMapEncoder(spec.num_heights, (1,)) if spec.num_heights else None

    def forward(self, tokens):
        outputs = torch.bmm(tokens.features, self.weight[tokens.morphology_index])
        if self.height_map is None:
            return outputs
        return outputs + self.height_map(tokens.height_map).unsqueeze(1)


class SharedBias(PerBodyWeights):
    def __init__(self, *args):
        super().__init__(*args)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        return super().forward(tokens) + self.bias


COUNT = 2 * 52 + 2 + 52 + 1


@pytest.fixture(autouse=True)
def _small_methods(monkeypatch):
    monkeypatch.setattr(method_checks, "LITE_PARAMETERS", COUNT)


def spec(builder, *, count=COUNT, equivariant=True, **claims):
    return MethodSpec(
        id="fake",
        paper="unpublished",
        config=Config,
        presets={"paper": {}, "lite": {}},
        parameters={"paper": count, "lite": count},
        builder=builder,
        capabilities=Capabilities(permutation_equivariant=equivariant, **claims),
    )


PER_BODY = spec(PerBodyWeights, count=3 * 52, per_body=True)
TEMPORAL = spec(Remembers, temporal=True)


def failures(method, backend="none", **options):
    results = check_method(method, backend=backend, **options)
    return {result.name: result.detail for result in results if result.passed is False}


@pytest.mark.parametrize(
    "method", [spec(Sound), spec(Shows), spec(Drops), spec(FillsPadding), TEMPORAL, PER_BODY]
)
def test_a_sound_method_passes_every_check(method):
    results = check_method(method, "lite")
    assert [result for result in results if not result.passed] == []
    assert [result.name for result in results] == ["description", "build", *CHECKS]


def test_a_method_without_anything_to_train_is_not_asked_for_gradients():
    method = dataclasses.replace(spec(HoldsStill, count=0), trainable=False)
    results = check_method(method, "lite")
    assert [result for result in results if not result.passed] == []
    assert [item.detail for item in results if item.name == "gradients"] == ["nothing to train"]


def test_surrogate_gradients_are_declared():
    _, found = check_method(
        spec(ScalesGradient, surrogate_gradients=True), "lite", checks=["gradients"], backend="none"
    )
    assert found.passed
    assert found.detail == "4 tensors; not compared with the outputs, as declared"
    assert "gradients" in failures(spec(CallsBackward, surrogate_gradients=True))


FAULTS = [
    (spec(Sound, count=158), "parameter counts", "preset 'paper' has 159"),
    (spec(HasManyParameters, count=359), "parameter counts", "has 359 trainable parameters in"),
    (spec(NeedsTwoBodies), "output shapes", "batch norm needs two bodies"),
    (spec(Overflows), "finite outputs", "the actor's outputs must be finite: environment 0"),
    (spec(WritesInput), "inputs unchanged", "actor changed its input: tokens.features"),
    (spec(WritesTable), "inputs unchanged", "actor changed its input: table.scaled_context"),
    (spec(AllowsAllActions), "inputs unchanged", "changed its input: tokens.action_padding_mask"),
    (spec(ScalesActions, temporal=True), "inputs unchanged", "input: history.previous_actions"),
    (spec(ReadsPadding), "padding ignored", "filling padding with 1e+06 changes the actor's"),
    (spec(IsNoNumberIfPaddingIsLarge), "padding ignored", "output 0 is nan, expected"),
    (spec(MixesBodies), "bodies independent", "into one batch changes the actor's outputs"),
    (spec(ReadsOtherBodies), "bodies independent", "putting more bodies into the table"),
    (spec(CountsBodies), "bodies independent", "putting more bodies into the table changes"),
    (spec(ReadsOtherBodiesIfFew), "bodies independent", "leaving the other bodies out of the"),
    (spec(CountsSlots), "more token slots", "adding token slots changes the actor's outputs"),
    (spec(HasTwoActuatorsPerLimb), "other layouts", "not enough values to unpack"),
    (spec(TakesTwoActuatorsAtMost), "other layouts", "a limb has two actuators at most"),
    (spec(HasRootOfSpread), "other layouts", "the actor's 'linear.output.weight' has 41 numbers"),
    (spec(DividesBySpread), "other layouts", "with 1 limbs), slot 0, output 0 is nan"),
    (spec(HasDeadParameter, count=165), "gradients", "get no gradient in 4 random batches: unused"),
    (spec(HasNoGradient), "gradients", "2 of 2 parameter tensors of the actor get no gradient"),
    (spec(BorrowsWeights), "gradients", "the critic's outputs change with the weights of the"),
    (spec(LendsWeights), "gradients", "the actor's outputs change with the weights of the critic"),
    (spec(LearnsNoValues, count=106), "gradients", "the critic has no trainable parameter, but"),
    (spec(HasRootOfZero), "gradients", "'linear.output.bias' has 2 numbers that are not finite"),
    (
        spec(CallsBackward),
        "gradients",
        "leaves a gradient in 'linear.output.weight', expected",
    ),
    (spec(TrainsItself), "gradients", "a forward pass of the actor in training mode changes"),
    (spec(TrainsItselfLater), "gradients", "a backward pass of the actor in training mode changes"),
    (spec(ScalesGradient), "gradients", "the gradients of the actor promise that its outputs rise"),
    (spec(ScalesGradientInFloat32), "gradients", "the gradients of the actor promise that its out"),
    (spec(HasWrongBackward), "gradients", "'linear.output.weight' differs by"),
    (spec(HidesTensor), "state dict", "saving and loading the state dict changes the actor's"),
    (spec(CountsUpdates), "state dict", "the state dict after 10 steps of training in evaluation"),
    (spec(CountsUpdatesInTraining), "state dict", "10 steps of training in training mode changes"),
    (spec(CountsForAll), "state dict", "going back to the weights of before, after some steps of"),
    (spec(CountsState, temporal=True), "state dict", "changes the memory that the policy returns"),
    (spec(DrawsFromNumpy), "seeded build", "'actor.linear.output.bias' differs between two builds"),
    (spec(SeedsWhenBuilt), "seeded build", "different torch seeds leave torch's global generator"),
    (spec(SeedsWhenCalled), "seeded build", "do not seed it in builder or network"),
    (spec(KeepsModules), "seeded build", "two builds share 'actor.linear.output.weight', expected"),
    (spec(DropsAndCentres), "repeatable", "training mode, apart from dropout, changes the actor's"),
    (spec(DropsTheSame), "repeatable", "in the same state whatever the seed"),
    (spec(DropsForSomeInputs), "repeatable", "draws from torch's generator here, but not for"),
    (spec(DropsAlways), "repeatable", "calling it again changes the actor's outputs"),
    (spec(DrawsFromNumpyInTraining), "repeatable", "in training mode, with the same torch seed,"),
    (spec(CentresInTraining), "repeatable", "training mode, apart from dropout, changes"),
    (spec(UsesSlots), "limb order", "swapping siblings changes the actor's outputs"),
    (spec(CountsParentsBehind, uses_graph=True), "limb order", "reordering the limbs changes the"),
    (spec(Sound, equivariant=False), "limb order", "declare the capability"),
    (spec(ReadsParents), "limb tree", "'uses_graph' is not claimed, but"),
    (spec(Sound, uses_graph=True), "limb tree", "but 'uses_graph' is claimed"),
    (spec(CountsLoops), "closed loops", "'uses_graph' is not claimed, but closing loops"),
    (
        spec(CountsLoopsOfAll, uses_graph=True),
        "closed loops",
        "closing loops of other bodies changes the actor's",
    ),
    (spec(ReadsLoopMarks, uses_graph=True), "closed loops", "closing loops of other bodies"),
    (
        spec(ReadsPaddingOfLoops, uses_graph=True),
        "closed loops",
        "filling the padding of bodies with loops with 1e+06 changes the actor's",
    ),
    (
        spec(CountsSlotsOfLoops, uses_graph=True),
        "closed loops",
        "reordering the limbs of bodies with loops changes the actor's",
    ),
    (spec(HasRootOfLoops), "closed loops", "numbers that are not finite"),
    (spec(RemembersInside), "memory", "having seen other inputs before changes the actor's"),
    (spec(NormalisesBatch), "memory", "in training mode changes 'actor.norm.running_mean'"),
    (spec(ForgetsAtOnce, temporal=True), "memory", "but 'temporal' is claimed"),
    (spec(SharesMemory, temporal=True), "memory", "zero state for environments [1, 4]"),
    (spec(KeepsOddSequences, temporal=True), "sequence length", "must divide 16, so that the"),
    (spec(IgnoresStarts, temporal=True), "steps at once", "5 steps at once, in place of single"),
    (spec(KeepsTheFirstBody, temporal=True), "steps at once", "5 steps at once, in place of"),
    (spec(LooksUpTableRow), "weights per body", "another order of the bodies in the table"),
    (spec(SharedBias, per_body=True), "weights per body", "bodies 0 and 1 share 1 numbers"),
    (spec(IgnoresHeightMap), "height map", "another height map changes the actor's outputs of"),
    (spec(WritesHeightMap), "height map", "the actor changed its input: tokens.height_map; work"),
    (spec(SharesHeightMap), "height map", "another height map of environment 0 changes"),
    (spec(ShowsMixedLimbs), "representations", "move 'before_communication' of the actor for"),
    (spec(KeepsStaleResults), "fixed weights", "having run with other weights before changes"),
    (spec(KeepsWrongResults), "fixed weights", "calling it within `fixed_weights` changes"),
    (spec(CountsRows), "padded rows", "adding rows of padding, which the attribute"),
    (
        spec(LearnsFromPadding),
        "padded rows",
        "change the gradient of the actor's 'gain' by",
    ),
    (spec(CancelsDigits), "bfloat16", "under bfloat16 autocast changes the actor's outputs"),
    (spec(ShiftsHalf), "bfloat16", "turns the actor's outputs: their cosine with those of"),
    (spec(HoldsHalfWeight), "bfloat16", "of the actor's 'gain' is torch.float16"),
]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize(
    ("method", "check", "sentence"), FAULTS, ids=lambda item: getattr(item, "__name__", None)
)
def test_each_fault_is_caught_by_its_check(method, check, sentence):
    assert sentence in failures(method, checks=[check])[check]


class Bears(Sound):
    padded_rows = True


CRITICS_FAULTS = [
    (Sound, Overflows, "finite outputs"),
    (Sound, WritesInput, "inputs unchanged"),
    (Sound, DropsAlways, "repeatable"),
    (Sound, ReadsPadding, "padding ignored"),
    (Sound, MixesBodies, "bodies independent"),
    (Sound, CountsSlots, "more token slots"),
    (Sound, HasRootOfSpread, "other layouts"),
    (Sound, HasNoGradient, "gradients"),
    (Sound, HidesTensor, "state dict"),
    (Sound, UsesSlots, "limb order"),
    (Sound, ReadsParents, "limb tree"),
    (Sound, CountsLoops, "closed loops"),
    (Sound, RemembersInside, "memory"),
    (Remembers, SharesMemory, "memory"),
    (Remembers, IgnoresStarts, "steps at once"),
    (Sound, LooksUpTableRow, "weights per body"),
    (Sound, IgnoresHeightMap, "height map"),
    (Shows, ShowsMixedLimbs, "representations"),
    (Sound, KeepsWrongResults, "fixed weights"),
    (Bears, CountsRows, "padded rows"),
    (Sound, CancelsDigits, "bfloat16"),
]
"""Class of the actor, which is sound, class of the critic, and the check that looks."""


@pytest.mark.parametrize(("sound", "fault", "check"), CRITICS_FAULTS)
def test_a_fault_of_the_critic_alone_is_caught(sound, fault, check):
    turns = itertools.cycle((sound, fault))  # the critic is built after the actor

    def build(*args):
        return next(turns)(*args)

    method = spec(build, temporal=sound is Remembers)
    (detail,) = failures(method, checks=[check]).values()
    assert "critic" in detail


@pytest.mark.parametrize(
    ("builder", "what"),
    [
        (DiffersWhenCompiled, "outputs: environment 0"),
        (LearnsOtherwiseWhenCompiled, "gradients: their cosine"),
    ],
)
def test_a_network_that_compiles_to_another_one_is_caught(builder, what):
    (detail,) = failures(spec(builder), "aot_eager", checks=["torch.compile"]).values()
    assert f"compiling with aot_eager changes the actor's {what}" in detail


@pytest.mark.parametrize(
    ("builder", "detail"),
    [
        (DropsOften, "bit for bit"),
        (DropsInAttention, "bit for bit"),
        (AddsNoiseInTraining, "bit for bit; draws otherwise than by dropout in training"),
    ],
)
def test_training_mode_is_compared_without_dropout(builder, detail):
    _, result = check_method(spec(builder), "lite", checks=["repeatable"])
    assert (result.passed, result.detail) == (True, detail)


@pytest.mark.parametrize(
    ("builder", "detail"),
    [
        (Sound, "4 tensors"),
        (DropsOften, "20 tensors"),
        (RoundsInside, "4 tensors; compared in float32, roughly"),
        (TakesFloat32Only, "4 tensors; compared in float32, roughly"),
    ],
)
def test_gradients_are_compared_as_exactly_as_a_network_computes(builder, detail):
    _, result = check_method(spec(builder), "lite", checks=["gradients"])
    assert (result.passed, result.detail) == (True, detail)


def test_every_check_has_a_fault():
    assert {check for _, check, _ in FAULTS} | {"torch.compile"} == set(CHECKS)


@pytest.mark.parametrize(
    ("method", "only"),
    [
        (spec(UsesSlots, equivariant=False), set()),
        (spec(ReadsParents, uses_graph=True), set()),
        (spec(CountsSlots), {"more token slots"}),
        (spec(HasDeadParameter, count=165), {"gradients", "height map"}),
        (spec(IgnoresStarts, temporal=True), {"steps at once"}),
        (spec(WritesTable), {"inputs unchanged"}),
    ],
)
def test_other_checks_stay_quiet(method, only):
    assert set(failures(method)) == only


class DrawsAlways(Sound):
    """Noise that is no dropout: every comparison of outputs fails with it."""

    source = np.random.default_rng(0)

    def forward(self, tokens):
        return super().forward(tokens) * float(self.source.random())


class CutsLargeBatches(Sound):
    """Has a wrong shape in batches other than the one that building tries."""

    def forward(self, tokens):
        found = super().forward(tokens)
        return found if len(tokens) < 3 else found[:, :5]


@pytest.mark.parametrize(
    ("builder", "check"),
    [
        (DrawsAlways, "repeatable"),
        (DropsAlways, "repeatable"),
        (Overflows, "finite outputs"),
        (CutsLargeBatches, "output shapes"),
    ],
)
def test_outputs_that_cannot_be_compared_fail_no_comparison(builder, check):
    results = check_method(spec(builder), "lite", backend="none")
    failed = [result.name for result in results if result.passed is False]
    assert failed[0] == check
    assert set(failed) & COMPARISONS <= {check}
    skipped = {result.name: result.detail for result in results if result.passed is None}
    later = list(CHECKS)[list(CHECKS).index(check) + 1 :]
    assert skipped.keys() == COMPARISONS & set(later)
    assert set(skipped.values()) == {f"not made, because {check!r} has failed"}


class HidesNonPersistentBuffer(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.register_buffer("hidden", torch.rand(1), persistent=False)

    def forward(self, tokens):
        return super().forward(tokens) + self.hidden


@pytest.mark.parametrize("builder", [HidesTensor, HidesNonPersistentBuffer])
def test_a_tensor_that_is_not_saved_fails_no_comparison_with_a_new_network(builder):
    results = check_method(spec(builder), "lite", backend="none")
    (detail,) = (result.detail for result in results if result.passed is False)
    assert detail.startswith("a tensor that is neither parameter nor persistent buffer: saving and")
    skipped = {result.name: result.detail for result in results if result.passed is None}
    assert skipped.pop("torch.compile") == "skipped, as asked for"
    assert skipped.keys() == {"more token slots", "gradients", "fixed weights"}
    assert set(skipped.values()) == {"not made, because 'state dict' has failed"}


class IsHuge(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * 1e30


class IsNoNumberInTraining(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * (math.nan if self.training else 1.0)


def test_what_is_no_number_is_compared_with_nothing():
    (detail,) = failures(spec(IsHuge), checks=["state dict"]).values()
    assert detail.startswith("after 10 gradient steps on the mean square of outputs, the actor's")
    assert "outputs must be finite: environment 0" in detail
    assert detail.endswith(", slot 0, output 0 is nan")
    (detail,) = failures(spec(IsNoNumberInTraining), checks=["repeatable"]).values()
    assert detail.startswith("calling it again in training mode, with the same torch seed, cannot ")
    assert "cannot be judged, because the actor's outputs to compare with are not fin" in detail


def test_the_checked_policy_is_as_before_after_running_in_training_mode():
    subject = make_subject(spec(NormalisesBatch), "lite", "none")
    before = {key: value.clone() for key, value in subject.policy.state_dict().items()}
    with pytest.raises(CheckFailedError, match="training mode, apart from dropout, changes"):
        CHECKS["repeatable"](subject)
    assert not any(module.training for module in subject.policy.modules())
    for key, value in subject.policy.state_dict().items():
        assert torch.equal(value, before[key])


class SetsTorch(Sound):
    def forward(self, tokens):
        if tokens.dynamic.any():  # not when it is built
            torch.set_grad_enabled(False)
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(2 if torch.get_num_threads() == 1 else 1)
        return super().forward(tokens)


def test_what_a_method_sets_in_torch_is_undone():
    before = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    assert "gradients" in failures(spec(SetsTorch), preset="lite")
    assert (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()) == before


@pytest.mark.parametrize(
    "context", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")]
)
def test_no_method_is_blamed_for_what_its_caller_sets_in_torch(context):
    names = ["padding ignored", "gradients", "bfloat16"]
    usual = check_method(spec(Sound), checks=names, backend="none")
    with context():
        before = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
        assert check_method(spec(Sound), checks=names, backend="none") == usual
        assert (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) == before
    assert all(result.passed for result in usual)


def test_the_first_counterexample_says_where_and_what():
    detail = failures(spec(CountsSlots), checks=["more token slots"])["more token slots"]
    place, _, numbers = detail.partition("slot 0, output 0 is ")
    assert "environment 0 (body 2 with 2 limbs), " in place
    found, expected = (float(numbers.split()[i].strip(",")) for i in (0, 2))
    assert found / expected == pytest.approx(15 / 12, rel=1e-4)


def test_a_method_that_cannot_be_built_gives_one_result():
    described, result = check_method(spec("no_such_module:build"))
    assert described.passed
    assert result.name == "build"
    assert result.passed is False
    assert "no_such_module" in result.detail
    _, result = check_method(spec(Sound), "huge")
    assert "has no preset 'huge'" in result.detail


@pytest.mark.parametrize(
    ("limit", "failed"), [(150, False), (COUNT, False), (187, False), (188, True), (138, True)]
)
def test_lite_must_have_the_size_of_the_others(limit, failed, monkeypatch):
    monkeypatch.setattr(method_checks, "LITE_PARAMETERS", limit)
    found = failures(spec(Sound), preset="lite", checks=["parameter counts"])
    assert bool(found) is failed
    assert failures(spec(Sound), preset="paper", checks=["parameter counts"]) == {}
    untrained = dataclasses.replace(spec(Sound), trainable=False)
    assert failures(untrained, preset="lite", checks=["parameter counts"]) == {}


def test_the_limits_of_lite_are_those_of_the_guide(monkeypatch, repository):
    monkeypatch.undo()  # the size of these tests' methods
    for count in (119_085, 161_113):
        method_checks._require_size(count)
    for count in (119_084, 161_114):
        with pytest.raises(CheckFailedError, match=r"expected 119,085 to 161,113, so that"):
            method_checks._require_size(count)
    assert "119,085 to 161,113" in (repository / "docs" / "add-your-method.md").read_text()


def test_a_preset_without_a_stated_count_fails():
    method = dataclasses.replace(spec(Sound), parameters={})
    detail = failures(method, preset="lite", checks=["parameter counts"])["parameter counts"]
    assert "states nothing" in detail


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"paper": " "}, "'paper' of the method 'fake' is empty; name its source, or write 'unpub"),
        ({"presets": {"lite": {}}}, "the method 'fake' lacks the preset 'paper'; 'presets' must"),
        ({"parameters": {"lite": COUNT}}, "'parameters' of the method 'fake' states nothing for"),
        ({"parameters": {"paper": 1, "lite": 1, "lit": 1}}, "'lit', which is none of its presets"),
        ({"preset_capabilities": {"x": Capabilities()}}, "'preset_capabilities' of the method"),
        ({"training": {"ppo": {"target_kl": 0.1, "lr": 1e-3}}}, "sets 'ppo.lr' in 'training', but"),
        ({"training": {"env_steps": 1}}, "sets 'env_steps' in 'training'"),
        ({"training": {"ppo.target_kl": 0.1}}, "sets 'ppo.target_kl' in 'training'"),
        ({"training": {"ppo": {"target_kl": 0}}}, "to a positive number, got 0"),
        ({"training": {"ppo": {"target_kl": "0.1"}}}, "to a positive number, got '0.1'"),
        ({"env_steps_per_body": 0}, "'env_steps_per_body' of the method 'fake' must be at least 1"),
    ],
)
def test_an_incomplete_description_fails(changes, sentence):
    method = dataclasses.replace(spec(Sound), **changes)
    assert sentence in failures(method, checks=["description"])["description"]


def test_a_check_that_was_not_made_has_neither_passed_nor_failed():
    _, result = check_method(spec(Sound), "lite", checks=["torch.compile"], backend="none")
    assert (result.passed, result.detail) == (None, "skipped, as asked for")


def test_an_error_in_a_check_names_the_line():
    detail = failures(spec(NeedsTwoBodies), checks=["output shapes"])["output shapes"]
    line = NeedsTwoBodies.forward.__code__.co_firstlineno + 2
    assert detail == (
        f"raised ValueError: batch norm needs two bodies [test_check_method.py:{line}]"
    )


class LeavesForLargeBatches(Sound):
    def forward(self, tokens):
        if len(tokens) > 2:
            sys.exit(0)
        return super().forward(tokens)


def test_a_network_that_ends_the_process_fails_its_checks():
    found = failures(spec(LeavesForLargeBatches), checks=["finite outputs"])
    assert "raised SystemExit: 0 [test_check_method.py:" in found["finite outputs"]


class Prints(Sound):
    def forward(self, tokens):
        sys.stdout.write(f"forward {len(tokens)}\n")
        return super().forward(tokens)


def test_what_a_network_prints_is_logged_and_no_part_of_the_report(capsys, caplog):
    with caplog.at_level("INFO", logger="gmc_bench"):
        assert failures(spec(Prints), checks=["output shapes"]) == {}
    assert capsys.readouterr().out == ""
    assert "fake printed: forward 2 forward 2" in caplog.text


def test_presets_may_claim_something_else_but_no_other_way_of_being_called():
    claims = {"lite": Capabilities(permutation_equivariant=False)}
    method = dataclasses.replace(spec(Sound), preset_capabilities=claims)
    assert set(failures(method, preset="lite")) == {"limb order"}
    claims = {"lite": Capabilities(temporal=True)}
    method = dataclasses.replace(spec(Sound), preset_capabilities=claims)
    assert "must be the same in all presets" in failures(method, preset="lite")["build"]


def test_some_checks_can_be_chosen():
    chosen = ["gradients", "output shapes"]
    results = check_method(spec(Sound), "lite", checks=chosen)
    assert [result.name for result in results] == ["build", *chosen]
    twice = check_method(spec(Sound), "lite", checks=["description", "output shapes"] * 2)
    assert [result.name for result in twice] == ["description", "build", "output shapes"]
    with pytest.raises(ConfigError, match="unknown check 'gradient'; did you mean 'gradients'"):
        check_method(spec(Sound), checks=["gradient"])
    with pytest.raises(ConfigError, match="unknown backend 'inducter'; did you mean 'inductor'"):
        check_method(spec(Sound), backend="inducter")


def test_checks_leave_torchs_random_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    check_method(spec(Sound), backend="none")
    assert torch.equal(torch.rand(1), expected)


def test_the_example_method_has_a_positive_width(repository):
    example = METHODS.load(f"{repository / 'examples' / 'my_method.py'}:SPEC")
    for changes in ({"width": 0}, {"height_map_hidden": ()}):
        with pytest.raises(ConfigError):
            example.config_class()(**changes)


@pytest.mark.parametrize("preset", ["paper", "lite"])
def test_the_example_method_conforms(preset, repository, monkeypatch):
    monkeypatch.undo()
    example = METHODS.load(f"{repository / 'examples' / 'my_method.py'}:SPEC")
    assert failures(example, preset=preset) == {}
