"""Tables made from run records: records in, text files out."""
