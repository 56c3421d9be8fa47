"""Read saved JSON reports, and find out which reports are about the same model."""
