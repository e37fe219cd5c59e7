"""Sources of the quadrupeds' numbers: public repositories and the file in each.

The short hash names the commit that was read. A text on a robot that says "derived" was computed
from the file it names by adding up rigidly attached parts; "chosen here" is this package's own
choice, with the published numbers it lies between.
"""

MENAGERIE_GO1 = "google-deepmind/mujoco_menagerie unitree_go1/go1.xml (28ffb48b)"
MENAGERIE_GO2 = "google-deepmind/mujoco_menagerie unitree_go2/go2.xml (2ffe3e33)"
MENAGERIE_ANYMAL_B = "google-deepmind/mujoco_menagerie anybotics_anymal_b/anymal_b.xml (1b428b08)"
MENAGERIE_ANYMAL_C = "google-deepmind/mujoco_menagerie anybotics_anymal_c/anymal_c.xml (1b428b08)"
URDF_GO1 = "unitreerobotics/unitree_ros robots/go1_description/urdf/go1.urdf (4590b76e)"
URDF_GO2 = "unitreerobotics/unitree_rl_gym resources/robots/go2/urdf/go2.urdf (276801e4)"
URDF_GO2_ROTORS = (
    "unitreerobotics/unitree_ros robots/go2_description/urdf/go2_description.urdf (a3b70cae)"
)
URDF_ANYMAL_B = "ANYbotics/anymal_b_simple_description urdf/anymal.urdf (988b5df2)"
URDF_ANYMAL_C = "ANYbotics/anymal_c_simple_description urdf/anymal.urdf (87b68511)"
ISAACLAB_UNITREE = (
    "isaac-sim/IsaacLab source/isaaclab_assets/isaaclab_assets/robots/unitree.py (022008d2)"
)
ISAACLAB_ANYMAL = (
    "isaac-sim/IsaacLab source/isaaclab_assets/isaaclab_assets/robots/anymal.py (05507244)"
)
ISAACLAB_ANYMAL_ORDER = "isaac-sim/IsaacLab mdp/symmetry/anymal.py"
ISAACLAB_KNEES = "isaac-sim/IsaacLab pull request #7564"
ISAACLAB_ARMATURE = "isaac-sim/IsaacLab pull request #7612"
LEGGED_GYM = (
    "leggedrobotics/legged_gym "
    "legged_gym/envs/anymal_c/mixed_terrains/anymal_c_rough_config.py (8fa29acc)"
)
MJLAB_GO1 = "mujocolab/mjlab src/mjlab/asset_zoo/robots/unitree_go1/go1_constants.py (0eda4e73)"
PLAYGROUND_GO1 = (
    "google-deepmind/mujoco_playground mujoco_playground/_src/locomotion/go1/joystick.py (d5e6b475)"
)
WALK_THESE_WAYS = "Improbable-AI/walk-these-ways go1_gym/envs/go1/go1_config.py (c7060d13)"
