"""All studies, by name."""

from fractions import Fraction

from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.studies.schema import Arm, Study

_YES, _NO = "yes", "-"


def _component(name: str, label: str, suffix: str, count: int) -> Arm:
    parts = ("Residual", "RMSNorm", "Channel modulation")
    held = {part: _YES if index < count else _NO for index, part in enumerate(parts)}
    return Arm(name=name, label=label, preset_suffix=suffix, parts=held)


COMPONENTS = Study(
    id="components",
    title="Component ablation",
    question="What does each part that stabilises the recurrence contribute?",
    arms=(
        _component("plain", "Plain BiRNN", "-plain", 0),
        _component("matched", "Param.-matched", "-plain-matched", 0),
        _component("residual", "+ Residual", "-residual", 1),
        _component("rms-norm", "+ RMSNorm", "-rms-norm", 2),
        _component("full", "Full RecMorph", "", 3),
    ),
    methods=("recmorph",),
    published_label="tab:ablation",
    source="The RecMorph paper, Table I.",
)

ORDERING = Study(
    id="ordering",
    title="Order of limbs",
    question="Does the order in which limbs are read matter?",
    arms=(
        Arm(name="dfs", label="Depth first"),
        Arm(name="bfs", label="Breadth first", settings={"tokens.order": "bfs"}),
        Arm(name="random", label="Random", settings={"tokens.order": "random"}),
    ),
    source="The RecMorph paper, Fig. 8 (curves only). A random order is drawn once per body, the "
    "torso included; which of these the paper does is not said.",
)

SIBLINGS = Study(
    id="siblings",
    title="Robustness to the order of siblings",
    question="How much does a policy depend on which of a limb's children is read first?",
    arms=(
        Arm(name="canonical", label="C", parts={"Trained on": "canonical order"}),
        Arm(
            name="permuted",
            label="P",
            settings={"tokens.order": "siblings"},
            parts={"Trained on": "a sibling order drawn for each episode"},
        ),
    ),
    measure="siblings",
    published_label="tab:sibling",
    source="The RecMorph paper, Table II. Most bodies have fewer than 50 sibling orders: all of "
    "them are tested then, half of which (rounded up) are kept from augmented training.",
)

ATTRIBUTES = Study(
    id="attributes",
    title="Topology-dependent attributes",
    question="What is lost without the features that tell where limbs are and how they are turned?",
    arms=(
        Arm(name="all", label="All attributes", parts={"Features per limb": "52"}),
        Arm(
            name="hardware",
            label="Topology attributes removed",
            settings={"tokens.attributes": "hardware"},
            parts={"Features per limb": "32"},
        ),
    ),
    tasks=(),
    source="The RecMorph paper, appendix on topology-dependent attributes (bars only). Removed "
    "features do not exist for the networks; the paper does not say whether they were zero.",
)


def _cells() -> tuple[Arm, ...]:
    cells = {
        "birnn": ("BiRNN", "recmorph"),
        "bigru": ("BiGRU", "recmorph-bigru"),
        "bilstm": ("BiLSTM", "recmorph-bilstm"),
        "bimamba2": ("BiMamba2", "recmorph-bimamba2"),
    }
    return tuple(
        Arm(
            name=f"{name}-{blocks}",
            label=f"{title}, {blocks} blocks",
            method=method,
            settings={"model.num_blocks": blocks},
            parts={"Cell": title, "Blocks": str(blocks)},
        )
        for blocks in (2, 4)
        for name, (title, method) in cells.items()
    )


CELLS = Study(
    id="cells",
    title="Recurrent cells",
    question="Does the benefit depend on the recurrent cell?",
    arms=_cells(),
    tasks=(),
    methods=("recmorph",),
    source="The RecMorph paper, Fig. 4 (four blocks), appendix on Mamba2 (two); curves only.",
)

REPRESENTATION = Study(
    id="representation",
    title="Limb representations before and after communication",
    question="What do linear probes find in a limb's representation?",
    arms=(Arm(name="trained", label="Trained policy"),),
    measure="representation",
    published_label="tab:probes",
    source="The RecMorph paper, Table III and the appendix on the feature space. Where a method "
    "decodes actions with one linear layer, mean actions are a linear function of what follows "
    "communication, so that their R2 is 1 there by construction: only R2 before it compares "
    "methods.",
)

GAIT = Study(
    id="gait",
    title="Gait",
    question="How regular is the walk that a policy has learned?",
    arms=(
        Arm(name="method", label="the method"),
        Arm(name="other", label="for comparison", method="metamorph-star"),
    ),
    measure="gait",
    source="The RecMorph paper, appendix on qualitative locomotion (pictures only).",
)

FRICTION = Study(
    id="friction",
    title="Quadrupeds on three frictions",
    question="How well does one policy for four quadrupeds track a velocity as friction changes?",
    arms=(
        Arm(name="method", label="the method"),
        Arm(name="specialists", label="one MLP per robot", method="mlp"),
    ),
    tasks=(),
    suite="quadruped-friction",
    many_methods=True,
    measure="friction",
    published_label="tab:friction",
    source="The RecMorph paper, Tables IV and V. "
    "It states no command, no horizon and not what follows a fall: see docs/quadrupeds.md.",
)

BUDGET = Study(
    id="budget",
    title="Rankings at several budgets",
    question="Does a short training rank methods as a long one does?",
    arms=(),
    many_methods=True,
    asked=("recmorph", "metamorph-star", "nervenet", "modumorph"),
    budgets=(Fraction(1, 3), Fraction(1), Fraction(10)),
    measure="budget",
    source="Multiples of the protocol's env steps.",
)

BODIES = Study(
    id="bodies",
    title="Generalisation and the number of train bodies",
    question="How do scores on unseen bodies grow with the number of bodies that were trained on?",
    arms=(),
    many_methods=True,
    asked=("recmorph", "metamorph-star", "modumorph", "nervenet"),
    body_counts=(10, 30, 100, 300, 1000),
    body_set="gmc-unimal-1k-v1",
    measure="bodies",
    source="Equal env steps, or equal steps per body. Runs with other seeds train on other bodies.",
)

STUDIES = {
    study.id: study
    for study in (
        COMPONENTS, ORDERING, SIBLINGS, ATTRIBUTES, CELLS, REPRESENTATION, GAIT, FRICTION, BUDGET,
        BODIES,
    )
}  # fmt: skip
"""By id, in the order of the documentation."""


def get_study(name: str) -> Study:
    """Return a study.

    Raises:
        ConfigError: unknown name.
    """
    if name == "scaling":
        raise ConfigError(
            "the study 'scaling' trains nothing and has other options; run it with "
            "gmc_bench.studies.scaling_study.run, or 'gmc-bench study scaling'"
        )
    if name not in STUDIES:
        raise ConfigError(f"unknown study {name!r}{did_you_mean(name, [*STUDIES, 'scaling'])}")
    return STUDIES[name]
