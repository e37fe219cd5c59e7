"""Batch of tokens, as torch tensors: the input of every controller."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar, TypeVarTuple

import numpy as np
import torch

from gmc_bench.nn.graph import LimbGraph
from gmc_bench.nn.packing import Packing, make_packing, make_padded_packing
from gmc_bench.tokens.serialization import Serialization
from gmc_bench.tokens.spec import TokenSpec

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _WorkedOut:
    """Cache of an object for results of functions of it; captured graphs read them in place."""

    def once(self, compute: Callable[[Self, *Ts], T], *args: *Ts) -> T:
        """Return the result of a function of this object alone, computed once and kept.

        Args:
            compute: the function; with equal arguments it is called once.
            args: its further arguments, hashable.
        """
        key = (compute, *args)
        if key not in self._worked_out:
            self._worked_out.setdefault(key, compute(self, *args))
        found: T = self._worked_out[key]
        return found

    @cached_property
    def _worked_out(self) -> dict[Any, Any]:
        return {}


@dataclass(frozen=True)
class TokenTable(_WorkedOut):
    """Everything that is fixed by the bodies, once per morphology.

    Shapes:
        `context` (M, L, Fc) float32, normalised as part of the features; `scaled_context`
        (M, L, Fc) float32, the same numbers scaled to [-1, 1] over the training bodies, for
        networks that are conditioned on the body; `limb_padding_mask` (M, L) bool;
        `action_padding_mask` (M, L, J) bool; `parents` (M, L) int64, -1 torso, -2 padding;
        `num_limbs` (M,) int64; `loops` (M, E, 2) int64, limbs that are joined outside the tree,
        -1 where a body has fewer, `None` if no body has a closed loop.
    """

    spec: TokenSpec
    context: torch.Tensor
    scaled_context: torch.Tensor
    limb_padding_mask: torch.Tensor
    action_padding_mask: torch.Tensor
    parents: torch.Tensor
    num_limbs: torch.Tensor
    loops: torch.Tensor | None = None

    def __len__(self) -> int:
        return self.num_limbs.shape[0]

    @cached_property
    def graph(self) -> LimbGraph:
        """The limb graph of every body."""
        return LimbGraph(self.parents, self.limb_padding_mask, self.loops)

    @cached_property
    def feature_order(self) -> torch.Tensor:
        """(F,) int64, place of every feature among time-varying features and context, joined."""
        joined = np.concatenate((self.spec.dynamic_indices, self.spec.context_indices))
        return torch.from_numpy(np.argsort(joined)).to(self.num_limbs.device)

    def serialized(self, serialization: Serialization) -> "TokenTable":
        """Return a table with a row for every sequence of tokens, rearranged."""
        if serialization.canonical:
            return self
        body = torch.from_numpy(serialization.body).to(self.num_limbs.device)
        limbs = torch.from_numpy(serialization.limbs).to(body.device)

        def arranged(values: torch.Tensor) -> torch.Tensor:
            index = limbs.view(*limbs.shape, *(1,) * (values.ndim - 2))
            return values[body].gather(1, index.expand(-1, -1, *values.shape[2:]))

        parents = serialization.parents(self.parents.numpy(force=True))
        loops = None
        if self.loops is not None:
            places = serialization.loops(self.loops.numpy(force=True))
            loops = torch.from_numpy(places).to(body.device)
        return TokenTable(
            spec=self.spec,
            context=arranged(self.context),
            scaled_context=arranged(self.scaled_context),
            limb_padding_mask=self.limb_padding_mask[body],
            action_padding_mask=arranged(self.action_padding_mask),
            parents=torch.from_numpy(parents).to(body.device),
            num_limbs=self.num_limbs[body],
            loops=loops,
        )

    def to(self, device: torch.device | str) -> "TokenTable":
        """Return the table on another device."""
        moved: dict[str, Any] = {name: value.to(device) for name, value in self.tensors().items()}
        return replace(self, **moved)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all tensors that there are by name; each has one row per body."""
        found = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class TokenBatch(_WorkedOut):
    """The tokens of B environments.

    Functions given to `once` must depend on the bodies alone: `showing` passes their results on to
    batches with other features.

    Args:
        table: the bodies' fixed part.
        morphology_index: (B,) int64, row of each environment's body in `table`.
        dynamic: (B, L, Fd) float32, normalised time-varying features; padding is arbitrary.
        height_map: (B, G) float32, heights of the ground around the torso, where the layout has
            them.
        padded: rows include padding, whose numbers are arbitrary and count nowhere; shapes then
            depend on no body. Only for networks that support such rows (`padded_rows`).
    """

    table: TokenTable
    morphology_index: torch.Tensor
    dynamic: torch.Tensor
    height_map: torch.Tensor | None = None
    padded: bool = False

    @property
    def spec(self) -> TokenSpec:
        """Layout of the tokens."""
        return self.table.spec

    def __len__(self) -> int:
        return self.dynamic.shape[0]

    def showing(
        self, dynamic: torch.Tensor, height_map: torch.Tensor | None = None
    ) -> "TokenBatch":
        """Return a batch with other features of the same bodies.

        What has been computed about the bodies is kept.

        Args:
            dynamic: (B, L, Fd) float32, as in this class.
            height_map: (B, G) float32, likewise.
        """
        found = replace(self, dynamic=dynamic, height_map=height_map)
        own = {field.name for field in fields(self)} | {"features", "packed_features"}
        vars(found).update({name: value for name, value in vars(self).items() if name not in own})
        return found

    @cached_property
    def features(self) -> torch.Tensor:
        """(B, L, F) float32, all features in the documented order."""
        context = self.table.context[self.morphology_index]
        found = torch.cat((self.dynamic, context.to(self.dynamic.dtype)), dim=2)
        return found.index_select(2, self.table.feature_order)

    @cached_property
    def packing(self) -> Packing:
        """Layout of the rows of real limbs; made once and shared by all networks of the batch."""
        if self.padded:
            return make_padded_packing(self.num_limbs, self.spec.max_limbs)
        return make_packing(self.num_limbs, self.spec.max_limbs)

    @cached_property
    def packed_features(self) -> torch.Tensor:
        """(P, F) float32, the features of the real limbs, laid out by `packing`."""
        packing, spec = self.packing, self.spec
        table_rows = self.morphology_index[packing.bodies] * spec.max_limbs + packing.positions
        context = self.table.context.flatten(0, 1).index_select(0, table_rows)
        found = torch.cat((packing.pack(self.dynamic), context), dim=1)
        return found.index_select(1, self.table.feature_order)

    @cached_property
    def bodies(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The different bodies shown: rows (U,) int64 of the table, and (B,) places among them.

        With `padded`, all bodies of the table.
        """
        if self.padded:
            rows = torch.arange(len(self.table), device=self.morphology_index.device)
            return rows, self.morphology_index
        found, index = torch.unique(self.morphology_index, return_inverse=True)
        return found, index

    @cached_property
    def packed_parents(self) -> torch.Tensor:
        """(P,) int64, row of each limb's parent among the packed rows; -1 for a torso."""
        packing = self.packing
        parents = packing.pack(self.parents)
        rows = self._packed_rows[packing.bodies * self.spec.max_limbs + parents.clamp(min=0)]
        return torch.where(parents >= 0, rows, -1)

    @cached_property
    def _packed_rows(self) -> torch.Tensor:
        """(B * L,) int64, packed row of each place; arbitrary in padding."""
        packing, slots = self.packing, self.packing.slots
        found = torch.empty(len(self) * self.spec.max_limbs, dtype=torch.int64, device=slots.device)
        found[slots] = torch.arange(packing.num_rows, device=slots.device)
        return found

    @cached_property
    def packed_edges(self) -> torch.Tensor:
        """(2, E) int64, packed rows of source and target; every edge once in each direction.

        The edges are the joints of the tree and, after them, the closed loops.
        """
        child = (self.packed_parents >= 0).nonzero().squeeze(1)
        parent = self.packed_parents[child]
        if self.table.loops is not None:
            loops = self.table.loops[self.morphology_index]
            body, place = (loops[..., 0] >= 0).nonzero(as_tuple=True)
            ends = self._packed_rows[body.unsqueeze(1) * self.spec.max_limbs + loops[body, place]]
            child, parent = torch.cat((child, ends[:, 0])), torch.cat((parent, ends[:, 1]))
        return torch.stack((torch.cat((child, parent)), torch.cat((parent, child))))

    @cached_property
    def limb_padding_mask(self) -> torch.Tensor:
        """(B, L) bool, True = padding."""
        return self.table.limb_padding_mask[self.morphology_index]

    @cached_property
    def action_padding_mask(self) -> torch.Tensor:
        """(B, L, J) bool, True where the limb has no such actuator, and in padding."""
        return self.table.action_padding_mask[self.morphology_index]

    @cached_property
    def parents(self) -> torch.Tensor:
        """(B, L) int64, slot of each limb's parent; -1 torso, -2 padding."""
        return self.table.parents[self.morphology_index]

    @cached_property
    def num_limbs(self) -> torch.Tensor:
        """(B,) int64, real limbs."""
        return self.table.num_limbs[self.morphology_index]
