"""Training: rollouts, proximal policy optimisation, checkpoints. The only user of tianshou."""
