"""The steps of a reduction: each makes candidates of the smallest model so far, and tries them."""
