"""What several rooms ask about a graph and can only be told by what is known of operators."""
