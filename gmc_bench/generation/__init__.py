"""Growing robot bodies from seeds, and the released sets that were grown."""
