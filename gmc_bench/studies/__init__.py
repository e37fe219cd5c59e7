"""Studies of trained policies that go beyond returns."""
