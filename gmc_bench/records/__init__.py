"""Results of training runs: the record, its storage, and what it is measured on."""
