"""The feature table of the documentation, made from the layout itself."""

from gmc_bench.tokens.spec import TokenSpec

HEADER = """\
# Tokens

One token per limb in depth-first order, torso first, padded to the suite's number of slots.
Quadrupeds have another layout, one token of 32 features for each of twelve actuators
(`gmc_bench/tokens/spec.py`; [quadrupeds](quadrupeds.md)); the height map of some tasks comes beside
the tokens ([tasks](tasks.md)). This
table is generated from `gmc_bench.tokens.TokenSpec`; a test keeps it up to date.

`dynamic` features change at every step and are stored in observations; `context` features are
fixed by the body and stored once per body in a table. Positions and orientations are those at the
start of the last engine step, joint angles and all velocities the latest ones, as in the public
environments. Joint slots that a limb does not have are zero, and so is padding.

Slides have m, m/s and N where the table says rad, rad/s and N m. Of a limb with several shapes,
`geom_quat` and `body_shape` describe the largest. Of a box or ellipsoid, `body_shape` holds the
half sizes along the first two of its own axes; the third is left out.

A body with closed loops is read along a spanning tree of its graph: that of its joints, or with
`--tokens.tree breadth-first` one grown breadth first over all edges. Suites of such bodies add a
last feature, `in_loop`: 1 for limbs that are part of a loop, the torso included, 0 for all others.

"""


def feature_table(spec: TokenSpec) -> str:
    """Return the documentation page of a token layout, Markdown."""
    lines = ["| place | name | kind | unit | frame |", "| --- | --- | --- | --- | --- |"]
    for group in spec.slices:
        last = group.stop - 1
        place = str(group.start) if group.width == 1 else f"{group.start}-{last}"
        lines.append(f"| {place} | `{group.name}` | {group.kind} | {group.unit} | {group.frame} |")
    total = (
        f"\n{spec.num_features} features with {spec.joints_per_limb} joint slots per limb: "
        f"{spec.num_dynamic} dynamic, {spec.num_context} context. "
        f"Each token takes {spec.actions_per_token} actions, one per joint slot.\n"
    )
    return HEADER + "\n".join(lines) + "\n" + total
