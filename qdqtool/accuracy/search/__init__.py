"""Make candidate models from plans, measure them, and search for a model that keeps an accuracy target."""
