"""Pictures of bodies and videos of evaluation episodes, drawn without a screen."""
