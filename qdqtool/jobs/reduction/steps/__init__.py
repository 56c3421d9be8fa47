"""The steps of a reduction: each makes candidates from the smallest model so far, and tries them."""
