"""Apply the rules to files: policy, settings, accepted findings, fingerprints and worker processes."""
