"""Every UNIMAL task a second time, slow and plain, and the tests that compare."""
