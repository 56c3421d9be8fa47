"""Scripts that run in a process of their own, some of them in another environment: they import nothing of ours."""
