"""Foundation of all other packages: settings, registries, errors and array types."""
