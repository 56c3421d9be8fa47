"""Make candidate models from plans, measure them, and search for one that keeps an accuracy target."""
