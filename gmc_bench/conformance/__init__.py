"""Public helpers for tests of methods, tasks and suites: bodies, records, conformance checks."""
